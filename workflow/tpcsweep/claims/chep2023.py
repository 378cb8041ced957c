# SPDX-License-Identifier: Apache-2.0
"""Tests of single claims of CHEP 2023; `chep2023.yaml` has their texts, needs and regions."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import MEASURE_MORE, Claim, Effect, Finding
from tpcsweep.claims.cells import CPU_BOUND, CellTable
from tpcsweep.claims.effects import Interval, Region, both, exponents, largest, mean_exponent, most
from tpcsweep.claims.predicates import (
    best,
    cell_rows,
    clearest,
    compare,
    counted,
    curve_peaks,
    no_cell,
    pair_rows,
    peak_row,
    said,
    spans,
    together,
    too_few,
    unbound,
)

_HOUR = 3000.0
"""Seconds that count as about an hour."""


def sustained(claim: Claim, cells: CellTable) -> Finding:
    """Test the best mean of cells that took an hour."""
    long = _of_an_hour(claim, cells)
    if isinstance(long, Finding):
        return long
    interval, points = best(cells, long)
    assert interval is not None  # an hour's cells make a point or more
    reason = f"{len(points)} points of an hour; {said(interval, claim.region, ' Gbit/s')}"
    effect = Effect("largest throughput over an hour", interval, "Gbit/s")
    return Finding(claim.region.decide(interval), reason, effect, cell_rows(points, cells))


def little_fluctuation(claim: Claim, cells: CellTable) -> Finding:
    """Test the largest second over the mean of cells that took an hour."""
    long = _of_an_hour(claim, cells)
    if isinstance(long, Finding):
        return long
    long = long.dropna(subset=["throughput_max"])
    above = long["throughput_max"] / long["throughput"]
    interval = largest(above, above * long["error"] / long["throughput"])
    if interval is None:
        return no_cell("that took an hour and tells its largest second")
    rows = [{**cells.where(row), "largest_second_over_mean": above[at]} for at, row in long.iterrows()]
    part = (f"the most of {len(long)} cells of an hour", interval, claim.region, rows)
    return together([part], Effect("largest second over the mean of an hour", interval))


def _of_an_hour(claim: Claim, cells: CellTable) -> pd.DataFrame | Finding:
    """The cells of the main test that took an hour, or why there is none."""
    at_scale = claim.select(cells)
    if at_scale.empty:
        return no_cell("at 400 Gbit/s, about 3 ms and about 520 streams")
    long = at_scale[at_scale["duration"] >= _HOUR]
    if long.empty:
        reason = f"the longest of {len(at_scale)} cells took {at_scale['duration'].max():.0f} s, and an hour is needed"
        advice = "sweep measurement: {until: seconds, seconds: 1 h}"
        return Finding(None, reason, rows=cell_rows(at_scale, cells), advice=advice)
    return long


def streams_required(claim: Claim, cells: CellTable) -> Finding:
    """Test the best of half of 520 streams over that of all."""
    at_scale = claim.select(cells)
    every, all_points = best(cells, at_scale.query("468 <= streams <= 572"), 2)
    half, half_points = best(cells, at_scale.query("streams <= 260"), 2)
    if every is None or half is None:
        return no_cell("at 400 Gbit/s and about 3 ms with about 520 streams, and with half of them or fewer")
    share = Interval(half.value / every.value, half.low / every.high, half.high / every.low)
    subject = (
        f"the best of {len(half_points)} points with half of the streams or fewer over that with about 520"
    )
    rows = [*cell_rows(half_points, cells), *cell_rows(all_points, cells)]
    effect = Effect("throughput of half of 520 streams or fewer over theirs", share)
    return together([(subject, share, claim.region, rows)], effect)


def streams_stop_helping(claim: Claim, cells: CellTable) -> Finding:
    """Test the gain of the most streams over a quarter of them, at long RTTs."""
    far = claim.select(cells)
    many = far[far["streams"] >= far["streams"].max() / 4]
    quantity = "throughput at the most streams over that at a quarter of them or more"
    return compare(
        cells.pairs(many, "streams", speaks=unbound), "streams", claim.region, quantity, "everywhere"
    )


def streams_peak(claim: Claim, cells: CellTable) -> Finding:
    """Test that most curves with few cores that the CPU binds have a peak."""
    rows = claim.select(cells)
    values = sorted(rows["cores"].unique())
    bound = curve_peaks(cells, rows[rows["cores"].isin(values[: len(values) // 2])], _cpu_bound)
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


def _cpu_bound(curve: pd.DataFrame) -> bool:
    """Whether CPU, and not the path, binds the most streams of a curve; yes where CPU was not recorded."""
    last = curve.iloc[-1]
    return bool(not last["full"] and (pd.isna(last["cpu"]) or last["cpu"] >= CPU_BOUND))


def rtt_not_linear(claim: Claim, cells: CellTable) -> Finding:
    """Test that most curves over RTT have an exponent outside the region; where nothing else binds, the RTT does."""
    kept, left = cells.pairs(
        claim.select(cells), "rtt", speaks=lambda pairs: unbound(pairs) & (pairs["to"] >= 3 * pairs["from"])
    )
    aside = f"; {left} left out in which something else binds an end, or that differ less" if left else ""
    changes = kept["ratio"], kept["error"], kept["to"] / kept["from"]
    mean = mean_exponent(*changes)
    if mean is None:
        reason = f"curves over RTT with ends three-fold or more apart in 8 to 75 ms: {len(kept)}{aside}; 3 are needed"
        advice = "sweep rtt: [10 ms, 20 ms, 40 ms, 60 ms] with several streams, and cores and a path to spare"
        return too_few(reason, kept, advice)
    each = exponents(*changes)
    inverse = [claim.region.decide(exponent) for exponent in each]
    decisions = [None if one is None else not one for one in inverse]
    reason = (
        f"{len(kept)} curves over RTT{aside}, {spans(kept)}: {counted(decisions)} with an exponent outside "
        f"{claim.region}, which is about 1/RTT; the exponents are {min(one.value for one in each):.2f} to "
        f"{max(one.value for one in each):.2f}"
    )
    effect = Effect("exponent of RTT, mean of the curves", mean)
    return Finding(most(decisions), reason, effect, pair_rows(kept))


def rtt120_cap(claim: Claim, cells: CellTable) -> Finding:
    """Test that the largest and the smallest throughput at 120 ms lie in the region."""
    region = claim.region
    top, points = best(cells, claim.select(cells))
    # The smallest is the largest of what is negative.
    bottom = largest(-points["throughput"], points["error"])
    if top is None or bottom is None or points["streams"].max() < 400:
        return no_cell("with 2 origins, 128 cores or more, up to 400 streams or more and about 120 ms")
    decision = both([region.decide(top), Region(-region.high, -region.low).decide(bottom)])
    least = f"the least is {-bottom.value:.3g} Gbit/s"
    reason = f"the best of {len(points)} points: {said(top, region, ' Gbit/s')}; {least}"
    effect = Effect("largest throughput at 120 ms", top, "Gbit/s")
    return Finding(decision, reason, effect, cell_rows(points, cells))
