# SPDX-License-Identifier: Apache-2.0
"""Effects of a setting, estimated inside blocks: repetitions that measured every value once.

Whatever the cells of a block share, such as a drift of machines or production load, cancels in ratios inside it. Every
figure is therefore one number for each block, the mean logarithm of ratios, and its interval is Student's over the
blocks (paired t; R. A. Fisher, The Design of Experiments, 1935; for summaries of repeated measures J. N. S. Matthews
et al., BMJ 300, 1990). Holm's correction treats everything that is reported as one family, in which the overall
effects on throughput have half of the level.

A sweep with design: screening has an effect for each setting: the mean of its runs with the second value over that of
its runs with the first one, in each block.

Counts of retransmits may be zero: half a segment is added (F. J. Anscombe, Biometrika 43, 1956). Where counts are
small that half makes the ratio: without any retransmit it is the ratio of the Gbit. Cells with the same value and the
same place on other axes are therefore compared only if both sides have FEWEST_SEGMENTS on average, where the half is
a tenth of the count or less.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.analysis.holm import holm
from tpcsweep.common.numbers import CONFIDENCE, counted, plain, short
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import SIMULATED
from tpcsweep.data.redirectors import redirected, redirector_words
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.designs import SCREENING, compared_axes, screening_runs
from tpcsweep.sweeps.parameters import Parameters, name_text, value_text
from tpcsweep.sweeps.problems import refused, suggest
from tpcsweep.sweeps.sweep import REPETITION

FEWEST_BLOCKS = 2
FEWEST_SEGMENTS = 5  # retransmitted in a cell, on average
POWER = 0.8
"""Probability with which the stated number of further blocks decides, if the effect and its scatter are as found."""
MOST_BLOCKS = 1000  # a larger number of blocks is not stated
THROUGHPUT = "throughput"
MEASURES = {THROUGHPUT: "throughput", "cpu": "servers' CPU per Gbit", "retransmits": "retransmits per Gbit"}

Floats = NDArray[np.float64]
Verdict = Literal["gain", "less", "undecided"]


@dataclass(frozen=True)
class Row:
    """The ratio of one value of a setting over its reference, for all cells or those with one value of an axis."""

    setting: str
    reference: str
    value: str
    axis: str  # "" for all cells
    at: str  # the value of `axis`
    measure: str  # key of MEASURES
    also: str  # words for a redirector that the value adds or removes, or ""
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
    """Effects of the values of settings."""

    references: Mapping[str, str]  # of each setting
    at_least: float
    rows: list[Row]
    notes: list[str]  # blocks and cells that are not used, and aliased effects

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the best value over all cells."""
        found = {row.verdict for row in self.rows if row.verdict and not row.axis}
        return "gain" if "gain" in found else "undecided" if "undecided" in found else "less"


class _Test(NamedTuple):
    """Numbers of the blocks for one row, and those that are tested against zero."""

    setting: str
    reference: str
    value: str
    axis: str
    at: str
    measure: str
    also: str
    effects: Floats
    tested: Floats


def block_effects(
    summary: xr.Dataset, setting: str | None = None, reference: str | None = None, at_least: float = 0.1
) -> BlockEffects:
    """Estimate the effects of settings; all of them are one family.

    Args:
        summary: Dataset whose repetitions are deployments of their own.
        setting: An axis, such as `tuning`; by default all axes of deployments whose values are words.
        reference: The value that others are compared with, as text; by default the first one of each axis.
        at_least: The wanted gain of throughput, as a share.

    Raises ConfigurationError if the dataset has no such axis or value, or no blocks.
    """
    rows, axes = _rows(summary, setting)
    compared = default_settings(summary)
    factors = [name for name in compared if name not in Parameters.model_fields and is_screening(summary)]
    if setting is None and reference is not None and len(compared) > 1:
        raise refused("--reference", repr(reference), f"it with --of, one of {', '.join(compared)}")
    references = {
        name: _reference(rows, name, reference) for name in (compared if setting is None else [setting])
    }
    tests, notes = list[_Test](), list[str]()
    for name, first in references.items():
        unpaired = {name, *(factors if name in factors else ())}
        others = [axis for axis in axes if axis not in unpaired and rows[axis].nunique() > 1]
        ours = rows.assign(
            value=rows[name].map(partial(value_text, name)),
            point=rows[others].apply(tuple, axis=1) if others else [()] * len(rows),
        )
        ours["mean_segments"] = ours.groupby(["value", "point"])["segments"].transform("mean")
        found, unused = _of_setting(ours, (name, first), others, len(factors) if name in factors else 0)
        tests += found
        notes += unused
    if not any(test.measure == THROUGHPUT for test in tests):
        raise refused("repetitions", "fewer than two blocks with both values", "2 blocks or more")
    notes = [*dict.fromkeys(notes)]  # settings of a design share their cells
    if factors:
        notes += aliased(factors)
    return BlockEffects(references, at_least, _judged(tests, at_least), notes)


def default_settings(summary: xr.Dataset) -> list[str]:
    """Return the axes whose effects are estimated unless one is asked for."""
    return compared_axes({str(name): summary[name].values.tolist() for name in summary["throughput"].dims})


def is_screening(summary: xr.Dataset) -> bool:
    return bool(summary.attrs.get("design") == SCREENING)


def aliased(factors: Sequence[str]) -> list[str]:
    """Describe the resolution of a design for screening, and which effects it cannot tell apart."""
    signs = dict(zip(factors, 2 * np.array(screening_runs(len(factors))).T - 1, strict=True))
    pairs = {
        f"{one} × {other}": signs[one] * signs[other] for one, other in itertools.combinations(factors, 2)
    }
    # A product of columns that is orthogonal to a third one has nothing of its effect.
    shared = {
        name: [pair for pair, product in pairs.items() if product @ sign] for name, sign in signs.items()
    }
    if not any(shared.values()):
        groups: dict[tuple[int, ...], list[str]] = {}
        for pair, product in pairs.items():
            groups.setdefault(tuple(product * product[0]), []).append(pair)
        same = "; ".join(" with ".join(group) for group in groups.values() if len(group) > 1)
        return [
            f"resolution IV: no effect of one setting is aliased with an interaction of two. Interactions: {same}"
        ]
    if len(factors) > 7:
        return [
            "resolution III: each effect contains a third of each interaction of two other settings, with a sign; "
            "measure the settings that matter as a grid"
        ]
    lines = [f"{name} is aliased with {', '.join(with_pairs)}" for name, with_pairs in shared.items()]
    return [f"resolution III: {'; '.join(lines)}. A grid of the settings that matter tells them apart"]


def verdict_text(row: Row, at_least: float) -> str:
    """Return the verdict of a row in words, with the number of blocks that would decide it."""
    wanted = f"{plain(100 * at_least)} %"
    if row.verdict is None:
        return "differs" if row.differs else "no difference found"
    if row.verdict == "less" and row.high < 1:
        return loss_text(row)
    if row.verdict != "undecided":
        return f"gain of at least {wanted}" if row.verdict == "gain" else f"less than {wanted}"
    further = row.further_blocks
    more = f"over {MOST_BLOCKS} more blocks" if further is None else counted(further, "more block")
    return f"a gain of {wanted} is not decided: {more} would decide"


def loss_text(row: Row) -> str:
    """Describe a ratio below 1 as a loss in percent, with its interval."""
    loss, low, high = (short(100 * (1 - each), 2) for each in (row.ratio, row.high, row.low))
    return f"a loss of {loss} % ({low} to {high})"


def _reference(rows: pd.DataFrame, setting: str, reference: str | None) -> str:
    values = [*dict.fromkeys(value_text(setting, one) for one in rows[setting])]
    if not values:
        raise refused("--of", f"no cell with a throughput, at any value of {setting}", "measured cells")
    if reference is not None and reference not in values:
        raise refused("--reference", repr(reference), suggest(reference, values))
    return values[0] if reference is None else reference


def _of_setting(
    rows: pd.DataFrame, setting: tuple[str, str], others: list[str], factors: int
) -> tuple[list[_Test], list[str]]:
    """Return the tests of a setting with its reference, and notes; `factors` is the size of a design, or 0."""
    tests, notes = list[_Test](), [*_few_segments(rows)]
    values = [value for value in dict.fromkeys(rows["value"]) if value != setting[1]]
    for value, measure in itertools.product(values, MEASURES):
        if factors:
            table = _contrasts(rows, value, measure, len(screening_runs(factors)))
        else:
            table = _log_ratios(rows, value, setting[1], measure)
        if measure == "retransmits":
            of_both = rows[rows["value"].isin([value, setting[1]])]
            table = table.loc[of_both.groupby("point")["mean_segments"].min() >= FEWEST_SEGMENTS]
        complete = _complete(table)
        if complete.empty or len(complete.columns) < FEWEST_BLOCKS:
            continue
        if measure == THROUGHPUT and complete.shape != table.shape:
            unused = f"{table.size - complete.size} of {table.size} pairs"
            notes.append(f"{setting[0]} {value}: {unused} are in blocks or cells with gaps, and not used")
        behind = [_redirected(rows, side, complete.index) for side in (value, setting[1])]
        tests += _tests(complete, (*setting, value), measure, others, np.array(behind))
    return tests, notes


def _redirected(rows: pd.DataFrame, value: str, points: pd.Index) -> list[bool]:
    """Return whether clients of a value's cells contact a redirector, for each of some points."""
    ours = rows[rows["value"] == value]
    known = dict(zip(ours["point"], ours["redirected"], strict=True))
    return [known.get(point, False) for point in points]


def _few_segments(rows: pd.DataFrame) -> Iterator[str]:
    """Count the retransmits of the cells that have too few for a ratio."""
    few = rows[rows["segments"].notna() & (rows["mean_segments"] < FEWEST_SEGMENTS)]
    if few.empty:
        return
    values = [*dict.fromkeys(few["value"])]
    of = f" of {', '.join(values)}" if len(values) < rows["value"].nunique() else ""
    segments = counted(int(few["segments"].sum()), "segment")
    yield f"retransmits: {segments} in {counted(len(few), 'cell')}{of}, too few to compare"


def _rows(summary: xr.Dataset, setting: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return measured cells with their `block` and the logarithms of measures, and the names of all axes."""
    axes = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    if setting is None and not default_settings(summary):
        raise refused("--of", "no axis of deployments whose values are words", f"one of {', '.join(axes)}")
    if setting is not None and setting not in axes:
        raise refused("--of", repr(setting), suggest(setting, axes))
    if summary.attrs.get("testbed_kind") == SIMULATED:
        raise refused("RESULTS", "a simulated dataset", "measurements: simulated cells have no scatter")
    if summary.attrs.get("repeat", "deployments") != "deployments":
        fix = "a sweep with order: blocks, because repetitions of one deployment apply its setting once"
        raise refused("repeat", "cells", fix)
    also = ("source_cpu", "destination_cpu", "retransmits", "duration")
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=also).assign(
        redirected=redirected(summary)
    )
    rows = rows[(rows["reason"] == "") & (rows["throughput"] > 0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        gbit = rows["throughput"] * rows["duration"]
        measures = {
            THROUGHPUT: rows["throughput"],
            "cpu": (rows["source_cpu"] + rows["destination_cpu"]) / rows["throughput"],
            "retransmits": (rows["retransmits"] + 0.5) / gbit,
        }
        logs = {name: np.log(values.where(values > 0)) for name, values in measures.items()}
    return rows.assign(block=rows[REPETITION], segments=rows["retransmits"], **logs), axes


def _log_ratios(rows: pd.DataFrame, value: str, reference: str, measure: str) -> pd.DataFrame:
    """Return the logarithms of ratios, points × blocks; NaN where a cell is missing."""
    ours, theirs = (
        rows[rows["value"] == one].pivot_table(measure, "point", "block", dropna=False)
        for one in (value, reference)
    )
    points, blocks = ours.index.union(theirs.index), ours.columns.union(theirs.columns)
    return ours.reindex(points, columns=blocks) - theirs.reindex(points, columns=blocks)


def _contrasts(rows: pd.DataFrame, value: str, measure: str, runs: int) -> pd.DataFrame:
    """Return mean logarithms of a design's runs with a value minus those with the other one, points × blocks.

    NaN where a run is missing, because then other settings do not cancel.
    """
    signs = np.where(rows["value"] == value, 2 / runs, -2 / runs)
    weighted = rows[["point", "block"]].assign(contrast=signs * rows[measure])
    sums = weighted.groupby(["point", "block"])["contrast"].sum(min_count=runs)
    return sums.unstack("block")


def _complete(table: pd.DataFrame) -> pd.DataFrame:
    """Remove blocks and points with the most gaps until none is left, so that all blocks have the same points."""
    while table.size and table.isna().any(axis=None):
        gaps = [table.isna().mean(axis=axis) for axis in (0, 1)]  # of blocks, of points
        axis = int(gaps[1].max() > gaps[0].max())
        worst = gaps[axis].idxmax()
        table = table.drop(index=[worst]) if axis else table.drop(columns=[worst])
    return table


def _tests(
    table: pd.DataFrame,
    about: tuple[str, str, str],
    measure: str,
    names: list[str],
    behind: NDArray[np.bool_],
) -> Iterator[_Test]:
    """Yield the overall effect of a value, and for throughput its effect at each value of each axis.

    `behind` are the `redirected` cells of the value and of the reference at each point.
    """
    overall = table.to_numpy().mean(axis=0)
    yield _Test(*about, "", "", measure, redirector_words(about[0], *behind), overall, overall)
    if measure != THROUGHPUT:
        return
    for place, name in enumerate(names):
        coordinates = [point[place] for point in table.index]
        several = dict.fromkeys(coordinates)
        for at in several if len(several) > 1 else ():
            here = np.array([one == at for one in coordinates])
            inside, outside = (table.to_numpy()[which].mean(axis=0) for which in (here, ~here))
            also = redirector_words(about[0], *behind[:, here])
            yield _Test(*about, name, value_text(name, at), measure, also, inside, inside - outside)


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
        (test.setting, test.value, test.axis)
        for test, p in zip(tests, corrected, strict=True)
        if p < 1 - CONFIDENCE and test.axis
    }
    rows = []
    for place, (test, p) in enumerate(zip(tests, corrected, strict=True)):
        if test.axis and (test.setting, test.value, test.axis) not in differing:
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
        about = (test.setting, test.reference, test.value, test.axis, test.at, test.measure, test.also)
        rows.append(Row(*about, ratio, low, high, blocks, float(p), differs, verdict, further))
    return rows


def _corrected(p: list[float], main: list[bool]) -> Floats:
    """Return p-values after Holm's correction; the main ones share half of the level."""
    mains, others = sum(main), len(main) - sum(main)
    shares = [(0.5 if others else 1.0) / mains if is_main else 0.5 / others for is_main in main]
    return holm(np.array(p), np.array(shares))


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


def row_label(found: BlockEffects, row: Row) -> str:
    """Return the value of a row with its setting, if there are several, and the part of the grid."""
    setting = f"{name_text(row.setting)} " if len(found.references) > 1 else ""
    return setting + row.value + (f", {name_text(row.axis)} {row.at}" if row.axis else "") + row.also


def reference_text(found: BlockEffects) -> str:
    """Return the value that others are compared with."""
    several = {f"{name_text(name)} {value}" for name, value in found.references.items()}
    return several.pop() if len(several) == 1 else "the first value of each setting"


def to_dict(found: BlockEffects) -> Mapping[str, Any]:
    """Return everything for JSON."""
    return {
        "of": found.references,
        "at_least": found.at_least,
        "confidence": CONFIDENCE,
        "verdict": found.verdict,
        "effects": [vars(row) for row in found.rows],
        "notes": found.notes,
    }
