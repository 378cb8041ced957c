# SPDX-License-Identifier: Apache-2.0
"""History of a repeated sweep: dated runs, change points, and settings that changed with them.

The runs between two change points are the repetitions of one side of a comparison, which gives a change its size.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    mean_log_ratio,
)
from tpcsweep.analysis.sides import axis_text
from tpcsweep.common import extras
from tpcsweep.common.numbers import between, short
from tpcsweep.data.labels import STATUS
from tpcsweep.data.run_effects import FASTER, SLOWER, Floats, Overall
from tpcsweep.sweeps.sweep import REPETITION

FEWEST_RUNS_BETWEEN = 2
"""Fewest runs between two changes, before the first and after the last: one outlying run is no change."""
SIGNIFICANT = 0.01
"""Largest share of histories without a change in which one is found, if runs scatter normally."""
_SHARE = 0.5  # of the runs must contain a cell, or its changes are not searched
_MAD = 1.4826  # standard deviation of a normal distribution whose median absolute deviation is 1
FEWEST_RUNS = 2 * FEWEST_RUNS_BETWEEN  # fewest runs in which changes are searched
_MOST_LOST = 5  # most cells without a throughput that a summary names
_VERDICTS = {"change": {SLOWER, FASTER}, "slower": {SLOWER}}  # verdicts that each value of `fail_on` covers


class Difference(NamedTuple):
    """Parameter, program or setting that changed between two runs; unknown values are empty."""

    name: str
    before: str
    after: str


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
        found = {self.overall.verdict, *self.comparison.cells["verdict"]}
        # A change found by all cells at once may be significant in none of them; its sign then decides.
        return found & {SLOWER, FASTER} or {SLOWER if self.overall.ratio < 1 else FASTER}


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
        told = "; ".join(f"{file}: {why}" for file, why in left_out.items())
        raise HistoryError(f"there is no run that a history can use{': ' if told else ''}{told}")
    cells = join_runs(runs)
    logs, mean = log_throughput(cells), mean_cell(cells)
    found, before = changes(logs), changes(logs[:-1])
    sides = [{REPETITION: slice(*side)} for side in itertools.pairwise([0, *found, len(runs)])]
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
        for (place, p), (first, then) in zip(found.items(), itertools.pairwise(sides), strict=True)
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
    where = "".join(f"; {each}" for each in _where(change.comparison))
    what = "; ".join(
        f"{name} {old or 'unknown'} → {new or 'unknown'}" for name, old, new in change.differences
    )
    return f"{when} {size}{counted}{where}. Recorded changes: {what or 'none'}."


def _where(comparison: Comparison) -> Iterator[str]:
    """Yield each axis whose values differ in verdict, with its values by verdict."""
    for axis, values in comparison.parts.groupby("axis", sort=False):
        told: dict[str, list[str]] = {}
        for verdict, value, ratio in values[["verdict", "value", "ratio"]].itertuples(index=False):
            told.setdefault(verdict, []).append(f"{axis_text(axis, value)} ({short(ratio)})")
        if len(told) > 1:
            yield f"by {axis}: " + ", ".join(f"{word} at {', '.join(texts)}" for word, texts in told.items())


def day(run: Run) -> str:
    return f"{run.ended:%Y-%m-%d %H:%M}"  # a day may have several runs


def changed_settings(before: Run, after: Run) -> list[Difference]:
    ours, theirs = (
        {name: axis_text(name, value) for name, value in run.parameters.items()} | dict(run.made_with)
        for run in (before, after)
    )
    found = (Difference(name, ours.get(name, ""), theirs.get(name, "")) for name in (ours | theirs))
    return [each for each in found if each.before != each.after]


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

    Candidates are the best cuts by least squares (PELT, by ruptures) of the mean of all cells, and of all cells at
    once, with a penalty that noise alone exceeds about once. Student's t then tests each between the runs on its two
    sides, up to the next candidate: the mean of all cells, and every cell. While a candidate is not significant, the
    least certain one is dropped and its two sides are merged.

    Returns:
        Index of the first run after each change, in order, with its p-value, corrected (Bonferroni) for the number of
            places where a change could have been, for the two tests (mean, cells), and for the number of cells.
    """
    count = len(logs)
    frame = pd.DataFrame(logs)
    used = frame.loc[:, frame.notna().mean() >= _SHARE]
    if count < 2 * FEWEST_RUNS_BETWEEN or used.empty:
        return {}
    mean = pd.DataFrame(mean_log_ratio(used.to_numpy()))
    places = sorted({*_cut(mean), *_cut(used)})
    while places:
        edges = [0, *places, count]
        tests = {place: _test(used, mean, *edges[at : at + 3]) for at, place in enumerate(places)}
        worst = max(places, key=lambda place: tests[place])
        if tests[worst][1] < SIGNIFICANT and not tests[worst][0]:
            return {place: p for place, (_, p) in tests.items()}
        places.remove(worst)
    return {}


def _cut(signal: pd.DataFrame) -> list[int]:
    """Return the best cuts of series, all at once; each series is scaled by its scatter from run to run."""
    extras.require_extra("history")
    import ruptures  # type: ignore[import-untyped]

    scatter = _MAD * signal.diff().abs().median() / np.sqrt(2)
    scaled = ((signal - signal.median()) / scatter.where(scatter > 0, np.inf)).fillna(0.0).to_numpy()
    penalty = float(stats.chi2.isf(1 / len(signal), signal.shape[1]))
    found = ruptures.KernelCPD(kernel="linear", min_size=FEWEST_RUNS_BETWEEN).fit(scaled).predict(pen=penalty)
    return [int(place) for place in found[:-1]]


def _test(used: pd.DataFrame, mean: pd.DataFrame, first: int, place: int, end: int) -> tuple[bool, float]:
    """Return whether a side of a place has fewer than FEWEST_RUNS_BETWEEN runs, and the p-value of their difference."""
    few = min(place - first, end - place) < FEWEST_RUNS_BETWEEN
    smallest = _p(mean[first:place], mean[place:end])
    cells = used.shape[1]
    if cells > 1:
        smallest = 2 * min(smallest, _p(used[first:place], used[place:end]) * cells)
    return few, min(1.0, (len(used) - 2 * FEWEST_RUNS_BETWEEN + 1) * smallest)


def _p(before: pd.DataFrame, after: pd.DataFrame) -> float:
    """Return the columns' smallest p-value by Student's t with equal variances; 1 without a test.

    One variance also suits sides of two runs, for which Welch's test finds too many differences.
    """
    figures = [
        side.agg(name).to_numpy(float) for side in (before, after) for name in ("mean", "std", "count")
    ]
    with np.errstate(all="ignore"):
        found = stats.ttest_ind_from_stats(*figures)
    p = np.asarray(found.pvalue, float)
    return float(np.min(np.where(np.isfinite(p), p, 1.0)))
