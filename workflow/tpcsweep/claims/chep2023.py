# SPDX-License-Identifier: Apache-2.0
"""Claims of "400Gbps benchmark of XRootD HTTP-TPC" (CHEP 2023): two clusters in Kubernetes, RTT by tc."""

from __future__ import annotations

from math import inf

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import KNOWN_PATH, MEASURE_MORE, Claim, Effect, Finding, needs
from tpcsweep.claims.cells import CPU_BOUND, Cells
from tpcsweep.claims.effects import (
    LESS,
    MORE,
    NO_GAIN,
    NO_LOSS,
    Interval,
    Region,
    about,
    both,
    exponents,
    largest,
    mean_exponent,
    most,
)
from tpcsweep.claims.predicates import (
    best,
    cell_rows,
    clearest,
    compare,
    counted,
    cpu_bound,
    curve_peaks,
    has_room,
    level,
    nothing_there,
    pair_rows,
    peak_row,
    ratio,
    reached,
    said,
    spans,
    together,
)

_HOUR = 3000.0
"""Seconds that count as about an hour."""
_LITTLE = Region(high=1.1)
"""Largest seconds over the mean that are little fluctuation: the publication says no number."""
_FAR = 40.0
"""RTTs in ms from which on streams are said not to help."""
INVERSE = Region(-1.15, -0.85)
"""Exponents of RTT that count as 1/RTT."""
GFAL_FASTER = Region(1 + 0.15 / 1.5, 1 + 0.15 * 1.5)
"""Ratios of gfal-copy to curl that count as 15 % better."""


def _saturate(cells: Cells) -> Finding:
    long = _of_an_hour(cells)
    if isinstance(long, Finding):
        return long
    interval, points = best(cells, long)
    if interval is None:
        return nothing_there("that took an hour")
    region = reached(400)
    reason = f"{len(points)} points of an hour; {said(interval, region, ' Gbit/s')}"
    effect = Effect("largest throughput over an hour", interval, "Gbit/s")
    return Finding(region.decide(interval), reason, effect, cell_rows(points, cells))


def _little_fluctuation(cells: Cells) -> Finding:
    long = _of_an_hour(cells)
    if isinstance(long, Finding):
        return long
    long = long.dropna(subset=["throughput_max"])
    above = long["throughput_max"] / long["throughput"]
    interval = largest(above, above * long["error"] / long["throughput"])
    if interval is None:
        return nothing_there("that took an hour and tells its largest second")
    rows = [{**cells.where(row), "largest_second_over_mean": above[at]} for at, row in long.iterrows()]
    subject = f"the most of {len(long)} cells of an hour"
    return together(
        [(subject, interval, _LITTLE, rows)], Effect("largest second over the mean of an hour", interval)
    )


def _of_an_hour(cells: Cells) -> pd.DataFrame | Finding:
    """The cells of the main test that took an hour, or why there is none."""
    at_scale = cells.trusted.query("bandwidth >= 400 and 2 <= rtt <= 5 and 468 <= streams <= 572")
    if at_scale.empty:
        return nothing_there("at 400 Gbit/s, about 3 ms and about 520 streams")
    long = at_scale[at_scale["duration"] >= _HOUR]
    if long.empty:
        reason = f"the longest of {len(at_scale)} cells took {at_scale['duration'].max():.0f} s, and an hour is needed"
        advice = "sweep measurement: {until: seconds, seconds: 1 h}"
        return Finding(None, reason, rows=cell_rows(at_scale, cells), advice=advice)
    return long


def _streams_required(cells: Cells) -> Finding:
    at_scale = cells.trusted.query("bandwidth >= 400 and 2 <= rtt <= 5")
    every, all_points = best(cells, at_scale.query("468 <= streams <= 572"), 2)
    half, half_points = best(cells, at_scale.query("streams <= 260"), 2)
    if every is None or half is None:
        return nothing_there(
            "at 400 Gbit/s and about 3 ms with about 520 streams, and with half of them or fewer"
        )
    share = Interval(half.value / every.value, half.low / every.high, half.high / every.low)
    subject = (
        f"the best of {len(half_points)} points with half of the streams or fewer over that with about 520"
    )
    rows = [*cell_rows(half_points, cells), *cell_rows(all_points, cells)]
    return together(
        [(subject, share, LESS, rows)],
        Effect("throughput of half of 520 streams or fewer over theirs", share),
    )


def _streams_stop_helping(cells: Cells) -> Finding:
    far = cells.trusted[cells.trusted["rtt"] >= _FAR]
    many = far[far["streams"] >= far["streams"].max() / 4]
    pairs = cells.pairs(many, "streams", speaks=_bound_by_rtt)
    quantity = "throughput at the most streams over that at a quarter of them or more"
    return compare(pairs, "streams", NO_GAIN, quantity, "everywhere")


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
    decisions = [peak.decision for _, peak in bound]
    reason = (
        f"{len(bound)} curves with few cores that use up the servers' CPU have a peak: {counted(decisions)}"
    )
    evidence = [peak_row(curve, peak, cells) for curve, peak in bound]
    advice = f"sweep more streams values, fewer and more than those there; {MEASURE_MORE}"
    return Finding(most(decisions), reason, clearest(bound), evidence, advice)


def _rtt_not_linear(cells: Cells) -> Finding:
    pairs = cells.pairs(
        cells.trusted.query("8 <= rtt <= 75"),
        "rtt",
        speaks=lambda pairs: _bound_by_rtt(pairs) & (pairs["to"] >= 3 * pairs["from"]),
    )
    kept = pairs.kept
    aside = (
        f"; {pairs.left} left out in which something else binds an end, or that differ less"
        if pairs.left
        else ""
    )
    mean = mean_exponent(kept["ratio"], kept["error"], kept["to"] / kept["from"])
    if mean is None:
        reason = f"curves over RTT with ends three-fold or more apart in 8 to 75 ms: {len(kept)}{aside}; 3 are needed"
        advice = "sweep rtt: [10 ms, 20 ms, 40 ms, 60 ms] with several streams, and cores and a path to spare"
        return Finding(None, reason, rows=pair_rows(kept), advice=advice)
    each = exponents(kept["ratio"], kept["error"], kept["to"] / kept["from"])
    inverse = [INVERSE.decide(exponent) for exponent in each]
    decisions = [None if one is None else not one for one in inverse]
    reason = (
        f"{len(kept)} curves over RTT{aside}, {spans(kept)}: {counted(decisions)} with an exponent outside {INVERSE}, "
        f"which is about 1/RTT; the exponents are {min(one.value for one in each):.2f} to "
        f"{max(one.value for one in each):.2f}"
    )
    return Finding(
        most(decisions), reason, Effect("exponent of RTT, mean of the curves", mean), pair_rows(kept)
    )


def _bound_by_rtt(pairs: pd.DataFrame) -> pd.Series:
    """Which ends of curves neither the path nor the servers' CPU binds: where there is an RTT, it does."""
    return has_room(pairs, "everywhere") & ~(pairs["cpu"] >= CPU_BOUND)


def _rtt120_cap(cells: Cells) -> Finding:
    top, points = best(
        cells,
        cells.trusted.query(
            "origins == 2 and cores >= 128 and bandwidth >= 10 and 110 <= rtt <= 130 and streams >= 10"
        ),
    )
    # The smallest is the largest of what is negative.
    bottom = largest(-points["throughput"], points["error"])
    if top is None or bottom is None or points["streams"].max() < 400:
        return nothing_there("with 2 origins, 128 cores or more, up to 400 streams or more and about 120 ms")
    region = about(1)
    decision = both([region.decide(top), Region(-region.high, -region.low).decide(bottom)])
    least = f"the least is {-bottom.value:.3g} Gbit/s"
    reason = f"the best of {len(points)} points: {said(top, region, ' Gbit/s')}; {least}"
    effect = Effect("largest throughput at 120 ms", top, "Gbit/s")
    return Finding(decision, reason, effect, cell_rows(points, cells))


_PAPER = "arXiv:2312.12589"

CLAIMS = (
    Claim(
        "chep2023.saturate",
        "520 streams (40 for each of 13 destination servers) sustain 400 Gbit/s for about an hour at 3 ms",
        "at 400 Gbit/s or more, 2 to 5 ms and 520 streams ± 10 %, a cell of 3000 s or more has a mean of "
        f"{reached(400)} Gbit/s",
        needs(bandwidth=("400 Gbit/s", (400, inf)), rtt=("3 ms", (2, 5)), streams=("520", (468, 572))),
        test=_saturate,
        source=f"{_PAPER}, figure 3 and its text",
    ),
    Claim(
        "chep2023.little_fluctuation",
        "400 Gbit/s were held with little fluctuation",
        "as chep2023.saturate, and the largest goodput in any one second of such a cell, warm-up included, over "
        f"its mean is {_LITTLE}; how far it falls, a dataset's summary does not say",
        needs(bandwidth=("400 Gbit/s", (400, inf)), rtt=("3 ms", (2, 5)), streams=("520", (468, 572))),
        test=_little_fluctuation,
        source=f"{_PAPER}, text on figure 3",
    ),
    Claim(
        "chep2023.streams_required",
        "520 streams were required for 400 Gbit/s at 3 ms",
        "at 400 Gbit/s or more and 2 to 5 ms the ratio of the best throughput of 260 streams or fewer to that of 520 "
        f"± 10 % is {LESS}",
        needs(
            bandwidth=("400 Gbit/s", (400, inf)),
            rtt=("3 ms", (2, 5)),
            streams=("[130, 260, 520]", (468, 572), (1, 260)),
        ),
        test=_streams_required,
        source=f"{_PAPER}, text on figure 3",
    ),
    Claim(
        "chep2023.streams_peak",
        "with few cores throughput first rises with streams, then falls when the CPU is saturated",
        "of the curves over streams with the fewer half of the cores values, that at the most streams use 90 % of "
        "their cores (where CPU was recorded) and do not fill the path, most rise and then fall by more than noise",
        needs(KNOWN_PATH, streams=("[1, 2, 4, 8, 16, 32]", 3), cores=("[1, 4]", 2)),
        test=_streams_peak,
        source=f"{_PAPER}, text on figure 4",
    ),
    Claim(
        "chep2023.origins_help",
        "at the same total of cores, more origins give more throughput",
        f"mean ratio of the most to the fewest origins, all else equal, where not both fill the path: {MORE}",
        needs(KNOWN_PATH, origins=("[1, 2, 4]", 2), cores=("4", 1)),
        test=ratio("origins", MORE, "throughput with the most origins over that with the fewest"),
        source=f"{_PAPER}, figure 4",
    ),
    Claim(
        "chep2023.rtt_fivefold",
        "going from 0.1 to 10 ms (tc) cuts the throughput about five-fold",
        f"mean ratio of about 10 ms to 0.5 ms or less, all else equal, where neither fills the path: {about(1 / 5)}",
        needs(KNOWN_PATH, rtt=("[0, 10 ms]", (-inf, 0.5), (8, 12))),
        test=ratio(
            "rtt",
            about(1 / 5),
            "throughput at 10 ms over that at 0.1 ms",
            room="everywhere",
            cells_with="rtt <= 0.5 or 8 <= rtt <= 12",
        ),
        source=f"{_PAPER}, text on figure 4",
    ),
    Claim(
        "chep2023.rtt_not_linear",
        "at a fixed number of streams throughput does not scale as 1/RTT from 10 to 60 ms",
        "of the curves over RTT, between RTTs of 8 to 75 ms three-fold or more apart, of which neither end fills the "
        f"path or uses 90 % of the servers' cores, most have an exponent outside {INVERSE}",
        needs(KNOWN_PATH, rtt=("[10 ms, 20 ms, 40 ms, 60 ms]", (8, 75, 2))),
        test=_rtt_not_linear,
        source=f"{_PAPER}, text on figure 4",
    ),
    Claim(
        "chep2023.rtt120_cap",
        "2 origins, 128 cores each, up to 500 streams: about 1 Gbit/s at 120 ms (tc), whatever the streams",
        "with 2 origins, 128 cores or more, a path of 10 Gbit/s or more, 110 to 130 ms and 10 streams or more, all "
        f"throughputs are {about(1)} Gbit/s",
        needs(
            origins=("2", (2, 2)),
            cores=("128", (128, inf)),
            rtt=("120 ms", (110, 130)),
            streams=("[10, 100, 500]", (10, inf, 2), (400, inf)),
            bandwidth=("100 Gbit/s", (10, inf)),
        ),
        test=_rtt120_cap,
        source=f"{_PAPER}, text on figure 4",
    ),
    Claim(
        "chep2023.streams_stop_helping",
        "at high RTT throughput stops growing with the streams",
        f"at {_FAR:g} ms or more the mean ratio of the most streams to the fewest of at least a quarter of them, "
        f"all else equal, where neither end fills the path or uses 90 % of the servers' cores: {NO_GAIN}",
        needs(KNOWN_PATH, rtt=("[60 ms, 120 ms]", (_FAR, inf)), streams=("[50, 100, 200, 400]", 3)),
        test=_streams_stop_helping,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2023.terabit",
        "1 Tbit/s at low RTT",
        f"at 1 ms or less, on a path of 1 Tbit/s or more, the best throughput is {reached(1000)} Gbit/s",
        needs(bandwidth=("1 Tbit/s", (1000, inf)), rtt=("0", (0, 1))),
        test=level(reached(1000), "largest throughput at low RTT", "rtt <= 1 and bandwidth >= 1000"),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2023.redirector_free",
        "a redirector costs nothing noticeable against hand-picked pairs",
        f"mean ratio of redirector to direct, all else equal, of cells with several origins: {NO_LOSS}",
        needs(endpoint=("[redirector, direct]", {"redirector"}, {"direct"}), origins=("2", (2, inf))),
        test=ratio(
            "endpoint",
            NO_LOSS,
            "throughput through the redirector over that without",
            values=("direct", "redirector"),
            room=None,
            cells_with="origins > 1",
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2023.gfal_vs_curl",
        "gfal-copy performs 15 % better than curl",
        f"mean ratio of gfal-copy to curl, all else equal, where not both fill the path: {GFAL_FASTER}",
        needs(KNOWN_PATH, tool=("[gfal-copy, curl]", {"gfal-copy"}, {"curl"})),
        test=ratio(
            "tool",
            GFAL_FASTER,
            "throughput of gfal-copy over that of curl",
            values=("curl", "gfal-copy"),
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2023.tc_residue",
        "undoing tc delays took a reboot",
        "nothing that a dataset holds",
        beyond="every deployment has a path of its own, which goes with it, so that no cell has a delay undone before "
        "it; what is needed is one interface's RTT before a delay was set, with it, and after it was undone",
        advice="set and undo a delay by hand on one interface, with ping before and after (docs/paths.md)",
        source=f"{_PAPER}, text",
    ),
)
