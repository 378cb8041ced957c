# SPDX-License-Identifier: Apache-2.0
"""Claims of the follow-up of CHEP 2024: two servers, real RTTs of 5 to 120 ms, up to 400 Gbit/s."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from math import inf

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import KNOWN_PATH, MEASURE_MORE, Claim, Effect, Finding, needs, shown
from tpcsweep.claims.cells import Cells, Pairs, ratio_worthy
from tpcsweep.claims.effects import (
    FEWEST_PAIRS,
    LESS,
    MORE,
    NO_GAIN,
    NO_LOSS,
    Interval,
    Region,
    both,
    largest,
    mean_ratio,
    most,
)
from tpcsweep.claims.predicates import (
    best,
    cell_rows,
    clearest,
    compare,
    counted,
    curve_peaks,
    has_room,
    level,
    nothing_there,
    pair_rows,
    peak_row,
    ratio,
    reached,
    spans,
    together,
)

_HUNDRED = reached(100)
_SHORT_OF_HUNDRED = Region(high=_HUNDRED.low)
_SERVER_CAP = Region(260 * 0.9, 260 * 1.1)


def _two_origins(cells: Cells) -> Finding:
    rows = cells.trusted.query("origins == 2 and bandwidth >= 100 and cores >= 32")
    low, high = rows["rtt"][rows["rtt"] <= 10].min(), rows["rtt"][rows["rtt"] >= 100].max()
    parts = {}
    for path, part in _by_path(cells, rows):
        parts[f"{path} at the lowest RTT"] = part[part["rtt"] == low], _HUNDRED
        parts[f"{path} at the largest RTT"] = part[part["rtt"] == high], _SHORT_OF_HUNDRED
    return _each(cells, parts)


def _four_origins(cells: Cells) -> Finding:
    rows = cells.trusted.query("origins == 4 and bandwidth >= 100 and cores == 64 and streams < 100")
    rtts = sorted(rtt for rtt in cells.every["rtt"].unique() if rtt <= 125)
    parts = {
        f"{path} at {shown('rtt', rtt)}": (part[part["rtt"] == rtt], _HUNDRED)
        for path, part in _by_path(cells, rows)
        for rtt in rtts
    }
    return _each(cells, parts, least=True)


def _by_path(cells: Cells, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows by what a wider or better tuned path does not say of others: bandwidth and TCP buffer, the least first."""
    apart = ["bandwidth", *(["tcp_buffer"] if "tcp_buffer" in cells.axes else [])]
    words = dict(zip(apart, ("on a path of", "with buffers of"), strict=False))
    return [
        (
            " ".join(
                f"{words[name]} {shown(name, value)}" for name, value in zip(apart, values, strict=True)
            ),
            part,
        )
        for values, part in rows.groupby(apart, sort=True)
    ]


def _near_limit(cells: Cells) -> Finding:
    rows = cells.trusted.query("cores == 128")
    reach = reached(200)
    return _each(
        cells,
        {
            "on a path of 200 Gbit/s": (rows[rows["bandwidth"] == 200], Region(high=reach.low)),
            "on a path of 400 Gbit/s": (rows[rows["bandwidth"] == 400], reach),
        },
    )


def _each(cells: Cells, parts: dict[str, tuple[pd.DataFrame, Region]], *, least: bool = False) -> Finding:
    """Decide whether the best of each part lies in its region; the parts share the confidence.

    The effect is that of the first part, or with `least` of the one with the least throughput.
    """
    judged, effects = [], []
    for where, (part, region) in parts.items():
        interval, points = best(cells, part, len(parts))
        if interval is None:
            return nothing_there(where)
        rows = [{"where": where, **row} for row in cell_rows(points, cells, 3)]
        judged.append((f"{where} the best of {len(points)} points", interval, region, rows))
        effects.append(Effect(f"largest throughput {where}", interval, "Gbit/s"))
    if not parts:
        return nothing_there("where the claim speaks")
    effect = min(effects, key=lambda effect: effect.interval.value) if least else effects[0]
    return together(judged, effect, " Gbit/s")


def _small_rtt_peak(cells: Cells) -> Finding:
    rows = cells.trusted
    short, long = rows["rtt"].min(), rows["rtt"].max()
    every = curve_peaks(cells, rows[(rows["rtt"] == short) & (rows["rtt"] <= 20)], lambda _: True)
    # A full path hides a peak above it, and not a fall from it.
    curves = [(curve, peak) for curve, peak in every if peak.decision is True or not curve["full"].any()]
    if not curves:
        return Finding(
            None,
            "no curve over streams at an RTT of 20 ms or less has three trustworthy values and stays below the path's "
            "bandwidth or falls from it; a path that stays full hides what would fall past it",
            advice="sweep more streams, fewer cores, or more bandwidth",
        )
    points = ratio_worthy(cells.points(rows[rows["rtt"] == long]))
    decisions, lines = [], []
    for curve, peak in curves:
        softer = _softer(cells, curve, peak.fall, points, len(curves))
        decisions.append(both([peak.decision, MORE.decide(softer)]) if peak.decision is not False else False)
        lines.append({**peak_row(curve, peak, cells), "softer_at_long_rtt": softer.value if softer else None})
    reason = (
        f"{len(curves)} curves at {shown('rtt', short)} rise, fall, and fall less between the same streams at "
        f"{shown('rtt', long)}: {counted(decisions)}"
    )
    advice = f"sweep more streams values; {MEASURE_MORE}"
    return Finding(most(decisions), reason, clearest(curves), lines, advice)


def _softer(
    cells: Cells, curve: pd.DataFrame, fall: tuple[int, int], long: pd.DataFrame, curves: int
) -> Interval | None:
    """How much larger a fall is than that of the same streams at the long RTT; None if that was not measured."""
    ends = [curve.iloc[place] for place in fall]
    where = cells.where(ends[0], ["streams", "rtt", "repetition"])
    same = long
    for name, value in where.items():
        same = same[same[name] == value]
    others = [same[same["streams"] == end["streams"]] for end in ends]
    if any(len(other) != 1 or not np.isfinite(other["error"].iloc[0]) for other in others):
        return None
    corners = [*ends, *(other.iloc[0] for other in others)]
    logs = [math.log(corner["throughput"]) for corner in corners]
    error = math.sqrt(sum((corner["error"] / corner["throughput"]) ** 2 for corner in corners))
    softer = largest([logs[0] - logs[1] - logs[2] + logs[3]], [error], curves)
    return softer and softer.map(math.exp)


def _instance_cores(cells: Cells) -> Finding:
    rows = cells.trusted.query("origins == 1")
    sixteen = rows[rows["cores"].between(12, 16)]["cores"].max()
    rows = rows[np.isfinite(rows["cores"]) & ((rows["cores"] == sixteen) | (rows["cores"] >= 24))]
    # Few streams are bound by their windows, whatever the cores: the best over streams is what cores can do.
    pairs = cells.pairs(
        cells.best(ratio_worthy(rows), "streams"), "cores", speaks=partial(has_room, room="before")
    )
    quantity = "best throughput with the most cores over that with 16"
    return compare(_without(pairs, "streams"), "cores", NO_GAIN, quantity, "before")


def _saturated_flat(cells: Cells) -> Finding:
    # From where the path is first full: what is full by luck falls later, which speaks against the claim.
    rows = cells.trusted
    parts = []
    for panel in cells.panels(rows, ["streams", "repetition"]):
        points = ratio_worthy(cells.points(panel))
        full = points["streams"][points["full"].astype(bool)]
        parts.append(panel[panel["streams"] >= full.min()])
    pairs = cells.pairs(pd.concat(parts) if parts else rows, "streams")
    quantity = "throughput at the most streams over that where the path is first full"
    finding = compare(pairs, "streams", NO_LOSS, quantity)
    if finding.effect is not None:
        return finding
    reason = (
        "curves over streams that go on after the path is full (95 % of its bandwidth): "
        f"{len(pairs.kept)}; {FEWEST_PAIRS} are needed"
    )
    advice = "sweep more streams, so that the path is full before the last value, and repetitions: 3"
    return Finding(None, reason, rows=finding.rows, advice=advice)


def _short_rtt_cores(cells: Cells) -> Finding:
    rows = cells.trusted[np.isfinite(cells.trusted["cores"])]
    many = rows["cores"].max()
    halves = rows[rows["cores"] <= many / 2]["cores"]
    short, long = rows["rtt"].min(), rows["rtt"].max()
    if halves.empty or not short <= 20 or not long >= 40:
        return Finding(
            None,
            "trustworthy cells have no cores half as many as the most, or not both a short and a long RTT",
            advice="sweep cores: [1, 2, 4] and rtt: [5 ms, 100 ms]",
        )
    few = halves.max()
    top = cells.best(ratio_worthy(rows), "streams")
    short_few = top[(top["cores"] == few) & (top["rtt"] == short)]
    long_few = top[(top["cores"] == few) & (top["rtt"] == long)]
    long_many = top[(top["cores"] == many) & (top["rtt"] == long)]
    others = ["streams", "cores", "rtt"]
    enough = _matched(cells, long_many, short_few, others)
    needed = _matched(cells, long_many, long_few, others)
    reach, short_of = (mean_ratio(part["ratio"], part["error"], 2) for part in (enough, needed))
    ours = f"{few:g} cores at {shown('rtt', short)}"
    theirs = f"{many:g} cores at {shown('rtt', long)}"
    if reach is None or short_of is None:
        fewest = min(len(enough), len(needed))
        reason = f"trustworthy pairs of {ours} and {theirs}: {fewest}; {FEWEST_PAIRS} are needed"
        advice = "sweep more values of the other axes, or repetitions: 3"
        return Finding(None, reason, rows=pair_rows(enough), advice=advice)
    return together(
        [
            (
                f"{len(enough)} pairs, {spans(enough)}: {ours} over {theirs}",
                reach,
                NO_LOSS,
                pair_rows(enough),
            ),
            (
                f"{few:g} cores over {many:g} at {shown('rtt', long)}",
                short_of,
                Region(high=NO_LOSS.low),
                (),
            ),
        ],
        Effect(f"throughput of {ours} over {theirs}", reach),
    )


def _matched(cells: Cells, before: pd.DataFrame, after: pd.DataFrame, apart: list[str]) -> pd.DataFrame:
    """Pair rows that differ only in `apart`, the first being what is compared with."""
    marked = pd.concat([before.assign(part="before"), after.assign(part="after")])
    joined = marked.assign(**dict.fromkeys(apart, 0))
    # The part is an axis here, so that points are averaged for each.
    with_part = dataclasses.replace(cells, axes=(*cells.axes, "part"))
    return _without(with_part.pairs(joined, "part", ("before", "after")), *apart).kept


def _without(pairs: Pairs, *names: str) -> Pairs:
    return pairs._replace(kept=pairs.kept.drop(columns=[name for name in names if name in pairs.kept]))


_PAPER = "arXiv:2508.00228"

CLAIMS = (
    Claim(
        "chep2024.small_rtt_peak",
        "at small RTT throughput climbs fast with streams and falls fast past a threshold; the effect softens as RTT "
        "grows",
        "most of the curves over streams at the smallest RTT that stay below the path's bandwidth, or fall from it, "
        "rise and then fall by more than noise, and fall more than the same streams do at the largest RTT (ratio of "
        f"the falls: {MORE})",
        needs(KNOWN_PATH, streams=("[1, 2, 4, 8, 16, 32]", 3), rtt=("[5 ms, 100 ms]", 2, (0, 20))),
        test=_small_rtt_peak,
        source=f"{_PAPER}, figures 2 and 3",
    ),
    Claim(
        "chep2024.one_origin",
        "with 1 origin 100 Gbit/s is not reached at any RTT",
        f"with 1 origin on a path of 100 Gbit/s or more the best throughput is {_SHORT_OF_HUNDRED} Gbit/s",
        needs(
            origins=("1", (1, 1)),
            bandwidth=("100 Gbit/s", (100, inf)),
            cores=("32", (16, inf)),
            rtt=("[5 ms, 40 ms, 120 ms]", 2),
            streams=("[1, 10, 50, 100]", 3),
        ),
        test=level(
            _SHORT_OF_HUNDRED, "largest throughput of one origin", "origins == 1 and bandwidth >= 100"
        ),
        source=f"{_PAPER}, figures 2 and 3",
    ),
    Claim(
        "chep2024.two_origins",
        "with 2 origins 100 Gbit/s is reached at low RTT with more streams, not at large RTT",
        "with 2 origins and 32 cores or more, on every path of 100 Gbit/s or more and "
        f"with every TCP buffer, the best throughput is {_HUNDRED} Gbit/s at the lowest RTT (10 ms or less), and less "
        "at the largest (100 ms or more)",
        needs(
            origins=("2", (2, 2)),
            bandwidth=("100 Gbit/s", (100, inf)),
            cores=("32", (32, inf)),
            rtt=("[5 ms, 40 ms, 120 ms]", (0, 10), (100, inf)),
            streams=("[1, 10, 50, 100]", 2),
        ),
        test=_two_origins,
        source=f"{_PAPER}, figure 4",
    ),
    Claim(
        "chep2024.four_origins",
        "with 4 origins and 64 cores in total 100 Gbit/s is reached at every RTT to 120 ms with fewer than 100 streams",
        "with 4 origins, 64 cores and fewer than 100 streams, on every path of 100 Gbit/s or more and "
        f"with every TCP buffer, the best throughput is {_HUNDRED} Gbit/s at every RTT",
        needs(
            origins=("4", (4, 4)),
            bandwidth=("100 Gbit/s", (100, inf)),
            cores=("64", (64, 64)),
            rtt=("[5 ms, 40 ms, 120 ms]", (0, 10), (100, inf)),
            streams=("[10, 50, 90]", (1, 99)),
        ),
        test=_four_origins,
        source=f"{_PAPER}, figure 5",
    ),
    Claim(
        "chep2024.near_limit",
        "128 cores do not reach 200 Gbit/s on a 200 Gbit/s path, and do on a 400 Gbit/s one",
        f"with 128 cores the best throughput is less than {reached(200).low:g} Gbit/s on a path of 200 Gbit/s, and "
        "more on one of 400",
        needs(bandwidth=("[200 Gbit/s, 400 Gbit/s]", (200, 200), (400, 400)), cores=("128", (128, 128))),
        test=_near_limit,
        source=f"{_PAPER}, figures 6 and 7",
    ),
    Claim(
        "chep2024.server_cap",
        "one server stops at about 260 Gbit/s even at 0 ms and with hundreds of streams",
        "at 0.5 ms or less, on a path of 300 Gbit/s or more with 64 cores or more, the best throughput is "
        f"{_SERVER_CAP} Gbit/s",
        needs(
            bandwidth=("400 Gbit/s", (300, inf)),
            rtt=("0", (0, 0.5)),
            cores=("128", (64, inf)),
            streams=("[50, 100, 200, 400]", (200, inf)),
        ),
        test=level(
            _SERVER_CAP,
            "largest throughput of a server at 0 ms",
            "rtt <= 0.5 and bandwidth >= 300 and cores >= 64",
        ),
        source=f"{_PAPER}, figure 8",
    ),
    Claim(
        "chep2024.instance_cores",
        "one XRootD instance does not scale past 16 cores",
        "mean ratio of the most cores (24 or more) to 12 to 16, of the best over streams with one origin, where the "
        f"latter does not fill the path: {NO_GAIN}",
        needs(KNOWN_PATH, origins=("1", (1, 1)), cores=("[16, 32, 64]", (12, 16), (24, inf))),
        test=_instance_cores,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.origins_help",
        "more origins at a fixed number of cores perform better",
        f"mean ratio of the most to the fewest origins, all else equal, where not both fill the path: {MORE}",
        needs(KNOWN_PATH, origins=("[1, 2, 4]", 2), cores=("4", 1)),
        test=ratio("origins", MORE, "throughput with the most origins over that with the fewest"),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.saturated_flat",
        "once the bandwidth is saturated more streams do no harm",
        "mean ratio of the most streams to the fewest that fill the path (95 % of its bandwidth), all else equal: "
        f"{NO_LOSS}",
        needs(streams=("[1, 2, 4, 8, 16]", 2), bandwidth=("1 Gbit/s", 1)),
        test=_saturated_flat,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.short_rtt_cores",
        "high throughput at short RTT needs far fewer cores than at long RTT",
        "with half of the most cores or fewer the best over streams at the smallest RTT is at least 0.95 of that with "
        "the most cores at the largest RTT, where those cores would not do (both mean ratios)",
        needs(
            KNOWN_PATH,
            cores=("[1, 2, 4]", (0, inf, 2)),
            rtt=("[5 ms, 100 ms]", (0, 20), (40, inf)),
            streams=("[1, 2, 4, 8, 16, 32]", 3),
        ),
        test=_short_rtt_cores,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.rtts_distinct",
        "the curves of different RTTs are significantly distinct",
        "mean ratio of the largest RTT (40 ms or more) to the smallest (20 ms or less), all else equal, where not both "
        f"fill the path: {LESS}",
        needs(KNOWN_PATH, rtt=("[5 ms, 40 ms, 120 ms]", (0, 20), (40, inf)), streams=("[1, 10, 50, 100]", 3)),
        test=ratio(
            "rtt",
            LESS,
            "throughput at the largest RTT over that at the smallest",
            cells_with="rtt <= 20 or rtt >= 40",
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.tc_trend",
        "delays emulated with tc have the right trend, and the wrong size, against real RTTs",
        "nothing that a dataset holds",
        beyond="a dataset has one testbed, whose paths are emulated or real; what is needed is the same sweep on both",
        advice="measure one sweep on emulated and on real paths, and compare the two: docs/comparing.md",
        source=f"{_PAPER}, text",
    ),
    Claim(
        "chep2024.short_rtt_contradiction",
        "at short RTT more streams cost throughput (small_rtt_peak), and more streams reach 100 Gbit/s (two_origins)",
        "nothing by itself: both statements are judged, each by its own name",
        beyond="the two statements speak of different cores and origins, or contradict each other; "
        "the publication does not say which, and no dataset can",
        advice="sweep streams at 5 ms for one and for two origins until they fall, and see chep2024.small_rtt_peak and "
        "chep2024.two_origins",
        source=f"{_PAPER}, text",
    ),
)
