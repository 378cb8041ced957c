# SPDX-License-Identifier: Apache-2.0
"""Tests of claims of CHEP 2023 and 2024, whose YAML files have the texts, needs and regions."""

import dataclasses
import math

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.analysis.claims import predicates
from tpcsweep.analysis.claims.claim import MEASURE_MORE, Claim, Effect, Finding, for_claims
from tpcsweep.analysis.claims.claim_cells import CPU_BOUND, CellTable, log_error, ratio_worthy
from tpcsweep.common.numbers import plain, short
from tpcsweep.data import effects
from tpcsweep.data.effects import Interval, Region
from tpcsweep.sweeps.parameters import value_text

_HOUR = 3000.0  # seconds that count as about an hour


@for_claims
def sustained(claim: Claim, cells: CellTable) -> Finding:
    """Test the best mean of cells that took an hour."""
    long, lacks = _hours(claim, cells)
    return lacks or predicates.judge_best(cells, long, claim.region, "largest throughput over an hour")


@for_claims
def little_fluctuation(claim: Claim, cells: CellTable) -> Finding:
    """Test the largest second over the mean of cells that took an hour."""
    long, lacks = _hours(claim, cells)
    long = long.dropna(subset=["throughput_max"])
    above = long["throughput_max"] / long["throughput"]
    interval = effects.largest_level(above, above * long["error"] / long["throughput"])
    if lacks or interval is None:
        return lacks or predicates.missing_cells("that took an hour and tells its largest second")
    rows = [{**cells.where(row), "largest_second_over_mean": above[at]} for at, row in long.iterrows()]
    part = (f"the most of {len(long)} cells of an hour", interval, claim.region, rows)
    return predicates.judge_parts([part], Effect("largest second over the mean of an hour", interval))


def _hours(claim: Claim, cells: CellTable) -> tuple[pd.DataFrame, Finding | None]:
    """Return the claim's cells that took about an hour, and why there are none."""
    at_scale = claim.select(cells)
    long = at_scale[at_scale["duration"] >= _HOUR]
    if len(long):
        return long, None
    if at_scale.empty:
        return long, predicates.missing_cells("at 400 Gbit/s, about 3 ms and about 520 streams")
    reason = (
        f"the longest of {len(at_scale)} cells took {at_scale['duration'].max():.0f} s, and an hour is needed"
    )
    advice = "sweep measurement: {until: seconds, seconds: 1 h}"
    return long, Finding(None, reason, rows=predicates.cell_rows(at_scale, cells), advice=advice)


@for_claims
def streams_required(claim: Claim, cells: CellTable) -> Finding:
    """Test the best throughput of half of 520 streams over that of all."""
    at_scale = claim.select(cells)
    every, all_points = predicates.peak_throughput(cells, at_scale.query("468 <= streams <= 572"), 2)
    half, half_points = predicates.peak_throughput(cells, at_scale.query("streams <= 260"), 2)
    if every is None or half is None:
        return predicates.missing_cells(
            "at 400 Gbit/s and about 3 ms with about 520 streams, and with half of them or fewer"
        )
    share = Interval(half.value / every.value, half.low / every.high, half.high / every.low)
    subject = (
        f"the best of {len(half_points)} points with half of the streams or fewer over that with about 520"
    )
    rows = [*predicates.cell_rows(half_points, cells), *predicates.cell_rows(all_points, cells)]
    effect = Effect("throughput of half of 520 streams or fewer over theirs", share)
    return predicates.judge_parts([(subject, share, claim.region, rows)], effect)


@for_claims
def streams_stop_helping(claim: Claim, cells: CellTable) -> Finding:
    """Test the gain of the most streams over a quarter of them, at long RTTs."""
    far = claim.select(cells)
    many = far[far["streams"] >= far["streams"].max() / 4]
    pairs = cells.pairs(many, "streams", speaks=predicates.unbound)
    quantity = "throughput at the most streams over that at a quarter of them or more"
    return predicates.judge_ratios(pairs, "streams", claim.region, quantity, "everywhere")


@for_claims
def streams_peak(claim: Claim, cells: CellTable) -> Finding:
    """Test that most CPU-bound curves with few cores have a peak."""
    rows = claim.select(cells)
    values = sorted(rows["cores"].unique())
    bound = predicates.curve_peaks(cells, rows[rows["cores"].isin(values[: len(values) // 2])], _cpu_bound)
    if not bound:
        reason = (
            "no curve with few cores has three trustworthy streams values or more and uses up the servers' CPU "
            "at the most streams, below the path's bandwidth"
        )
        return Finding(None, reason, advice="sweep fewer cores, more streams, or more bandwidth")
    decisions = [peak.decision for _, peak in bound]
    votes = predicates.vote_counts(decisions)
    reason = f"{len(bound)} curves with few cores that use up the servers' CPU have a peak: {votes}"
    evidence = [predicates.peak_row(curve, peak, cells) for curve, peak in bound]
    advice = f"sweep more streams values, fewer and more than those there; {MEASURE_MORE}"
    return Finding(effects.majority(decisions), reason, predicates.clearest(bound), evidence, advice)


def _cpu_bound(curve: pd.DataFrame) -> bool:
    """Return whether CPU, not the path, binds a curve's most streams; True if CPU was not recorded."""
    last = curve.iloc[-1]
    return bool(not last["full"] and (pd.isna(last["cpu"]) or last["cpu"] >= CPU_BOUND))


@for_claims
def rtt_not_linear(claim: Claim, cells: CellTable) -> Finding:
    """Test that most otherwise unbound curves over RTT have an exponent outside the region."""
    kept, left = predicates.unbound_pairs(cells, claim.select(cells), "rtt", 3)
    aside = f"; {left} left out in which something else binds an end, or that differ less" if left else ""
    changes = kept["ratio"], kept["error"], kept["to"] / kept["from"]
    common = kept["deployment"], kept["luck"]
    subject = f"{len(kept)} curves over RTT with ends three-fold or more apart in 8 to 75 ms{aside}"
    mean = effects.mean_exponent(*changes, *common)
    if mean is None:
        advice = "sweep rtt: [10 ms, 20 ms, 40 ms, 60 ms] with several streams, and cores and a path to spare"
        return predicates.too_few_pairs(subject, kept, advice)
    each = effects.exponents(*changes)
    inverse = [claim.region.decide(exponent) for exponent in each]
    decisions = [None if one is None else not one for one in inverse]
    reason = (
        f"{subject}, {predicates.axes_text(kept)}: {predicates.vote_counts(decisions)} "
        f"with an exponent outside {claim.region}, which is about 1/RTT; the exponents are "
        f"{min(one.value for one in each):.2f} to {max(one.value for one in each):.2f}"
    )
    effect = Effect("exponent of RTT, mean of the curves", mean)
    return Finding(effects.majority(decisions), reason, effect, predicates.pair_rows(kept))


@for_claims
def rtt120_cap(claim: Claim, cells: CellTable) -> Finding:
    """Test that the largest and the smallest throughput at 120 ms lie in the region."""
    region = claim.region
    top, points = predicates.peak_throughput(cells, claim.select(cells))
    # The smallest is the largest of the negated values.
    bottom = effects.largest_level(-points["throughput"], points["error"])
    if top is None or bottom is None or points["streams"].max() < 400:
        return predicates.missing_cells(
            "with 2 origins, 128 cores or more, up to 400 streams or more and about 120 ms"
        )
    decision = effects.all_true([region.decide(top), Region(-region.high, -region.low).decide(bottom)])
    least = f"the least is {short(-bottom.value)} Gbit/s"
    reason = f"the best of {len(points)} points: {predicates.interval_text(top, region, ' Gbit/s')}; {least}"
    effect = Effect("largest throughput at 120 ms", top, "Gbit/s")
    return Finding(decision, reason, effect, predicates.cell_rows(points, cells))


@for_claims
def two_origins(claim: Claim, cells: CellTable) -> Finding:
    """Test that every path reaches the target at the lowest RTT, and not at the largest."""
    rows = claim.select(cells)
    low, high = rows["rtt"][rows["rtt"] <= 10].min(), rows["rtt"][rows["rtt"] >= 100].max()
    parts = {}
    for path, part in _by_path(cells, rows):
        parts[f"{path} at the lowest RTT"] = part[part["rtt"] == low], claim.regions["reach"]
        parts[f"{path} at the largest RTT"] = part[part["rtt"] == high], claim.regions["short"]
    return _each(cells, parts)


@for_claims
def four_origins(claim: Claim, cells: CellTable) -> Finding:
    """Test that every path reaches the target at every RTT."""
    rtts = sorted(rtt for rtt in cells.every["rtt"].unique() if rtt <= 125)
    parts = {
        f"{path} at {value_text('rtt', rtt)}": (part[part["rtt"] == rtt], claim.region)
        for path, part in _by_path(cells, claim.select(cells))
        for rtt in rtts
    }
    return _each(cells, parts, least=True)


@for_claims
def near_limit(claim: Claim, cells: CellTable) -> Finding:
    """Test that a path of 400 Gbit/s reaches the target, and one of 200 Gbit/s does not."""
    rows = claim.select(cells)
    parts = {
        f"on a path of {bandwidth} Gbit/s": (rows[rows["bandwidth"] == bandwidth], claim.regions[name])
        for bandwidth, name in ((200, "short"), (400, "reach"))
    }
    return _each(cells, parts)


def _by_path(cells: CellTable, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Group rows by bandwidth and TCP buffer, smallest first; a better path is no evidence on others."""
    words = {"bandwidth": "on a path of"}
    if "tcp_buffer" in cells.axes:
        words["tcp_buffer"] = "with buffers of"
    paths = []
    for values, part in rows.groupby(list(words)):
        named = zip(words.items(), values, strict=True)
        texts = [f"{text} {value_text(name, value)}" for (name, text), value in named]
        paths.append((" ".join(texts), part))
    return paths


def _each(cells: CellTable, parts: dict[str, tuple[pd.DataFrame, Region]], *, least: bool = False) -> Finding:
    """Judge the best of each part, with shared confidence; the effect is the first's, or with `least` the slowest's."""
    judged, effects = [], []
    for where, (part, region) in parts.items():
        interval, points = predicates.peak_throughput(cells, part, len(parts))
        if interval is None:
            return predicates.missing_cells(where)
        rows = [{"where": where, **row} for row in predicates.cell_rows(points, cells, 3)]
        judged.append((f"{where} the best of {len(points)} points", interval, region, rows))
        effects.append(Effect(f"largest throughput {where}", interval, "Gbit/s"))
    if not parts:
        return predicates.missing_cells("where the claim speaks")
    effect = min(effects, key=lambda effect: effect.interval.value) if least else effects[0]
    return predicates.judge_parts(judged, effect)


@for_claims
def small_rtt_peak(claim: Claim, cells: CellTable) -> Finding:
    """Test that most curves at the smallest RTT have a peak, and fall more than at the largest RTT."""
    rows = claim.select(cells)
    short, long = rows["rtt"].min(), rows["rtt"].max()
    every = predicates.curve_peaks(cells, rows[(rows["rtt"] == short) & (rows["rtt"] <= 20)], lambda _: True)
    # A full path hides a peak above it, but not a fall from it.
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
        decisions.append(effects.all_true([peak.decision, claim.region.decide(softer)]))
        line = predicates.peak_row(curve, peak, cells)
        lines.append({**line, "softer_at_long_rtt": softer.value if softer else None})
    reason = (
        f"{len(curves)} curves at {value_text('rtt', short)} rise, fall, and fall less between the same streams at "
        f"{value_text('rtt', long)}: {predicates.vote_counts(decisions)}"
    )
    advice = f"sweep more streams values; {MEASURE_MORE}"
    return Finding(effects.majority(decisions), reason, predicates.clearest(curves), lines, advice)


def _softer(
    cells: CellTable, curve: pd.DataFrame, fall: tuple[int, int], long: pd.DataFrame, curves: int
) -> Interval | None:
    """Return the ratio of a fall to that of the same streams at the long RTT, or None if not measured."""
    ends = [curve.iloc[place] for place in fall]
    same = long
    for name, value in cells.where(ends[0], ["streams", "rtt", "repetition"]).items():
        same = same[same[name] == value]
    others = [same[same["streams"] == end["streams"]] for end in ends]
    if any(len(other) != 1 or not np.isfinite(other["error"].iloc[0]) for other in others):
        return None
    corners = [*ends, *(other.iloc[0] for other in others)]
    logs = [math.log(corner["throughput"]) for corner in corners]
    error = math.sqrt(sum(log_error(corner) ** 2 for corner in corners))
    softer = effects.largest_level([logs[0] - logs[1] - logs[2] + logs[3]], [error], curves)
    return softer and softer.map(math.exp)


@for_claims
def instance_cores(claim: Claim, cells: CellTable) -> Finding:
    """Test the gain of one origin's most cores over 16 cores."""
    rows = claim.select(cells)
    sixteen = rows[rows["cores"].between(12, 16)]["cores"].max()
    rows = rows[np.isfinite(rows["cores"]) & ((rows["cores"] == sixteen) | (rows["cores"] >= 24))]
    # Windows bind few streams for any cores; the best over streams shows the effect of cores.
    top = cells.best(ratio_worthy(rows), "streams")
    pairs = cells.pairs(top, "cores", speaks=predicates.ROOM["before"])
    pairs = pairs._replace(table=pairs.table.drop(columns="streams", errors="ignore"))
    quantity = "best throughput with the most cores over that with 16"
    return predicates.judge_ratios(pairs, "cores", claim.region, quantity, "before")


@for_claims
def saturated_flat(claim: Claim, cells: CellTable) -> Finding:
    """Test the loss from the first full path to the most streams."""
    # A path that is full by luck falls later, which contradicts the claim.
    rows = claim.select(cells)
    parts = []
    for panel in cells.panels(rows, ["streams", "repetition"]):
        points = ratio_worthy(cells.points(panel))
        full = points["streams"][points["full"].astype(bool)]
        parts.append(panel[panel["streams"] >= full.min()])
    pairs = cells.pairs(pd.concat(parts) if parts else rows, "streams")
    quantity = "throughput at the most streams over that where the path is first full"
    advice = "sweep more streams, so that the path is full before the last value, and repetitions: 3"
    return predicates.judge_ratios(pairs, "streams", claim.region, quantity, advice=advice)


@for_claims
def short_rtt_cores(claim: Claim, cells: CellTable) -> Finding:
    """Test that half of the cores at the smallest RTT, but not at the largest, do as all cores at the largest."""
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
    reach, short_of = (predicates.pair_mean(part, 2) for part in (enough, needed))
    ours = f"{plain(few)} cores at {value_text('rtt', short)}"
    theirs = f"{plain(many)} cores at {value_text('rtt', long)}"
    if reach is None or short_of is None:
        found = f"{min(len(enough), len(needed))} trustworthy pairs of {ours} and {theirs}"
        return predicates.too_few_pairs(found, enough, predicates.MORE_PAIRS)
    subject = f"{len(enough)} pairs, {predicates.axes_text(enough)}: {ours} over {theirs}"
    other = f"{plain(few)} cores over {plain(many)} at {value_text('rtt', long)}"
    first = (subject, reach, claim.regions["enough"], predicates.pair_rows(enough))
    second = (other, short_of, claim.regions["short"], ())
    return predicates.judge_parts([first, second], Effect(f"throughput of {ours} over {theirs}", reach))


def _matched(cells: CellTable, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    apart = ("streams", "cores", "rtt")
    marked = pd.concat([before.assign(part="before"), after.assign(part="after")])
    joined = marked.assign(**dict.fromkeys(apart, 0))
    # The part is an axis here, so that points are averaged for each part.
    with_part = dataclasses.replace(cells, axes=(*cells.axes, "part"))
    pairs = with_part.pairs(joined, "part", ("before", "after"))
    return pairs.table.drop(columns=list(apart), errors="ignore")
