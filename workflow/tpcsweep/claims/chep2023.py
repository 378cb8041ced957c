"""Claims of "400Gbps benchmark of XRootD HTTP-TPC" (CHEP 2023): two clusters in Kubernetes, RTT by tc."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, Need
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import MORE, NO_LOSS, Decision, Region, about, both, largest, mean_exponent, most
from tpcsweep.claims.predicates import (
    MEASURE_MORE,
    cell_rows,
    counted,
    cpu_bound,
    curve_peaks,
    nothing_there,
    pair_rows,
    peak_rows,
    ratio,
    reached,
    said,
    spans,
)

_HOUR = 3000.0
"""Seconds that count as about an hour."""
_INVERSE = Region(-1.15, -0.85)
"""Exponents of RTT that count as 1/RTT."""
GFAL_FASTER = Region(1 + 0.15 / 1.5, 1 + 0.15 * 1.5)
"""Ratios of gfal-copy to curl that count as 15 % better."""


def _saturate(cells: Cells) -> Finding:
    rows = cells.trusted
    at_scale = rows[
        (rows["bandwidth"] >= 400) & rows["rtt"].between(2, 5) & rows["streams"].between(468, 572)
    ]
    if at_scale.empty:
        return nothing_there("at 400 Gbit/s, about 3 ms and about 520 streams")
    long = at_scale[at_scale["duration"] >= _HOUR]
    if long.empty:
        reason = f"the longest of {len(at_scale)} cells took {at_scale['duration'].max():.0f} s, and an hour is needed"
        advice = "sweep measurement: {until: seconds, seconds: 1 h}"
        return Finding(None, reason, rows=cell_rows(at_scale, cells), advice=advice)
    points = cells.points(long)
    interval = largest(points["throughput"], points["error"])
    region = reached(400)
    decision = region.decide(interval)
    if interval is None:
        return nothing_there("that took an hour")
    reason = f"{len(points)} points of an hour; {said(interval, region, ' Gbit/s')}"
    effect = Effect("largest throughput over an hour", interval, "Gbit/s")
    return Finding(decision, reason, effect, cell_rows(points, cells), MEASURE_MORE)


def _streams_peak(cells: Cells) -> Finding:
    rows = cells.trusted
    values = sorted(rows["cores"].unique())
    few = rows[rows["cores"].isin(values[: len(values) // 2])]
    bound = curve_peaks(cells, few, cpu_bound)
    if not bound:
        reason = (
            "no curve with few cores has three trustworthy streams values or more and uses up the servers' CPU "
            "at the most streams, below the path's bandwidth"
        )
        return Finding(None, reason, advice="sweep fewer cores, more streams, or more bandwidth")
    decisions: list[Decision] = [found.decision for _, found in bound]
    clearest = max((found for _, found in bound), key=lambda found: (found.decision is True, found.ratio.low))
    reason = (
        f"{len(bound)} curves with few cores that use up the servers' CPU have a peak: {counted(decisions)}"
    )
    effect = Effect("throughput at the peak over that after it, clearest curve", clearest.ratio)
    advice = f"sweep more streams values, fewer and more than those there; {MEASURE_MORE}"
    return Finding(most(decisions), reason, effect, peak_rows(bound, cells), advice)


def _far_apart(pairs: pd.DataFrame) -> pd.Series:
    full = pairs["before_full"].astype(bool) | pairs["after_full"].astype(bool)
    return ~full & (pairs["to"] >= 3 * pairs["from"])


def _rtt_not_linear(cells: Cells) -> Finding:
    rows = cells.trusted
    kept, left = cells.pairs(rows[rows["rtt"].between(8, 75)], "rtt", speaks=_far_apart)
    aside = f"; {left} left out in which an end fills the path, or that differ less" if left else ""
    exponent = mean_exponent(kept["ratio"], kept["error"], kept["to"] / kept["from"]) if len(kept) else None
    if exponent is None:
        reason = f"pairs that differ only in RTT, three-fold or more in 8 to 75 ms: {len(kept)}{aside}; 3 are needed"
        advice = "sweep rtt: [10 ms, 20 ms, 40 ms, 60 ms] with several streams"
        return Finding(None, reason, rows=pair_rows(kept), advice=advice)
    inverse = _INVERSE.decide(exponent)
    lies = {True: "is that of 1/RTT", False: "is not that of 1/RTT", None: "may be that of 1/RTT or not"}[
        inverse
    ]
    reason = (
        f"{len(kept)} pairs that differ only in RTT{aside}, {spans(kept)}: throughput goes as RTT to the "
        f"{exponent.value:.2f} ({exponent.low:.2f} to {exponent.high:.2f}), which {lies} ({_INVERSE})"
    )
    decision = None if inverse is None else not inverse
    return Finding(decision, reason, Effect("exponent of RTT", exponent), pair_rows(kept), MEASURE_MORE)


def _rtt120_cap(cells: Cells) -> Finding:
    rows = cells.trusted
    rows = rows[(rows["origins"] == 2) & (rows["cores"] >= 128) & (rows["bandwidth"] >= 10)]
    rows = rows[rows["rtt"].between(110, 130)]
    points = cells.points(rows[rows["streams"] >= 10])
    top = largest(points["throughput"], points["error"])
    # The smallest is the largest of what is negative.
    bottom = largest(-points["throughput"], points["error"])
    if top is None or bottom is None or points["streams"].max() < 400:
        return nothing_there("with 2 origins, 128 cores or more, up to 400 streams or more and about 120 ms")
    region = about(1)
    from_bottom = Region(-region.high, -region.low).decide(bottom)
    decision = both([region.decide(top), from_bottom])
    least = f"the least is {-bottom.value:.3g} Gbit/s"
    reason = f"the best of {len(points)} points: {said(top, region, ' Gbit/s')}; {least}"
    effect = Effect("largest throughput at 120 ms", top, "Gbit/s")
    return Finding(decision, reason, effect, cell_rows(points, cells), MEASURE_MORE)


def _five_fold(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["rtt"] <= 0.5) | rows["rtt"].between(8, 12)]


def _several_origins(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["origins"] > 1]


CLAIMS = (
    Claim(
        "chep2023.saturate",
        "520 streams (40 for each of 13 destination servers) sustain 400 Gbit/s for about an hour at 3 ms",
        "at 400 Gbit/s or more, 2 to 5 ms and 520 streams ± 10 %, a cell of 3000 s or more has a mean of "
        f"{reached(400)} Gbit/s",
        needs=(
            Need("bandwidth", low=400, sweep="bandwidth: 400 Gbit/s"),
            Need("rtt", low=2, high=5, sweep="rtt: 3 ms"),
            Need("streams", low=468, high=572, sweep="streams: 520"),
        ),
        test=_saturate,
    ),
    Claim(
        "chep2023.streams_peak",
        "with few cores throughput first rises with streams, then falls when the CPU is saturated",
        "of the curves over streams with the fewer half of the cores values, that at the most streams use 90 % of "
        "their cores (where CPU was recorded) and do not fill the path, most rise and then fall by more than noise",
        needs=(
            KNOWN_PATH,
            Need("streams", count=3, sweep="streams: [1, 2, 4, 8, 16, 32]"),
            Need("cores", count=2, sweep="cores: [1, 4]"),
        ),
        test=_streams_peak,
    ),
    Claim(
        "chep2023.origins_help",
        "at the same total of cores, more origins give more throughput",
        f"mean ratio of the most to the fewest origins, all else equal, where not both fill the path: {MORE}",
        needs=(
            KNOWN_PATH,
            Need("origins", count=2, sweep="origins: [1, 2, 4]"),
            Need("cores", sweep="cores: 4"),
        ),
        test=ratio("origins", MORE, "throughput with the most origins over that with the fewest"),
    ),
    Claim(
        "chep2023.rtt_fivefold",
        "going from 0.1 to 10 ms (tc) cuts the throughput about five-fold",
        f"mean ratio of about 10 ms to 0.5 ms or less, all else equal, where neither fills the path: {about(1 / 5)}",
        needs=(
            KNOWN_PATH,
            Need("rtt", high=0.5, sweep="rtt: [0, 10 ms]"),
            Need("rtt", low=8, high=12, sweep="rtt: [0, 10 ms]"),
        ),
        test=ratio(
            "rtt",
            about(1 / 5),
            "throughput at 10 ms over that at 0.1 ms",
            room="everywhere",
            choose=_five_fold,
        ),
    ),
    Claim(
        "chep2023.rtt_not_linear",
        "at a fixed number of streams throughput does not scale as 1/RTT from 10 to 60 ms",
        "the mean exponent of RTT, between RTTs of 8 to 75 ms three-fold or more apart, where neither end fills the "
        f"path, lies outside {_INVERSE}",
        needs=(
            KNOWN_PATH,
            Need("rtt", count=2, low=8, high=75, sweep="rtt: [10 ms, 20 ms, 40 ms, 60 ms]"),
        ),
        test=_rtt_not_linear,
    ),
    Claim(
        "chep2023.rtt120_cap",
        "2 origins, 128 cores each, up to 500 streams: about 1 Gbit/s at 120 ms (tc), whatever the streams",
        "with 2 origins, 128 cores or more, a path of 10 Gbit/s or more, 110 to 130 ms and 10 streams or more, all "
        f"throughputs are {about(1)} Gbit/s",
        needs=(
            Need("origins", low=2, high=2, sweep="origins: 2"),
            Need("cores", low=128, sweep="cores: 128"),
            Need("rtt", low=110, high=130, sweep="rtt: 120 ms"),
            Need("streams", count=2, low=10, sweep="streams: [10, 100, 500]"),
            Need("streams", low=400, sweep="streams: [10, 100, 500]"),
            Need("bandwidth", low=10, sweep="bandwidth: 100 Gbit/s"),
        ),
        test=_rtt120_cap,
    ),
    Claim(
        "chep2023.redirector_free",
        "a redirector costs nothing noticeable against hand-picked pairs",
        f"mean ratio of redirector to direct, all else equal, of cells with several origins: {NO_LOSS}",
        needs=(
            Need(
                "endpoint",
                words=(frozenset({"redirector"}), frozenset({"direct"})),
                sweep="endpoint: [redirector, direct]",
            ),
            Need("origins", low=2, sweep="origins: 2"),
        ),
        test=ratio(
            "endpoint",
            NO_LOSS,
            "throughput through the redirector over that without",
            values=("direct", "redirector"),
            room=None,
            choose=_several_origins,
        ),
    ),
    Claim(
        "chep2023.gfal_vs_curl",
        "gfal-copy performs 15 % better than curl",
        f"mean ratio of gfal-copy to curl, all else equal, where not both fill the path: {GFAL_FASTER}",
        needs=(
            KNOWN_PATH,
            Need(
                "tool", words=(frozenset({"gfal-copy"}), frozenset({"curl"})), sweep="tool: [gfal-copy, curl]"
            ),
        ),
        test=ratio(
            "tool",
            GFAL_FASTER,
            "throughput of gfal-copy over that of curl",
            values=("curl", "gfal-copy"),
        ),
    ),
    Claim(
        "chep2023.tc_residue",
        "undoing tc delays took a reboot",
        "nothing that a dataset holds",
        beyond="every deployment has a path of its own, which goes with it, so that no cell has a delay undone before "
        "it; what is needed is one interface's RTT before a delay was set, with it, and after it was undone",
        advice="set and undo a delay by hand on one interface, with ping before and after (docs/paths.md)",
    ),
)
