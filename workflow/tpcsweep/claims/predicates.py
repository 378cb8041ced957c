"""Tests that several claims share, each made of an axis, a region and cells that are chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import Effect, Finding, Row
from tpcsweep.claims.cells import CPU_BOUND, FULL, PAIR, Cells, Pairs, ratio_worthy
from tpcsweep.claims.effects import FEWEST_PAIRS, Decision, Interval, Peak, Region, largest, mean_ratio, peak
from tpcsweep.configuration.parameters import show_value

Test = Callable[[Cells], Finding]
Room = Literal["somewhere", "everywhere", "before"]
"""Where a pair must have room below the path's bandwidth: at one end, at both, or at the one compared with."""

MEASURE_MORE = "measure repetitions (repetitions: 3) or longer cells (max_time), which narrows the interval"
_ROOM = {
    "somewhere": "both ends fill the path",
    "everywhere": "an end fills the path",
    "before": "the end compared with fills the path",
}
_PLACES = 6  # values of an axis that a sentence lists


def ratio(
    axis: str,
    region: Region,
    what: str,
    *,
    values: Sequence[Any] | None = None,
    room: Room | None = "somewhere",
    choose: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> Test:
    """Give the test that the mean ratio along an axis lies in a region, over cells that differ only in the axis.

    values: two values to compare, the first of which is the denominator; without, the least and the most there.
    room: which pairs the path's bandwidth lets speak. choose: the rows that the claim is about.
    """

    def test(cells: Cells) -> Finding:
        rows = cells.trusted if choose is None else choose(cells.trusted)
        return compare(cells.pairs(rows, axis, values, with_room(room)), axis, region, what, room)

    return test


def compare(pairs: Pairs, axis: str, region: Region, what: str, room: Room | None = None) -> Finding:
    """Decide by the mean ratio of pairs; `room` is what they were kept by."""
    kept, left = pairs
    aside = f"; {left} left out in which {_ROOM[room]}" if room and left else ""
    interval = mean_ratio(kept["ratio"], kept["error"])
    if interval is None:
        reason = (
            f"pairs of trustworthy cells that differ only in {axis}: {len(kept)}{aside}; "
            f"{FEWEST_PAIRS} are the fewest that show how much runs differ"
        )
        advice = f"sweep more values of the other axes, or repetitions: {FEWEST_PAIRS}"
        return Finding(None, reason, rows=pair_rows(kept), advice=advice)
    reason = f"{len(kept)} pairs that differ only in {axis}{aside}, {spans(kept)}: {said(interval, region)}"
    decision = region.decide(interval)
    return Finding(decision, reason, Effect(what, interval), pair_rows(kept), MEASURE_MORE)


def with_room(room: Room | None) -> Callable[[pd.DataFrame], pd.Series] | None:
    """Give which pairs the path's bandwidth lets show something."""
    if room is None:
        return None

    def speaks(pairs: pd.DataFrame) -> pd.Series:
        before, after = pairs["before_full"].astype(bool), pairs["after_full"].astype(bool)
        return ~{"somewhere": before & after, "everywhere": before | after, "before": before}[room]

    return speaks


def pair_rows(pairs: pd.DataFrame) -> tuple[Row, ...]:
    """Give pairs as lines of evidence, from the smallest ratio to the largest."""
    if pairs.empty:
        return ()
    lines = pairs.drop(columns=["error", "before_full", "after_full", "cpu"]).sort_values("ratio")
    return tuple(lines.rename(columns={"before": "from_gbit_s", "after": "to_gbit_s"}).to_dict("records"))


def cell_rows(points: pd.DataFrame, cells: Cells, count: int = 12) -> tuple[Row, ...]:
    """Give the points of the largest throughput as lines of evidence."""
    return tuple(
        {
            **cells.where(row, ["repetition"]),
            "throughput_gbit_s": row["throughput"],
            "error_gbit_s": row["error"],
        }
        for _, row in points.sort_values("throughput", ascending=False).head(count).iterrows()
    )


def spans(rows: pd.DataFrame) -> str:
    """Say on which values of the axes rows lie."""
    texts = []
    for name in (name for name in rows.columns if name not in PAIR):
        values = sorted(rows[name].unique())
        listed = [shown(name, value) for value in values[:_PLACES]] + ["…"] * (len(values) > _PLACES)
        texts.append(f"{name} {', '.join(listed)}")
    return f"at {'; '.join(texts)}" if texts else "at one place"


def place(row: Row, cells: Cells) -> str:
    """Say where a cell lies on the axes."""
    return ", ".join(
        f"{name} {shown(name, value)}" for name, value in cells.where(row, ["repetition"]).items()
    )


def shown(name: str, value: Any) -> str:
    """Give a parameter's value for people."""
    value = value.item() if hasattr(value, "item") else value
    return "no limit" if isinstance(value, float) and math.isinf(value) else show_value(name, value)


def said(interval: Interval, region: Region, units: str = "") -> str:
    """Say how an interval lies to the region that a claim needs."""
    lies = {True: "lies within", False: "lies outside", None: "reaches across an end of"}[
        region.decide(interval)
    ]
    ends = f"{interval.low:.3g} to {interval.high:.3g}{units}"
    return f"{interval.value:.3g}{units} ({ends}) {lies} what the claim needs: {region}{units}"


def best(cells: Cells, rows: pd.DataFrame, comparisons: int = 1) -> tuple[Interval | None, pd.DataFrame]:
    """Give the largest throughput of the points that rows make, with a simultaneous interval, and the points."""
    points = cells.points(rows)
    return largest(points["throughput"], points["error"], comparisons), points


def reached(target: float) -> Region:
    """Give the throughputs that count as reaching so many Gbit/s: a goodput of `FULL` of it."""
    return Region(low=FULL * target)


def level(region: Region, what: str, choose: Callable[[pd.DataFrame], pd.DataFrame] | None = None) -> Test:
    """Give the test that the largest throughput of the cells chosen lies in a region of Gbit/s."""

    def test(cells: Cells) -> Finding:
        interval, points = best(cells, cells.trusted if choose is None else choose(cells.trusted))
        if interval is None:
            return nothing_there("where the claim speaks")
        reason = f"the best of {len(points)} points: {said(interval, region, ' Gbit/s')}"
        effect = Effect(what, interval, "Gbit/s")
        return Finding(region.decide(interval), reason, effect, cell_rows(points, cells), MEASURE_MORE)

    return test


def nothing_there(where: str) -> Finding:
    """Give the finding that no trustworthy cell is where a claim speaks."""
    return Finding(None, f"no trustworthy cell lies {where}", advice="measure those cells again, for longer")


def curve_peaks(
    cells: Cells, rows: pd.DataFrame, speaks: Callable[[pd.DataFrame], bool]
) -> list[tuple[pd.DataFrame, Peak]]:
    """Give curves over streams with whether each has a peak, tested against as many others as there are.

    speaks: which curves a claim is about. Curves of fewer than three points that are sure are none.
    """
    points = ratio_worthy(cells.points(rows))
    points = points[points["error"].notna()]
    curves = [panel.sort_values("streams") for panel in cells.panels(points, ["streams", "repetition"])]
    curves = [curve for curve in curves if len(curve) >= 3 and speaks(curve)]
    found = [(curve, peak(curve["throughput"].tolist(), _relative(curve), len(curves))) for curve in curves]
    return [(curve, one) for curve, one in found if one is not None]


def _relative(curve: pd.DataFrame) -> list[float]:
    relative: list[float] = (curve["error"] / curve["throughput"]).tolist()
    return relative


def cpu_bound(curve: pd.DataFrame) -> bool:
    """Say whether CPU, and not the path, binds the most streams of a curve; yes where CPU was not recorded."""
    last = curve.iloc[-1]
    return bool(not last["full"] and (pd.isna(last["cpu"]) or last["cpu"] >= CPU_BOUND))


def peak_rows(curves: Sequence[tuple[pd.DataFrame, Peak]], cells: Cells) -> tuple[Row, ...]:
    """Give curves as lines of evidence."""
    words = {True: "rises, then falls", False: "no", None: "undecided"}
    return tuple(
        {
            **cells.where(curve.iloc[0], ["streams", "repetition"]),
            "peak": words[found.decision],
            "from_streams": curve["streams"].iloc[found.fall[0]],
            "to_streams": curve["streams"].iloc[found.fall[1]],
            "from_gbit_s": curve["throughput"].iloc[found.fall[0]],
            "to_gbit_s": curve["throughput"].iloc[found.fall[1]],
            "fall": found.ratio.value,
            "fall_low": found.ratio.low,
            "fall_high": found.ratio.high,
            "cpu_used": curve["cpu"].iloc[-1],
        }
        for curve, found in curves
    )


def counted(decisions: Sequence[Decision]) -> str:
    """Say how many decide what."""
    return f"{decisions.count(True)} yes, {decisions.count(False)} no, {decisions.count(None)} undecided"
