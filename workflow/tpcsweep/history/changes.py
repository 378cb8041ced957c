# SPDX-License-Identifier: Apache-2.0
"""A history: its runs, its change points, how large each is, and what else changed at that moment. Pure.

Sizes are those of `comparing`: the runs between two changes are the repetitions of one side.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import xarray as xr

from tpcsweep.comparing.comparison import Comparison, compare
from tpcsweep.comparing.effects import FASTER, SLOWER, Overall
from tpcsweep.configuration.sides import shown
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import STATUS
from tpcsweep.history import detection
from tpcsweep.history.runs import HistoryError, Run
from tpcsweep.history.series import joined, logs_of, mean_cell

ENOUGH = 2 * detection.LEAST
"""Runs from which on changes are looked for."""


class Difference(NamedTuple):
    """What one run was made with, and the next one otherwise; empty where it is not known."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """A change point: the runs before it, back to the one before, and those after it, up to the next one."""

    place: int
    """Of the first run after it."""
    p: float
    """Of so much where nothing has changed, see `detection.changes`."""
    overall: Overall
    """The mean of all cells, after over before: a value for each run, compared as a cell with repetitions is."""
    comparison: Comparison
    """Every cell, and the cells of every value."""
    new: bool
    """Whether it is told only since the last run."""
    differences: Sequence[Difference]
    """Between the run before and the run after."""

    @property
    def directions(self) -> set[str]:
        """Slower, faster, or both: of the mean of all cells, and of single ones."""
        found = {self.overall.verdict, *self.comparison.cells["verdict"]}
        # What was found by all cells at once may be certain of none of them: then it is told by its sign.
        return found & {SLOWER, FASTER} or {SLOWER if self.overall.ratio < 1 else FASTER}


@dataclass(frozen=True)
class History:
    """The runs of a sweep, oldest first, and what changed in them."""

    runs: Sequence[Run]
    left_out: Mapping[str, str]
    """Files that are none of its runs, with the reason."""
    cells: xr.Dataset
    """See `series.joined`."""
    changes: Sequence[Change]
    broken: Sequence[tuple[str, str]]
    """Cells that failed in the last run and not in the one before, with what the tool said."""

    @property
    def axes(self) -> list[str]:
        """Those of the cells, in their order."""
        return [str(name) for name in self.cells["throughput"].dims if name != REPETITION]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the series, which the runs' files have, for JSON."""
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
            "left_out": self.left_out,
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
            "failed_since": [{"cell": cell, "message": message} for cell, message in self.broken],
        }


def history(runs: Sequence[Run], left_out: Mapping[str, str]) -> History:
    """Find what changed in runs, oldest first.

    Raises:
        HistoryError: where there is no run.
    """
    if not runs:
        told = "; ".join(f"{file}: {why}" for file, why in left_out.items())
        raise HistoryError(f"there is no run to make a history of{': ' if told else ''}{told}")
    cells = joined(runs)
    logs = logs_of(cells)
    found = detection.changes(logs)
    before = detection.changes(logs[:-1]) if len(runs) > ENOUGH else {}
    places = [0, *found, len(runs)]
    return History(
        runs,
        left_out,
        cells,
        [_change(cells, runs, places[at : at + 3], p, before) for at, p in enumerate(found.values())],
        _broken(cells),
    )


def failures(told: History, fail_on: str | None) -> list[str]:
    """Say why a history is to fail: what is new in it since its last run. `fail_on`: change, slower, or nothing."""
    if fail_on is None:
        return []
    new = [change for change in told.changes if change.new and change.directions & wanted(fail_on)]
    reasons = [sentence(told, change) for change in new]
    return [*reasons, *(f"{cell} failed: {message}" for cell, message in told.broken)]


def summary(told: History) -> list[str]:
    """Say what was found, a line each."""
    count = len(told.runs)
    runs = f"{count} run{'s' * (count > 1)}, the last of {day(told.runs[-1])}"
    if count < ENOUGH:
        return [f"{runs}; changes are looked for from {ENOUGH} runs on"]
    return [runs, *([sentence(told, change) for change in told.changes] or ["no change was found"])]


def wanted(fail_on: str) -> set[str]:
    """The verdicts that a value of `fail_on` means: change, or slower."""
    return {SLOWER, FASTER} if fail_on == "change" else {SLOWER}


def sentence(told: History, change: Change) -> str:
    """Say when something changed, how much, in which cells, and what else did."""
    runs, mean = told.runs, change.overall
    when = f"Between {day(runs[change.place - 1])} and {day(runs[change.place])}"
    size = (
        f"all cells together are at {mean.ratio:.3g} times ({mean.low:.3g} to {mean.high:.3g}) what they were"
    )
    verdicts = change.comparison.verdicts
    cells = ", ".join(f"{verdicts[word]} {word}" for word in (SLOWER, FASTER) if verdicts[word])
    counted = f"; of {len(change.comparison.cells)} cells {cells or 'none is slower or faster by itself'}"
    where = "".join(f"; {each}" for each in _where(change.comparison))
    what = "; ".join(
        f"{each.name} {each.before or 'unknown'} → {each.after or 'unknown'}" for each in change.differences
    )
    return f"{when} {size}{counted}{where}. Changed with it: {what or 'nothing that is recorded'}."


def _where(comparison: Comparison) -> Iterator[str]:
    """Of each axis that matters to a change the values with cells that are slower or faster, and those without."""
    for axis, values in comparison.parts.groupby("axis", sort=False):
        told = {
            verdict: ", ".join(
                f"{shown(axis, row['value'])} ({row['ratio']:.3g})" for _, row in those.iterrows()
            )
            for verdict, those in values.groupby("verdict", sort=False)
        }
        if len(told) > 1:
            yield f"by {axis}: " + ", ".join(f"{verdict} at {where}" for verdict, where in told.items())


def day(run: Run) -> str:
    """A run's date for people; with the time, as there may be several a day."""
    return f"{run.ended:%Y-%m-%d %H:%M}"


def differences(before: Run, after: Run) -> list[Difference]:
    """Say what two runs were not made alike with: parameters, then software and settings."""
    found = []
    for ours, theirs in (
        (_shown(before), _shown(after)),
        (before.made_with, after.made_with),
    ):
        for name in dict.fromkeys((*ours, *theirs)):
            pair = ours.get(name, ""), theirs.get(name, "")
            if pair[0] != pair[1]:
                found.append(Difference(name, *pair))
    return found


def _shown(run: Run) -> dict[str, str]:
    return {name: shown(name, value) for name, value in run.parameters.items()}


def _change(
    cells: xr.Dataset, runs: Sequence[Run], places: Sequence[int], p: float, before: Mapping[int, float]
) -> Change:
    first, place, end = places
    before_it, after_it = ({REPETITION: slice(*side)} for side in ((first, place), (place, end)))
    mean = mean_cell(cells)
    return Change(
        place,
        p,
        compare(mean.isel(before_it), mean.isel(after_it)).overall,
        compare(cells.isel(before_it), cells.isel(after_it), ("before", "after")),
        # With another run the best place of a small change may be the one beside.
        not any(abs(place - earlier) < detection.LEAST for earlier in before),
        differences(runs[place - 1], runs[place]),
    )


def cell_names(told: History) -> list[str]:
    """Name each cell by its values, in the order of the flattened grid."""
    return _names(told.cells)


def _names(cells: xr.Dataset) -> list[str]:
    axes = [str(name) for name in cells["throughput"].dims if name != REPETITION]
    every = itertools.product(*(cells[name].values.tolist() for name in axes))
    named = (", ".join(map(" ".join, zip(axes, map(shown, axes, each), strict=True))) for each in every)
    return [name or "the cell" for name in named]


def _broken(cells: xr.Dataset) -> list[tuple[str, str]]:
    if cells.sizes[REPETITION] < 2:
        return []
    last, before = (cells.isel({REPETITION: at}) for at in (-1, -2))
    new = (last["status"] == STATUS.index("failed")) & (before["status"] == STATUS.index("ok"))
    rows = zip(_names(cells), new.values.reshape(-1), last["message"].values.reshape(-1), strict=True)
    return [(name, str(message)) for name, failed, message in rows if failed]
