# SPDX-License-Identifier: Apache-2.0
"""Tests of single claims of CHEP 2024; `chep2024.yaml` has their texts, needs and regions."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import MEASURE_MORE, Claim, Effect, Finding, shown
from tpcsweep.claims.cells import CellTable, Pairs, ratio_worthy
from tpcsweep.claims.effects import FEWEST_PAIRS, Interval, Region, both, largest, mean_ratio, most
from tpcsweep.claims.predicates import (
    best,
    cell_rows,
    clearest,
    compare,
    counted,
    curve_peaks,
    has_room,
    no_cell,
    pair_rows,
    peak_row,
    spans,
    together,
    too_few,
)


def two_origins(claim: Claim, cells: CellTable) -> Finding:
    """Test that every path reaches the target at the lowest RTT, and falls short of it at the largest."""
    rows = claim.select(cells)
    low, high = rows["rtt"][rows["rtt"] <= 10].min(), rows["rtt"][rows["rtt"] >= 100].max()
    parts = {}
    for path, part in _by_path(cells, rows):
        parts[f"{path} at the lowest RTT"] = part[part["rtt"] == low], claim.regions["reach"]
        parts[f"{path} at the largest RTT"] = part[part["rtt"] == high], claim.regions["short"]
    return _each(cells, parts)


def four_origins(claim: Claim, cells: CellTable) -> Finding:
    """Test that every path reaches the target at every RTT."""
    rtts = sorted(rtt for rtt in cells.every["rtt"].unique() if rtt <= 125)
    parts = {
        f"{path} at {shown('rtt', rtt)}": (part[part["rtt"] == rtt], claim.region)
        for path, part in _by_path(cells, claim.select(cells))
        for rtt in rtts
    }
    return _each(cells, parts, least=True)


def near_limit(claim: Claim, cells: CellTable) -> Finding:
    """Test that a path of 200 Gbit/s falls short of the target, and one of 400 reaches it."""
    rows = claim.select(cells)
    parts = {
        f"on a path of {bandwidth} Gbit/s": (rows[rows["bandwidth"] == bandwidth], claim.regions[name])
        for bandwidth, name in ((200, "short"), (400, "reach"))
    }
    return _each(cells, parts)


def _by_path(cells: CellTable, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows by bandwidth and TCP buffer, the least first: a better path says nothing of others."""
    words = {"bandwidth": "on a path of"}
    if "tcp_buffer" in cells.axes:
        words["tcp_buffer"] = "with buffers of"
    paths = []
    for values, part in rows.groupby(list(words), sort=True):
        named = zip(words.items(), values, strict=True)
        paths.append((" ".join(f"{text} {shown(name, value)}" for (name, text), value in named), part))
    return paths


def _each(cells: CellTable, parts: dict[str, tuple[pd.DataFrame, Region]], *, least: bool = False) -> Finding:
    """Decide whether the best of each part lies in its region; the parts share the confidence.

    The effect is that of the first part, or with `least` of the one with the least throughput.
    """
    judged, effects = [], []
    for where, (part, region) in parts.items():
        interval, points = best(cells, part, len(parts))
        if interval is None:
            return no_cell(where)
        rows = [{"where": where, **row} for row in cell_rows(points, cells, 3)]
        judged.append((f"{where} the best of {len(points)} points", interval, region, rows))
        effects.append(Effect(f"largest throughput {where}", interval, "Gbit/s"))
    if not parts:
        return no_cell("where the claim speaks")
    effect = min(effects, key=lambda effect: effect.interval.value) if least else effects[0]
    return together(judged, effect, " Gbit/s")


def small_rtt_peak(claim: Claim, cells: CellTable) -> Finding:
    """Test that most curves at the smallest RTT have a peak, and fall more than at the largest RTT."""
    rows = claim.select(cells)
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
        both_so = both([peak.decision, claim.region.decide(softer)])
        decisions.append(False if peak.decision is False else both_so)
        lines.append({**peak_row(curve, peak, cells), "softer_at_long_rtt": softer.value if softer else None})
    reason = (
        f"{len(curves)} curves at {shown('rtt', short)} rise, fall, and fall less between the same streams at "
        f"{shown('rtt', long)}: {counted(decisions)}"
    )
    advice = f"sweep more streams values; {MEASURE_MORE}"
    return Finding(most(decisions), reason, clearest(curves), lines, advice)


def _softer(
    cells: CellTable, curve: pd.DataFrame, fall: tuple[int, int], long: pd.DataFrame, curves: int
) -> Interval | None:
    """How much larger a fall is than that of the same streams at the long RTT; None if that was not measured."""
    ends = [curve.iloc[place] for place in fall]
    same = long
    for name, value in cells.where(ends[0], ["streams", "rtt", "repetition"]).items():
        same = same[same[name] == value]
    others = [same[same["streams"] == end["streams"]] for end in ends]
    if any(len(other) != 1 or not np.isfinite(other["error"].iloc[0]) for other in others):
        return None
    corners = [*ends, *(other.iloc[0] for other in others)]
    logs = [math.log(corner["throughput"]) for corner in corners]
    error = math.sqrt(sum((corner["error"] / corner["throughput"]) ** 2 for corner in corners))
    softer = largest([logs[0] - logs[1] - logs[2] + logs[3]], [error], curves)
    return softer and softer.map(math.exp)


def instance_cores(claim: Claim, cells: CellTable) -> Finding:
    """Test the gain of the most cores of one origin over 16 of them."""
    rows = claim.select(cells)
    sixteen = rows[rows["cores"].between(12, 16)]["cores"].max()
    rows = rows[np.isfinite(rows["cores"]) & ((rows["cores"] == sixteen) | (rows["cores"] >= 24))]
    # Few streams are bound by their windows, whatever the cores: the best over streams is what cores can do.
    top = cells.best(ratio_worthy(rows), "streams")
    pairs = _without(cells.pairs(top, "cores", speaks=partial(has_room, room="before")), "streams")
    return compare(
        pairs, "cores", claim.region, "best throughput with the most cores over that with 16", "before"
    )


def saturated_flat(claim: Claim, cells: CellTable) -> Finding:
    """Test the loss from where the path is first full to the most streams."""
    # A path that is full by luck falls later, which speaks against the claim.
    rows = claim.select(cells)
    parts = []
    for panel in cells.panels(rows, ["streams", "repetition"]):
        points = ratio_worthy(cells.points(panel))
        full = points["streams"][points["full"].astype(bool)]
        parts.append(panel[panel["streams"] >= full.min()])
    pairs = cells.pairs(pd.concat(parts) if parts else rows, "streams")
    quantity = "throughput at the most streams over that where the path is first full"
    finding = compare(pairs, "streams", claim.region, quantity)
    if finding.effect is not None:
        return finding
    reason = (
        "curves over streams that go on after the path is full (95 % of its bandwidth): "
        f"{len(pairs.kept)}; {FEWEST_PAIRS} are needed"
    )
    advice = "sweep more streams, so that the path is full before the last value, and repetitions: 3"
    return too_few(reason, pairs.kept, advice)


def short_rtt_cores(claim: Claim, cells: CellTable) -> Finding:
    """Test that half of the cores at the smallest RTT do what all do at the largest, where half would not do."""
    rows = claim.select(cells)
    rows = rows[np.isfinite(rows["cores"])]
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
    short_few, long_few, long_many = (
        top[(top["cores"] == cores) & (top["rtt"] == rtt)]
        for cores, rtt in ((few, short), (few, long), (many, long))
    )
    enough, needed = (_matched(cells, long_many, part) for part in (short_few, long_few))
    reach, short_of = (mean_ratio(part["ratio"], part["error"], 2) for part in (enough, needed))
    ours = f"{few:g} cores at {shown('rtt', short)}"
    theirs = f"{many:g} cores at {shown('rtt', long)}"
    if reach is None or short_of is None:
        fewest = min(len(enough), len(needed))
        reason = f"trustworthy pairs of {ours} and {theirs}: {fewest}; {FEWEST_PAIRS} are needed"
        return too_few(reason, enough, "sweep more values of the other axes, or repetitions: 3")
    subject = f"{len(enough)} pairs, {spans(enough)}: {ours} over {theirs}"
    other = f"{few:g} cores over {many:g} at {shown('rtt', long)}"
    parts = [
        (subject, reach, claim.regions["enough"], pair_rows(enough)),
        (other, short_of, claim.regions["short"], ()),
    ]
    return together(parts, Effect(f"throughput of {ours} over {theirs}", reach))


def _matched(cells: CellTable, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Pair rows that differ only in streams, cores and RTT, the first being the one compared with."""
    apart = ("streams", "cores", "rtt")
    marked = pd.concat([before.assign(part="before"), after.assign(part="after")])
    joined = marked.assign(**dict.fromkeys(apart, 0))
    # The part is an axis here, so that points are averaged for each.
    with_part = dataclasses.replace(cells, axes=(*cells.axes, "part"))
    return _without(with_part.pairs(joined, "part", ("before", "after")), *apart).kept


def _without(pairs: Pairs, *names: str) -> Pairs:
    return pairs._replace(kept=pairs.kept.drop(columns=[name for name in names if name in pairs.kept]))
