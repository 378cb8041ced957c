# SPDX-License-Identifier: Apache-2.0
"""Shared tests of claims, and building blocks of other tests."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.analysis.claims.claim import Claim, Effect, Finding, Row, for_claims
from tpcsweep.analysis.claims.claim_cells import (
    CPU_BOUND,
    FULL,
    PAIR,
    PEAK_LUCK,
    CellTable,
    Pairs,
    log_error,
    ratio_worthy,
)
from tpcsweep.common.numbers import between, short
from tpcsweep.data import effects
from tpcsweep.data.effects import Decision, Interval, Peak, Region
from tpcsweep.sweeps.parameters import value_text

ROOM: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {
    "somewhere": lambda pairs: ~(pairs["before_full"] & pairs["after_full"]),
    "everywhere": lambda pairs: ~(pairs["before_full"] | pairs["after_full"]),
    "before": lambda pairs: ~pairs["before_full"],
    "bottleneck": lambda pairs: pairs["before_full"] | (pairs["cpu"] >= CPU_BOUND),
}
"""Rules on the cells of a pair that fill the path, or whose servers' CPU binds."""

_BROKEN = {
    "somewhere": "both ends fill the path",
    "everywhere": "an end fills the path",
    "before": "the end compared with fills the path",
    "bottleneck": "nothing is a bottleneck",
}
_PLACES = 6  # values of an axis that a sentence lists
MORE_PAIRS = f"sweep more values of the other axes, or repetitions: {effects.FEWEST_PAIRS}"


@for_claims
def ratio(
    claim: Claim,
    cells: CellTable,
    axis: str,
    quantity: str,
    values: Sequence[Any] | None = None,
    room: str | None = "somewhere",
    any_tool: bool = False,
) -> Finding:
    """Test that the mean ratio along an axis lies in the region, over cells that differ only in the axis.

    Two `values` of the axis are compared, the first of which is the denominator; by default the smallest and the
    largest. Pairs that break the rule `room` are left out. With `any_tool` cells may differ in their tools too, as for
    network and disks, which have none in common.
    """
    rows = claim.select(cells)
    if any_tool and "tool" in rows:
        rows = rows.assign(tool="any")
    pairs = cells.pairs(rows, axis, values, ROOM[room] if room else None)
    return judge_ratios(pairs, axis, claim.region, quantity, room)


@for_claims
def level(claim: Claim, cells: CellTable, quantity: str) -> Finding:
    """Test that the largest throughput of the claim's cells lies in its region of Gbit/s."""
    return judge_best(cells, claim.select(cells), claim.region, quantity)


def judge_best(cells: CellTable, rows: pd.DataFrame, region: Region, quantity: str) -> Finding:
    interval, points = peak_throughput(cells, rows)
    if interval is None:
        return missing_cells("where the claim speaks")
    part = (f"the best of {len(points)} points", interval, region, cell_rows(points, cells))
    return judge_parts([part], Effect(quantity, interval, "Gbit/s"))


@for_claims
def buffer_gain(claim: Claim, cells: CellTable) -> Finding:
    """Test that the largest ratio along a twenty-fold larger TCP buffer lies in the claim's region."""
    pairs = cells.pairs(claim.select(cells), "tcp_buffer").table
    pairs = pairs[pairs["error"].notna() & (pairs["to"] >= 20 * pairs["from"])]
    logarithm = effects.largest_level([math.log(ratio) for ratio in pairs["ratio"]], pairs["error"])
    if logarithm is None:
        return missing_cells("on both sides of a twenty-fold larger TCP buffer")
    interval = logarithm.map(math.exp)
    subject = f"the best of {len(pairs)} pairs that differ only in tcp_buffer, {axes_text(pairs)}"
    effect = Effect("throughput with the largest buffer over that with the smallest, best pair", interval)
    return judge_parts([(subject, interval, claim.region, pair_rows(pairs))], effect)


def judge_ratios(
    pairs: Pairs, axis: str, region: Region, quantity: str, room: str | None = None, advice: str = MORE_PAIRS
) -> Finding:
    """Decide by the mean ratio of pairs, which were selected by the rule `room`."""
    kept, left = pairs
    aside = f"; {left} left out in which {_BROKEN[room]}" if room and left else ""
    subject = f"{len(kept)} pairs of trustworthy cells that differ only in {axis}{aside}"
    mean = pair_mean(kept)
    return judge_pairs(kept, subject, mean, region, quantity, advice)


def pair_mean(pairs: pd.DataFrame, comparisons: int = 1) -> Interval | None:
    """Return the mean ratio of pairs; `comparisons` intervals share the confidence."""
    return effects.mean_ratio(pairs["ratio"], pairs["error"], comparisons, pairs["deployment"], pairs["luck"])


def judge_pairs(
    pairs: pd.DataFrame, subject: str, mean: Interval | None, region: Region, quantity: str, advice: str
) -> Finding:
    """Decide by a mean over pairs, which is None if they are too few."""
    if mean is None:
        return too_few_pairs(subject, pairs, advice)
    part = (f"{subject}, {axes_text(pairs)}", mean, region, pair_rows(pairs))
    return judge_parts([part], Effect(quantity, mean))


def too_few_pairs(found: str, pairs: pd.DataFrame, advice: str) -> Finding:
    reason = f"{found}; {effects.FEWEST_PAIRS} are the fewest that show how much runs differ"
    return Finding(None, reason, rows=pair_rows(pairs), advice=advice)


def missing_cells(where: str) -> Finding:
    return Finding(None, f"no trustworthy cell lies {where}", advice="measure those cells again, for longer")


def unbound(pairs: pd.DataFrame) -> pd.Series:
    return ROOM["everywhere"](pairs) & ~(pairs["cpu"] >= CPU_BOUND)


def unbound_pairs(cells: CellTable, rows: pd.DataFrame, axis: str, factor: float) -> Pairs:
    """Return otherwise unbound pairs along an axis whose values differ by a factor or more."""
    return cells.pairs(
        rows, axis, speaks=lambda pairs: unbound(pairs) & (pairs["to"] >= factor * pairs["from"])
    )


def judge_parts(parts: Sequence[tuple[str, Interval, Region, Iterable[Row]]], effect: Effect) -> Finding:
    """Decide whether all intervals lie in their regions; a part has subject, interval, region and evidence."""
    units = "" if effect.units == "1" else f" {effect.units}"
    return Finding(
        effects.all_true(region.decide(interval) for _, interval, region, _ in parts),
        "; ".join(
            f"{subject}: {interval_text(interval, region, units)}" for subject, interval, region, _ in parts
        ),
        effect,
        [row for *_, rows in parts for row in rows],
    )


def peak_throughput(
    cells: CellTable, rows: pd.DataFrame, comparisons: int = 1
) -> tuple[Interval | None, pd.DataFrame]:
    """Return the largest throughput over the points of rows, with a simultaneous interval, and the points."""
    points = cells.points(rows)
    return effects.largest_level(points["throughput"], points["error"], comparisons), points


def target_region(target: float) -> Region:
    """Return the throughputs that count as reaching a target in Gbit/s: at least a share of `FULL`."""
    return Region(low=FULL * target)


def pair_rows(pairs: pd.DataFrame) -> Sequence[Row]:
    """Return pairs as lines of evidence, from the smallest ratio to the largest."""
    lines = pairs.drop(columns=[*PAIR[5:]]).sort_values("ratio")
    rows: list[Row] = lines.rename(columns={"before": "from_gbit_s", "after": "to_gbit_s"}).to_dict("records")
    return rows


def cell_rows(points: pd.DataFrame, cells: CellTable, count: int = 12) -> Sequence[Row]:
    """Return the fastest points as lines of evidence."""
    top = points.sort_values("throughput", ascending=False).head(count)
    rates = {"throughput_gbit_s": "throughput", "error_gbit_s": "error"}
    return [
        {**cells.where(row, ["repetition"]), **{name: row[column] for name, column in rates.items()}}
        for _, row in top.iterrows()
    ]


def axes_text(rows: pd.DataFrame) -> str:
    texts = []
    for name in (name for name in rows.columns if name not in PAIR):
        values = sorted(rows[name].unique())
        listed = [value_text(name, value) for value in values[:_PLACES]] + ["…"] * (len(values) > _PLACES)
        texts.append(f"{name} {', '.join(listed)}")
    return f"at {'; '.join(texts)}" if texts else "at one place"


def interval_text(interval: Interval, region: Region, units: str = "") -> str:
    """Describe the position of an interval relative to the claim's region."""
    words = {True: "lies within", False: "lies outside", None: "reaches across an end of"}
    lies = words[region.decide(interval)]
    ends = f"{between(interval.low, interval.high)}{units}"
    return f"{short(interval.value)}{units} ({ends}) {lies} the region that the claim needs: {region}{units}"


Curve = tuple[pd.DataFrame, Peak]  # points by their streams, and the peak of their throughput


def curve_peaks(cells: CellTable, rows: pd.DataFrame, speaks: Callable[[pd.DataFrame], bool]) -> list[Curve]:
    """Return the claim's curves over streams with three accurate points or more, and their peaks, tested jointly."""
    points = ratio_worthy(cells.points(rows))
    points = points[points["error"].notna()]
    panels = [panel.sort_values("streams") for panel in cells.panels(points, ["streams", "repetition"])]
    curves = [curve for curve in panels if len(curve) >= 3 and speaks(curve)]
    return [
        (curve, effects.peak(curve["throughput"], log_error(curve, PEAK_LUCK), len(curves)))
        for curve in curves
    ]


def clearest(curves: Sequence[Curve]) -> Effect:
    """Return the fall after the peak of the clearest curve."""
    peak = max((peak for _, peak in curves), key=lambda peak: (peak.decision is True, peak.ratio.low))
    return Effect("throughput at the peak over that after it, clearest curve", peak.ratio)


def peak_row(curve: pd.DataFrame, peak: Peak, cells: CellTable) -> Row:
    start, end = (curve.iloc[position] for position in peak.fall)
    return {
        **cells.where(curve.iloc[0], ["streams", "repetition"]),
        "peak": {True: "rises, then falls", False: "no", None: "undecided"}[peak.decision],
        "from_streams": start["streams"],
        "to_streams": end["streams"],
        "from_gbit_s": start["throughput"],
        "to_gbit_s": end["throughput"],
        "fall": peak.ratio.value,
        "fall_low": peak.ratio.low,
        "fall_high": peak.ratio.high,
        "cpu_used": curve["cpu"].iloc[-1],
    }


def vote_counts(decisions: Sequence[Decision]) -> str:
    return f"{decisions.count(True)} yes, {decisions.count(False)} no, {decisions.count(None)} undecided"
