# SPDX-License-Identifier: Apache-2.0
"""A sweep measured in rounds: the coarse subset, then what `adaptive` chooses, until the surface is known well enough.

What has been measured is always read from the cells' files. So a run that was interrupted goes on where it was, and
cells that are there already are used and not measured again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy import stats

from tpcsweep import dataset, figures
from tpcsweep.adaptive.choice import (
    EXHAUSTED,
    Belief,
    Costs,
    Space,
    batch,
    believe,
    choose,
    error,
    finished,
    first,
)
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import REPETITION, Cell
from tpcsweep.files import write_json
from tpcsweep.models.baseline import fit_process
from tpcsweep.models.observations import NothingMeasuredError, observe
from tpcsweep.running import results

if TYPE_CHECKING:
    from numpy.typing import NDArray

Measure = Callable[[Sequence[Cell]], object]
"""Measures some cells. Those that it cannot measure stay stale."""

UNREACHABLE = "the deployments of all cells that are left failed"


class RoundError(RuntimeError):
    """A round that brought nothing to go on with."""


@dataclass
class Rounds:
    """The state of a sweep that is measured in rounds."""

    configuration: Configuration
    measure: Measure
    say: Callable[[str], None]
    error: float
    """The estimated error at which it ends, as a share of the surface's range."""
    log: list[dict[str, Any]] = field(default_factory=list)
    """A round an entry, those of earlier runs too."""
    reason: str = ""
    """Why it ended."""
    failed: list[str] = field(default_factory=list)
    """Deployments that could not be measured."""

    @property
    def folder(self) -> Path:
        """Where the dataset with what is predicted goes, and the log of rounds."""
        return self.configuration.folder / "adaptive"

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """The repetitions of each point, in the order of the grid."""
        points: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in self.configuration.grid.cells:
            points.setdefault(tuple(cell.axes[name] for name in self.axes), []).append(cell)
        return list(points.values())

    @cached_property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values of each axis but the repetition."""
        return {name: values for name, values in self.configuration.grid.axes.items() if name != REPETITION}

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], ...]:
        """For each axis but the repetition the place of each point's value."""
        return tuple(
            np.array([values.index(point[0].axes[name]) for point in self.cells])
            for name, values in self.axes.items()
        )

    @cached_property
    def space(self) -> Space:
        """The points, labelled as datasets are."""
        axes = self.configuration.grid.axes
        nowhere = [np.empty(0, np.int64) for _ in axes]
        labels = dataset.tabulate(axes, nowhere, {}, {}, {}, {}).summary
        columns = zip(self.axes, self.places, strict=True)
        return Space(pd.DataFrame({name: labels[name].values[place] for name, place in columns}))

    def run(self) -> None:
        """Measure, learn and choose until one of the reasons to end holds.

        Raises:
            RoundError: when no deployment of a round could be measured, or every cell failed.
        """
        predicted: tuple[Belief, list[int]] | None = None
        self._adopt()
        self._remember()
        while True:
            measured = self.measured()
            available = ~measured & ~self._unreachable()
            rows = [row for row in first(self.space) if available[row]]
            if not rows:
                belief = self._learn(measured, available, predicted)
                if self.reason:
                    return
                if belief is None:
                    message = "cells went well with one value of each axis alone: nothing can be predicted"
                    raise RoundError(message)
                seed = self.configuration.sweep.seed
                rows = choose(self.space, belief, available, self.costs(), batch(len(self.space)), seed)
                predicted = belief, rows
            self._round(rows)

    def _learn(
        self,
        measured: NDArray[np.bool_],
        available: NDArray[np.bool_],
        predicted: tuple[Belief, list[int]] | None,
    ) -> Belief | None:
        """Learn from all cells, log how wrong the surface still is, say why it ends if it does, and publish.

        `predicted` is what was believed before the last round, and the points that were measured in it.
        """
        folded = self.fold()
        throughput = self.throughput(folded.summary)
        if predicted is not None:
            belief_before, rows = predicted
            self.log[-1]["surprise"] = belief_before.surprise(rows, throughput)
        surprise = [size for entry in self.log for size in entry.get("surprise", [])]
        belief = self.learn(folded.summary, surprise)
        if belief is not None:
            if not self.log:
                self.log.append({"cells": []})
            estimated, noise = error(belief, measured, throughput)
            share = float(measured.mean())
            self.log[-1] |= {"share": share, "error": estimated, "noise": noise, "doubt": belief.doubt}
            cells = sum(len(point) for point, known in zip(self.cells, measured, strict=True) if known)
            self.say(
                f"{self.configuration.name}: {cells} of {len(self.configuration.grid.cells)} cells measured, "
                f"estimated error of the others {estimated:.1%} of the range"
            )
            errors = [(entry["error"], entry["noise"]) for entry in self.log if "error" in entry]
            self.reason = finished(self.error, errors, len(surprise), measured)
        elif measured.all():
            self.reason = EXHAUSTED
        if not self.reason and not available.any():
            self.reason = UNREACHABLE
        self.publish(folded, belief)
        return belief

    def costs(self) -> Costs:
        """What deployments and points are expected to take."""
        sweep, testbed = self.configuration.sweep, self.configuration.testbed
        cell = sum(sweep.measurement.bounds) / 2 + testbed.cell_seconds
        return Costs(testbed.deploy_seconds, sweep.repetitions * cell)

    def measured(self) -> NDArray[np.bool_]:
        """Which points have all their cells, also those that failed: measuring these again would tell no more."""
        return np.array([not any(self._stale(cell) for cell in cells) for cells in self.cells])

    def fold(self) -> dataset.Folded:
        """Fold the cells that are measured, over the whole grid."""
        settings = self.configuration
        current = (cell for cell in settings.grid.cells if not self._stale(cell))
        files = {settings.cell_file(cell): wanted(settings, cell) for cell in current}
        return dataset.fold(files, settings.grid.axes, files.values(), attributes=settings.attributes)

    def throughput(self, summary: xr.Dataset) -> NDArray[np.float64]:
        """Give the mean over the repetitions of each point in Gbit/s; NaN where there is none."""
        ok = summary["status"] == dataset.STATUS.index("ok")
        mean = summary["throughput"].where(ok).mean(REPETITION).transpose(*self.space.points)
        return np.asarray(mean.values[self.places], float)

    def learn(self, summary: xr.Dataset, surprise: Sequence[float] = ()) -> Belief | None:
        """Say what the cells tell of the whole grid; None where only one point was measured.

        Raises:
            RoundError: when every cell failed.
        """
        try:
            observations = observe(summary)
        except NothingMeasuredError as error:
            raise RoundError(f"every cell so far failed; see their messages: {error}") from error
        return believe(fit_process(observations), self.space, surprise) if observations.axes else None

    def publish(self, folded: dataset.Folded, belief: Belief | None) -> None:
        """Write the dataset with what is predicted, and the log of rounds."""
        summary = folded.summary
        if belief is not None:
            summary = predicted(summary, self.places, belief, self.configuration.sweep.measurement.confidence)
        dataset.write(
            replace(folded, summary=summary), self.folder / "dataset.nc", "measured in rounds, then folded"
        )
        content = {
            "sweep": self.configuration.name,
            "asked": self.error,
            "ended": self.reason,
            "cells": len(self.configuration.grid.cells),
            "failed": self.failed,
            "rounds": self.log,
        }
        write_json(self.folder / "rounds.json", content)

    def _round(self, rows: Sequence[int]) -> None:
        """Measure some points, and note what came of it."""
        began = datetime.datetime.now(datetime.UTC)
        cells = [cell for row in rows for cell in self.cells[row] if self._stale(cell)]
        deployments = list(dict.fromkeys(cell.deployment.path for cell in cells))
        self.say(f"{self.configuration.name}: round of {len(cells)} cells in {len(deployments)} deployments")
        self.measure(cells)
        stale = {cell.deployment.path for cell in cells if self._stale(cell)}
        for file in map(self.configuration.cell_file, cells):
            if results.is_placeholder(file):  # otherwise Snakemake takes the cell for measured
                file.unlink()
        self.failed += [path for path in deployments if path in stale]
        took = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
        paths = [cell.path for cell in cells if not self._stale(cell)]
        if not paths:
            raise RoundError("no deployment of this round could be measured; what each said is above")
        self.log.append(
            {"began": began.isoformat(timespec="seconds"), "seconds": round(took, 1), "cells": paths}
        )

    def _unreachable(self) -> NDArray[np.bool_]:
        return np.array([cells[0].deployment.path in self.failed for cells in self.cells])

    def _adopt(self) -> None:
        """Use the cells that an interrupted run measured, and set damaged ones aside."""
        for file in map(self.configuration.cell_file, self.configuration.grid.cells):
            if results.damage(file):
                results.set_aside(file, "damaged")
        results.adopt(self.configuration)

    def _remember(self) -> None:
        """Take over the rounds of earlier runs, as far as their cells are still there."""
        known = self.configuration.grid.by_path
        try:
            rounds = orjson.loads((self.folder / "rounds.json").read_bytes())["rounds"]
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
            return
        for entry in rounds:
            if not all(path in known and not self._stale(known[path]) for path in entry["cells"]):
                return
            self.log.append(entry)

    def _stale(self, cell: Cell) -> bool:
        return results.stale(self.configuration.cell_file(cell), wanted(self.configuration, cell))


def predicted(
    summary: xr.Dataset, places: tuple[NDArray[np.int64], ...], belief: Belief, confidence: float
) -> xr.Dataset:
    """Add what is predicted of every point of the grid, with the interval of one more measurement."""
    dimensions = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    half = stats.norm.ppf(0.5 + confidence / 2) * belief.deviation
    of_interval = "end of the interval of a measurement, as predicted"
    variables: dict[str, Any] = {}
    for suffix, values, about in (
        ("", belief.mean, "throughput as a Gaussian process over the cells predicts it"),
        ("_low", np.maximum(belief.mean - half, 0.0), f"lower {of_interval}"),
        ("_high", belief.mean + half, f"upper {of_interval}"),
    ):
        full = np.full([summary.sizes[name] for name in dimensions], np.nan)
        full[places] = values
        attributes = {"units": "Gbit/s", "long_name": about}
        variables[f"throughput_predicted{suffix}"] = (dimensions, full, attributes)
    return summary.assign(variables)


def completed(summary: xr.Dataset) -> xr.Dataset:
    """Complete the surface for figures with what is predicted where nothing was measured.

    The result has a variable `predicted`, true for these cells.
    """
    not_measured = summary["status"] == dataset.STATUS.index("not_measured")
    holes = not_measured & summary["throughput_predicted"].notnull()
    holes = holes.transpose(*summary["throughput"].dims)
    filled: dict[str, Any] = {
        f"throughput{end}": summary[f"throughput{end}"].where(~holes, summary[f"throughput_predicted{end}"])
        for end in ("", "_low", "_high")
    }
    return summary.assign(**filled, predicted=holes)


def draw(folder: Path) -> None:
    """Draw the surface, as measured and predicted, and the rounds, from the files in a folder."""
    summary = xr.load_dataset(folder / "dataset.nc")
    log = orjson.loads((folder / "rounds.json").read_bytes())
    shown = completed(summary) if "throughput_predicted" in summary else summary
    figures.save(figures.heatmap(shown), folder / "figures", "surface")
    figures.save(figures.rounds(summary, log), folder / "figures", "rounds")
