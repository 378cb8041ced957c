# SPDX-License-Identifier: Apache-2.0
"""History of a repeated sweep: dated runs, change points, and settings that changed with them.

The runs between two change points are the repetitions of one side of a comparison, which gives a change its size.
"""

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy import stats

from tpcsweep.analysis.comparison import Comparison, compare
from tpcsweep.analysis.history.runs import (
    HistoryError,
    Run,
    join_runs,
    log_throughput,
    mean_cell,
)
from tpcsweep.analysis.sides import axis_text
from tpcsweep.common import extras
from tpcsweep.common.numbers import MAD_FACTOR, between, short
from tpcsweep.data.differences import moderated_together
from tpcsweep.data.labels import STATUS
from tpcsweep.data.made_with import Difference, differences
from tpcsweep.data.run_effects import FASTER, SLOWER, Overall
from tpcsweep.data.scatter import Floats, Spread
from tpcsweep.sweeps.parameters import LINK, link_text
from tpcsweep.sweeps.sweep import REPETITION

FEWEST_RUNS_BETWEEN = 2
"""Fewest runs between two changes, before the first and after the last: one outlying run is no change."""
FEWEST_RUNS_OF_A_CELL = 4
"""Fewest runs on both sides of a change of single cells: of many cells, one is slow in two or three runs by chance."""
SIGNIFICANT = 0.005
"""Largest share of histories without a change in which one is found in a look, if runs scatter normally."""
_SHARE = 0.5  # of the runs must contain a cell, or its changes are not searched
_FAR = 2.0  # standard deviations from the median of neighbouring runs beyond which values are outliers
_WINDOW, _CELL_WINDOW = 7, 11  # runs of that median: more than half of them are a change
_POLISHES = 5  # rounds of removed medians; three are enough for a quarter of holes
_CORRELATION, _RUNS = 0.5, 40  # correlation of neighbouring runs that is assumed, and its weight in runs
FEWEST_RUNS = 2 * FEWEST_RUNS_BETWEEN  # fewest runs in which changes are searched
_MOST_LOST = 5  # most cells without a throughput that a summary names
_MOST_LINKS = 8  # most links of a mesh that a summary names
_VERDICTS = {"change": {SLOWER, FASTER}, "slower": {SLOWER}}  # verdicts that each value of `fail_on` covers


@dataclass(frozen=True)
class Change:
    """Change point between the runs since the previous change point and the runs until the next one."""

    place: int  # index of the first run after the change
    p: float  # probability of such a difference without a change, see `changes`
    overall: Overall  # mean ratio of all cells, after over before; each run counts as one repetition
    comparison: Comparison  # comparison of each cell, and of the cells of each value of an axis
    new: bool  # whether only the last run made the change significant
    differences: Sequence[Difference]  # differences between the runs before and after the change

    @property
    def directions(self) -> set[str]:
        """Direction of the overall mean and of single cells: "slower", "faster" or both."""
        verdicts = {self.overall.verdict, *self.comparison.cells["verdict"]}
        # A change found by all cells at once may be significant in none of them; its sign then decides.
        return verdicts & {SLOWER, FASTER} or {SLOWER if self.overall.ratio < 1 else FASTER}


@dataclass(frozen=True)
class SweepHistory:
    runs: Sequence[Run]
    skipped_files: Mapping[str, str]  # files that are not runs of this history, with the reason
    cells: xr.Dataset  # result of `runs.join_runs`
    changes: Sequence[Change]
    broken: Sequence[tuple[str, str, str]]
    """Cells that failed or were not measured in the last run, but measured in the one before: name, verb, message."""

    @property
    def axes(self) -> list[str]:
        return [str(name) for name in self.cells["throughput"].dims if name != REPETITION]

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON except the series, which are in the runs' files."""
        return {
            "runs": [
                {
                    "file": run.file,
                    "ended": run.ended,
                    "cells": {status: run.count(status) for status in STATUS},
                    "flagged": run.flagged,
                    "parameters": run.parameters,
                    "made_with": run.made_with,
                }
                for run in self.runs
            ],
            "left_out": self.skipped_files,
            "changes": [
                {
                    "after": self.runs[change.place - 1].file,
                    "from": self.runs[change.place].file,
                    "said": sentence(self, change),
                    "new": change.new,
                    "p": change.p,
                    "overall": change.overall,
                    "changed_with_it": [each._asdict() for each in change.differences],
                    "comparison": change.comparison.to_dict(),
                }
                for change in self.changes
            ],
            "failed_since": [
                {"cell": cell, "said": verb, "message": message} for cell, verb, message in self.broken
            ],
        }


def find_history(runs: Sequence[Run], left_out: Mapping[str, str]) -> SweepHistory:
    """Find the changes in runs, which are given oldest first. Raises HistoryError without any run."""
    if not runs:
        reasons = "; ".join(f"{file}: {why}" for file, why in left_out.items())
        raise HistoryError(f"there is no run that a history can use{': ' if reasons else ''}{reasons}")
    cells = join_runs(runs)
    logs, mean = log_throughput(cells), mean_cell(cells)
    places, before = changes(logs), changes(logs[:-1])
    sides = [{REPETITION: slice(*side)} for side in itertools.pairwise([0, *places, len(runs)])]
    located = [
        Change(
            place,
            p,
            compare(mean.isel(first), mean.isel(then)).overall,
            compare(cells.isel(first), cells.isel(then), ("before", "after")),
            # One more run may move the best place of a small change to a neighbour.
            not any(abs(place - earlier) < FEWEST_RUNS_BETWEEN for earlier in before),
            changed_settings(runs[place - 1], runs[place]),
        )
        for (place, p), (first, then) in zip(places.items(), itertools.pairwise(sides), strict=True)
    ]
    return SweepHistory(runs, left_out, cells, located, _broken(cells))


def failures(history: SweepHistory, fail_on: str | None) -> list[str]:
    """Return new failed cells, and new changes of the kind `fail_on`: "change", "slower", None never fails."""
    if fail_on is None:
        return []
    reasons = [sentence(history, change) for change in _new(history, fail_on)]
    return [*reasons, *(f"{cell} {verb}: {message}" for cell, verb, message in history.broken)]


def summary(history: SweepHistory) -> list[str]:
    count = len(history.runs)
    runs = f"{count} run{'s' * (count > 1)}, the last of {day(history.runs[-1])}"
    lost = _lost(history.cells)
    if count < FEWEST_RUNS:
        return [f"{runs}; finding changes needs {FEWEST_RUNS} runs", *lost]
    return [
        runs,
        *lost,
        *([sentence(history, change) for change in history.changes] or ["no change was found"]),
    ]


def _new(history: SweepHistory, fail_on: str) -> list[Change]:
    return [change for change in history.changes if change.new and change.directions & _VERDICTS[fail_on]]


def sentence(history: SweepHistory, change: Change) -> str:
    runs, mean = history.runs, change.overall
    when = f"Between {day(runs[change.place - 1])} and {day(runs[change.place])}"
    interval = f"({between(mean.low, mean.high)})"
    size = f"throughput of all cells is {short(mean.ratio)} {interval} times the earlier one"
    verdicts = change.comparison.verdicts
    cells = ", ".join(f"{verdicts[word]} {word}" for word in (SLOWER, FASTER) if verdicts[word])
    counted = f"; of {len(change.comparison.cells)} cells {cells or 'none is slower or faster by itself'}"
    counted += _links(change.comparison)
    where = "".join(f"; {each}" for each in _where(change.comparison))
    what = "; ".join(
        f"{name} {old or 'unknown'} → {new or 'unknown'}" for name, old, new in change.differences
    )
    return f"{when} {size}{counted}{where}. Recorded changes: {what or 'none'}."


def _links(comparison: Comparison) -> str:
    """Name the links of a mesh with slower or faster cells, if they are few."""
    cells = comparison.cells
    if not set(LINK) <= set(cells):
        return ""
    links = cells.loc[cells["verdict"].isin([SLOWER, FASTER]), [*LINK]].drop_duplicates()
    names = [link_text(source, destination) for source, destination in links.itertuples(index=False)]
    return f" ({', '.join(names)})" if 0 < len(names) <= _MOST_LINKS else ""


def _where(comparison: Comparison) -> Iterator[str]:
    """Yield each axis whose values differ in verdict, with its values by verdict."""
    for axis, values in comparison.parts.groupby("axis", sort=False):
        by_verdict: dict[str, list[str]] = {}
        for verdict, value, ratio in values[["verdict", "value", "ratio"]].itertuples(index=False):
            by_verdict.setdefault(verdict, []).append(f"{axis_text(axis, value)} ({short(ratio)})")
        if len(by_verdict) > 1:
            parts = (f"{verdict} at {', '.join(texts)}" for verdict, texts in by_verdict.items())
            yield f"by {axis}: {', '.join(parts)}"


def day(run: Run) -> str:
    return f"{run.ended:%Y-%m-%d %H:%M}"  # a day may have several runs


def changed_settings(before: Run, after: Run) -> list[Difference]:
    ours, theirs = (
        {name: axis_text(name, value) for name, value in run.parameters.items()} | dict(run.made_with)
        for run in (before, after)
    )
    return differences(ours, theirs)


def _names(cells: xr.Dataset) -> list[str]:
    axes = [str(name) for name in cells["throughput"].dims if name != REPETITION]
    every = itertools.product(*(cells[name].values.tolist() for name in axes))
    named = (", ".join(map(" ".join, zip(axes, map(axis_text, axes, each), strict=True))) for each in every)
    return [name or "the cell" for name in named]


def _broken(cells: xr.Dataset) -> list[tuple[str, str, str]]:
    if cells.sizes[REPETITION] < 2:
        return []
    measured = cells["status"].isel({REPETITION: -2}).values.reshape(-1) == STATUS.index("ok")
    return [row[1:] for row in _without_throughput(cells) if measured[row[0]]]


def _without_throughput(cells: xr.Dataset) -> Iterator[tuple[int, str, str, str]]:
    """Yield index, name, verb and message of the cells that the last run tried without success.

    A cell that another sweep of the same name lacked has no message.
    """
    last = cells.isel({REPETITION: -1})
    rows = zip(last["status"].values.reshape(-1), last["message"].values.reshape(-1), strict=True)
    verbs = {STATUS.index("failed"): "failed", STATUS.index("not_measured"): "was not measured"}
    for index, (name, (status, message)) in enumerate(zip(_names(cells), rows, strict=True)):
        if status in verbs and (message or verbs[status] == "failed"):
            yield index, name, verbs[status], str(message)


def _lost(cells: xr.Dataset) -> list[str]:
    """Return a line about the cells of the last run without a throughput, if there are any."""
    found = [f"{name} {verb}" for _, name, verb, _ in _without_throughput(cells)]
    more = f" and {len(found) - _MOST_LOST} more" if len(found) > _MOST_LOST else ""
    return [f"in the last run {', '.join(found[:_MOST_LOST])}{more}"] if found else []


# --- detection; docs/comparing.md describes it and its rate of false alarms


def changes(logs: Floats) -> dict[int, float]:
    """Find the change points in logarithms of throughput, runs × cells; NaN marks unmeasured cells.

    The series are the level that all cells of a run share, and each cell relative to it. Values far from the median of
    their neighbours are moved to `_FAR` standard deviations of it (F. R. Hampel, JASA 69, 1974), so that single slow
    runs and cells are no change. Candidates are the best cuts by least squares (PELT, by ruptures) of both kinds of
    series, with a penalty that noise alone exceeds about once. Student's t then tests each between the runs on its two
    sides, up to the next candidate: the shared level, and every cell with FEWEST_RUNS_OF_A_CELL on both sides. Its
    errors contain the correlation of neighbouring runs. While a candidate is not significant, the least certain one is
    dropped and its two sides are merged.

    Returns:
        Index of the first run after each change, in order, with its p-value, corrected (Bonferroni) for the number of
            places where a change could have been, for the two tests (level, cells), and for the number of cells.
    """
    if (count := len(logs)) < FEWEST_RUNS:
        return {}
    used = logs[:, np.isfinite(logs).mean(axis=0) >= _SHARE]
    if not used.size:
        return {}
    series = _level_and_rest(used)
    correlations = [_correlation(one) for one in series]
    places = sorted({place for one in series for place in _cut(one)})
    tried = (count - FEWEST_RUNS + 1) * len(series)
    while places:
        tests = {place: _test(series, correlations, places, place) for place in places}
        worst = max(places, key=lambda place: tests[place][1])
        if tests[worst][1] * tried < SIGNIFICANT:
            near = [
                one
                for one in places
                for other in places
                if tests[other][0] and abs(one - other) < FEWEST_RUNS_OF_A_CELL
            ]
            if not near:
                return {place: min(1.0, p * tried) for place, (_, p) in tests.items()}
            worst = max(near, key=lambda place: tests[place][1])
        places.remove(worst)
    return {}


def _level_and_rest(logs: Floats) -> list[Floats]:
    """Return the level that all cells of a run share as runs × 1, and the cells relative to it, if several.

    Medians of runs and cells are removed in turn (J. W. Tukey, Exploratory Data Analysis, 1977): a few slow cells do
    not affect the level, nor does it matter on which side of a change a cell with unmeasured runs has its median.
    """
    left = pd.DataFrame(logs) - pd.DataFrame(logs).median()
    common = np.zeros((len(left), 1))
    for _ in range(_POLISHES):
        level = left.median(axis=1).to_numpy()[:, None]
        common, left = common + level, left - level
        left -= left.median()
    if left.shape[1] == 1:
        return [_tamed(common, _scatter(common), _WINDOW)]
    rest = left.to_numpy()
    rest = _tamed(rest, scatter := _scatter(rest), _CELL_WINDOW)
    level = common + pd.DataFrame(rest).mean(axis=1).to_numpy()[:, None]
    # The level scatters at least as the mean of independent cells.
    least = np.sqrt(np.mean(scatter**2) / len(scatter))
    return [_tamed(level, np.maximum(_scatter(level), least), _WINDOW), rest]


def _scatter(series: Floats) -> Floats:
    """Return the standard deviation of each series from run to run, which few changes and outliers do not affect.

    That of all series counts as much as `_RUNS` runs.
    """
    steps = pd.DataFrame(series).diff().abs().median().fillna(0.0).to_numpy(float)
    squares = (MAD_FACTOR * steps) ** 2 / 2
    count = len(series)
    return np.asarray(np.sqrt((count * squares + _RUNS * np.median(squares)) / (count + _RUNS)))


def _tamed(series: Floats, scatter: Floats, window: int) -> Floats:
    """Return series whose values lie at most `_FAR` standard deviations from the median of the next `window` runs.

    A single series of fewer runs is returned as it is, because its scatter is uncertain.
    """
    known = np.isfinite(series)
    if not known.all():
        tamed = np.array(series)
        for column, some in enumerate(known.T):
            if some.any():
                tamed[some, column] = _tamed(series[some, column][:, None], scatter[[column]], window)[:, 0]
        return tamed
    width = min(window, len(series))
    if width < window and series.shape[1] == 1:
        return series
    starts = np.clip(np.arange(len(series)) - width // 2, 0, len(series) - width)
    middle = np.median(np.lib.stride_tricks.sliding_window_view(series, width, axis=0), axis=-1)[starts]
    return np.asarray(np.clip(series, middle - _FAR * scatter, middle + _FAR * scatter))


def _correlation(series: Floats) -> float:
    """Return the correlation of neighbouring runs (AR(1)), drawn towards `_CORRELATION` if runs are few.

    It follows from differences over one to three runs, which a change of level hardly affects.
    """
    most = 2 * _FAR * np.sqrt(2) * _scatter(series)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a series may have no neighbouring runs
        one, two, three = (
            float(np.nanmean(np.clip(series[lag:] - series[:-lag], -most, most) ** 2)) for lag in (1, 2, 3)
        )
    # Their ratios are 1 + r and 1 + r + r².
    found = (two / one - 1 + (math.sqrt(max(4 * three / one - 3, 1)) - 1) / 2) / 2 if one > 0 else 0.0
    count = np.isfinite(series).sum()
    return float(np.clip((count * found + _RUNS * _CORRELATION) / (count + _RUNS), 0, 0.9))


def _cut(series: Floats) -> list[int]:
    """Return the best cuts of series, all at once; each series is scaled by its scatter from run to run."""
    extras.require_extra("history")
    import ruptures  # type: ignore[import-untyped]

    scatter = _scatter(series)
    scaled = np.nan_to_num((series - np.nanmedian(series, axis=0)) / np.where(scatter > 0, scatter, np.inf))
    penalty = float(stats.chi2.isf(1 / len(series), series.shape[1]))
    found = ruptures.KernelCPD(kernel="linear", min_size=FEWEST_RUNS_BETWEEN).fit(scaled).predict(pen=penalty)
    return [int(place) for place in found[:-1]]


def _test(
    series: Sequence[Floats], correlations: Sequence[float], places: Sequence[int], place: int
) -> tuple[bool, float]:
    """Return whether another place is nearer than the fewest runs of a side, and the p-value of the sides' difference.

    The sides of a place end at its next neighbours that are not nearer.
    """
    found = False, 1.0
    for each, correlation, fewest in zip(
        series, correlations, (FEWEST_RUNS_BETWEEN, FEWEST_RUNS_OF_A_CELL), strict=False
    ):
        first = max((one for one in places if one <= place - fewest), default=0)
        end = min((one for one in places if one >= place + fewest), default=len(each))
        if min(place - first, end - place) < fewest:
            continue
        p = each.shape[1] * _p(each[first:place], each[place:end], correlation)
        few = any(0 < abs(one - place) < fewest for one in places)
        found = min(found, (few, p), key=lambda pair: pair[1])
    return found


def _p(before: Floats, after: Floats, correlation: float) -> float:
    """Return the columns' smallest p-value by Student's t with equal, moderated variances; 1 without a test.

    One variance also suits sides of two runs, for which Welch's test finds too many differences. Means of correlated
    runs scatter more, and their variance is underestimated (G. V. Bayley, J. M. Hammersley, Supplement to the JRSS 8,
    1946).
    """
    counts = np.array([np.isfinite(side).sum(axis=0) for side in (before, after)])
    tested = (counts > 0).all(axis=0) & (counts.sum(axis=0) > 2)
    if not tested.any():
        return 1.0
    counts, sides = counts[:, tested], [side[:, tested] for side in (before, after)]
    means = np.array([np.nanmean(side, axis=0) for side in sides])
    squares = sum(np.nansum((side - mean) ** 2, axis=0) for side, mean in zip(sides, means, strict=True))
    wider = _inflation(counts, correlation)
    left = (counts - wider).sum(axis=0)
    found = Spread(squares / left, counts.sum(axis=0) - 2.0)
    if len(left) > 1 and np.any(squares > 0):
        found = moderated_together(found, np.ones_like(left))
    with np.errstate(all="ignore"):
        error = np.sqrt(found.variance * (wider / counts).sum(axis=0))
        p = 2 * stats.t.sf(np.abs(means[1] - means[0]) / error, found.freedom)
    return float(np.min(np.where(np.isfinite(p), p, 1.0)))


def _inflation(counts: Floats, correlation: float) -> Floats:
    """Return the variance of the mean of AR(1) series of some lengths over that of independent ones."""
    counts = np.maximum(counts, 1)
    series = counts * (1 - correlation) - (1 - correlation**counts)
    return np.asarray(1 + 2 * correlation * series / (counts * (1 - correlation) ** 2))
