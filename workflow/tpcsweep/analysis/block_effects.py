# SPDX-License-Identifier: Apache-2.0
"""Effects of a setting, estimated inside blocks: repetitions that measured every value once.

Whatever the cells of a block share, such as a drift of machines or production load, cancels in ratios inside it. Every
figure is therefore one number for each block, the mean logarithm of ratios, and its interval is Student's over the
blocks (paired t; R. A. Fisher, The Design of Experiments, 1935; for summaries of repeated measures J. N. S. Matthews
et al., BMJ 300, 1990). Holm's correction treats everything that is reported as one family, in which the overall
effects on throughput have half of the level.

Counts of retransmits may be zero: half a segment is added (F. J. Anscombe, Biometrika 43, 1956).
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import SIMULATED
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.problems import refused, suggest
from tpcsweep.sweeps.sweep import REPETITION

FEWEST_BLOCKS = 2
POWER = 0.8
"""Probability with which the stated number of further blocks decides, if the effect and its scatter are as found."""
MOST_BLOCKS = 1000  # a larger number of blocks is not stated
THROUGHPUT = "throughput"
MEASURES = {THROUGHPUT: "throughput", "cpu": "CPU per Gbit", "retransmits": "retransmits per Gbit"}

Floats = NDArray[np.float64]
Verdict = Literal["gain", "less", "undecided"]


@dataclass(frozen=True)
class Row:
    """The ratio of one value of a setting over the reference, for all cells or those with one value of an axis."""

    value: str
    axis: str  # "" for all cells
    at: str  # the value of `axis`
    measure: str  # key of MEASURES
    ratio: float
    low: float
    high: float
    blocks: int
    p: float  # corrected; of no effect, and in rows of an axis of the same effect as at its other values
    differs: bool  # whether p is below the level
    verdict: Verdict | None = None  # of throughput: whether the gain is at least the wanted one
    further_blocks: int | None = None
    """Blocks that would decide an undecided verdict; None if more than MOST_BLOCKS."""


@dataclass(frozen=True)
class BlockEffects:
    """Effects of the values of a setting."""

    setting: str
    reference: str
    at_least: float
    rows: list[Row]
    notes: list[str]  # blocks and cells that are not used

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the best value over all cells."""
        found = {row.verdict for row in self.rows if row.verdict and not row.axis}
        return "gain" if "gain" in found else "undecided" if "undecided" in found else "less"


class _Test(NamedTuple):
    """Numbers of the blocks for one row, and those that are tested against zero."""

    value: str
    axis: str
    at: str
    measure: str
    effects: Floats
    tested: Floats


def block_effects(
    summary: xr.Dataset, setting: str, reference: str | None = None, at_least: float = 0.1
) -> BlockEffects:
    """Estimate the effects of an axis of a dataset.

    Args:
        summary: Dataset whose repetitions are deployments of their own.
        setting: The axis, such as `tuning`.
        reference: The value that others are compared with, as text; by default the first one.
        at_least: The wanted gain of throughput, as a share.

    Raises ConfigurationError if the dataset has no such axis or value, or no blocks.
    """
    rows, names = _rows(summary, setting)
    values = list(dict.fromkeys(rows["value"]))
    if not values:
        raise refused("--of", f"no cell with a throughput, at any value of {setting}", "measured cells")
    if reference is None:
        reference = values[0]
    if reference not in values:
        raise refused("--reference", repr(reference), suggest(reference, values))
    tests, notes = list[_Test](), list[str]()
    for value, measure in itertools.product((one for one in values if one != reference), MEASURES):
        table = _log_ratios(rows, value, reference, measure)
        complete = _complete(table)
        if len(complete.columns) < FEWEST_BLOCKS:
            continue
        if measure == THROUGHPUT and complete.shape != table.shape:
            unused = table.size - complete.size
            notes.append(
                f"{value}: {unused} of {table.size} pairs are in blocks or cells with gaps, and not used"
            )
        tests += _tests(complete, value, measure, names)
    if not any(test.measure == THROUGHPUT for test in tests):
        raise refused("repetitions", "fewer than two blocks with both values", "2 blocks or more")
    return BlockEffects(setting, reference, at_least, _judged(tests, at_least), notes)


def _rows(summary: xr.Dataset, setting: str) -> tuple[pd.DataFrame, list[str]]:
    """Return measured cells with `value`, `block`, `point` and logarithms of measures, and the other axes."""
    axes = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    if setting not in axes:
        raise refused("--of", repr(setting), suggest(setting, axes))
    if summary.attrs.get("testbed_kind") == SIMULATED:
        raise refused("RESULTS", "a simulated dataset", "measurements: simulated cells have no scatter")
    if summary.attrs.get("repeat", "deployments") != "deployments":
        fix = "a sweep with order: blocks, because repetitions of one deployment apply its setting once"
        raise refused("repeat", "cells", fix)
    also = ("source_cpu", "destination_cpu", "retransmits", "duration")
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=also)
    rows = rows[(rows["reason"] == "") & (rows["throughput"] > 0)]
    others = [name for name in axes if name != setting and rows[name].nunique() > 1]
    points = rows[others].apply(tuple, axis=1) if others else pd.Series([()] * len(rows), rows.index)
    with np.errstate(divide="ignore", invalid="ignore"):
        gbit = rows["throughput"] * rows["duration"]
        measures = {
            THROUGHPUT: rows["throughput"],
            "cpu": (rows["source_cpu"] + rows["destination_cpu"]) / rows["throughput"],
            "retransmits": (rows["retransmits"] + 0.5) / gbit,
        }
        logs = {name: np.log(values.where(values > 0)) for name, values in measures.items()}
    value = rows[setting].map(lambda one: value_text(setting, one))
    return rows.assign(value=value, block=rows[REPETITION], point=points, **logs), others


def _log_ratios(rows: pd.DataFrame, value: str, reference: str, measure: str) -> pd.DataFrame:
    """Return the logarithms of ratios, points × blocks; NaN where a cell is missing."""
    ours, theirs = (
        rows[rows["value"] == one].pivot_table(measure, "point", "block", dropna=False)
        for one in (value, reference)
    )
    points, blocks = ours.index.union(theirs.index), ours.columns.union(theirs.columns)
    return ours.reindex(points, columns=blocks) - theirs.reindex(points, columns=blocks)


def _complete(table: pd.DataFrame) -> pd.DataFrame:
    """Remove blocks and points with the most gaps until none is left, so that all blocks have the same points."""
    while table.size and table.isna().any(axis=None):
        gaps = [table.isna().mean(axis=axis) for axis in (0, 1)]  # of blocks, of points
        axis = int(gaps[1].max() > gaps[0].max())
        worst = gaps[axis].idxmax()
        table = table.drop(index=[worst]) if axis else table.drop(columns=[worst])
    return table


def _tests(table: pd.DataFrame, value: str, measure: str, names: list[str]) -> Iterator[_Test]:
    """Yield the overall effect of a value, and for throughput its effect at each value of each axis."""
    overall = table.to_numpy().mean(axis=0)
    yield _Test(value, "", "", measure, overall, overall)
    if measure != THROUGHPUT:
        return
    for place, name in enumerate(names):
        coordinates = [point[place] for point in table.index]
        several = dict.fromkeys(coordinates)
        for at in several if len(several) > 1 else ():
            here = np.array([one == at for one in coordinates])
            inside, outside = (table.to_numpy()[which].mean(axis=0) for which in (here, ~here))
            yield _Test(value, name, value_text(name, at), measure, inside, inside - outside)


def _judged(tests: list[_Test], at_least: float) -> list[Row]:
    """Return rows with corrected verdicts; those of an axis only if the effect differs along it."""
    main = [test.measure == THROUGHPUT and not test.axis for test in tests]
    corrected = _corrected([_p(test.tested) for test in tests], main)
    rates = [place for place, test in enumerate(tests) if test.measure == THROUGHPUT]
    threshold = math.log1p(at_least)
    against = [_p(tests[place].effects - threshold) for place in rates]
    decided = dict(zip(rates, _corrected(against, [main[place] for place in rates]), strict=True))
    level = (1 - CONFIDENCE) / (1 if all(main[place] for place in rates) else 2) / max(1, sum(main))
    differing = {
        (test.value, test.axis)
        for test, p in zip(tests, corrected, strict=True)
        if p < 1 - CONFIDENCE and test.axis
    }
    rows = []
    for place, (test, p) in enumerate(zip(tests, corrected, strict=True)):
        if test.axis and (test.value, test.axis) not in differing:
            continue
        blocks, differs = len(test.effects), bool(p < 1 - CONFIDENCE)
        mean, error = float(test.effects.mean()), float(test.effects.std(ddof=1)) / math.sqrt(blocks)
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, blocks - 1)) * error
        verdict: Verdict | None = None
        further = None
        if place in decided:
            clear = decided[place] < 1 - CONFIDENCE
            # A gain is reported only with a difference: both are then errors of one family.
            gain = mean > threshold and (differs or bool(test.axis))
            verdict = (
                "undecided" if not clear or (mean > threshold and not gain) else "gain" if gain else "less"
            )
            if verdict == "undecided":
                further = _further_blocks(mean - threshold, error * math.sqrt(blocks), blocks, level)
        ratio, low, high = np.exp([mean, mean - half, mean + half]).tolist()
        about = (test.value, test.axis, test.at, test.measure)
        rows.append(Row(*about, ratio, low, high, blocks, float(p), differs, verdict, further))
    return rows


def _corrected(p: list[float], main: list[bool]) -> Floats:
    """Return p-values after Holm's correction; the main ones share half of the level."""
    mains, others = sum(main), len(main) - sum(main)
    shares = [(0.5 if others else 1.0) / mains if is_main else 0.5 / others for is_main in main]
    return holm(np.array(p), np.array(shares))


def holm(p: Floats, weights: Floats) -> Floats:
    """Correct p-values for their number: the chance that any falls below α is at most α.

    This holds for any dependence. Weights are shares of α, with a sum of at most 1. S. Holm, A simple sequentially
    rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979: the smallest p-value over weight
    counts first, and the weights of rejected ones go to the others.
    """
    order = np.argsort(p / weights)
    left = 1 - np.cumsum(weights[order]) + weights[order]
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate((p / weights)[order] * left)
    return np.minimum(corrected, 1.0)


def _p(numbers: Floats) -> float:
    """Return the p-value of a mean of zero, two-sided, by Student's t."""
    mean, error = float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    if error == 0:
        return float(mean == 0)
    return float(2 * stats.t.sf(abs(mean) / error, len(numbers) - 1))


def _further_blocks(distance: float, deviation: float, blocks: int, level: float) -> int | None:
    """Return how many blocks beyond `blocks` show a distance with POWER; the power is that of the noncentral t."""
    if deviation == 0:
        return None
    counts = np.arange(blocks + 1, MOST_BLOCKS + 1)
    limit = stats.t.ppf(1 - level / 2, counts - 1)
    power = stats.nct.sf(limit, counts - 1, abs(distance) / deviation * np.sqrt(counts))
    enough = np.flatnonzero(power >= POWER)
    return int(counts[enough[0]] - blocks) if enough.size else None


def to_dict(found: BlockEffects) -> Mapping[str, Any]:
    """Return everything for JSON."""
    return {
        "of": found.setting,
        "reference": found.reference,
        "at_least": found.at_least,
        "confidence": CONFIDENCE,
        "verdict": found.verdict,
        "effects": [vars(row) for row in found.rows],
        "notes": found.notes,
    }
