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

Measure = Callable[[Sequence[Cell]], None]
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
            points.setdefault(tuple(v for n, v in cell.axes.items() if n != REPETITION), []).append(cell)
        return list(points.values())

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], ...]:
        """For each axis but the repetition the place of each point's value."""
        axes = {name: values for name, values in self.configuration.grid.axes.items() if name != REPETITION}
        found = [{value: place for place, value in enumerate(values)} for values in axes.values()]
        return tuple(
            np.array([one[cells[0].axes[name]] for cells in self.cells])
            for name, one in zip(axes, found, strict=True)
        )

    @cached_property
    def space(self) -> Space:
        """The points, labelled as datasets are."""
        axes = self.configuration.grid.axes
        nowhere = [np.empty(0, np.int64) for _ in axes]
        labels = dataset.tabulate(axes, nowhere, {}, {}, {}, {}).summary
        names = [name for name in axes if name != REPETITION]
        return Space(
            pd.DataFrame({n: labels[n].values[at] for n, at in zip(names, self.places, strict=True)})
        )

    def run(self) -> None:
        """Measure, learn and choose until one of the reasons to end holds.

        Raises:
            RoundError: when no deployment of a round could be measured, or every cell failed.
        """
        settings, asked = self.configuration, self.configuration.run.error
        tested: tuple[Belief, list[int]] | None = None
        self._remember()
        while True:
            measured = self.measured()
            open_ = ~measured & ~self._unreachable()
            chosen = [row for row in first(self.space) if open_[row]]
            if not chosen:
                folded = self.fold()
                throughput = self.throughput(folded.summary)
                if tested is not None:
                    self.log[-1]["surprise"] = tested[0].surprise(tested[1], throughput)
                surprise = [size for one in self.log for size in one.get("surprise", [])]
                belief = self.learn(folded.summary, surprise)
                if belief is not None:
                    self._note(measured, belief, *error(belief, measured, throughput))
                    errors = [(one["error"], one["noise"]) for one in self.log if "error" in one]
                    self.reason = finished(asked, errors, len(surprise), measured)
                elif measured.all():
                    self.reason = EXHAUSTED
                if not self.reason and not open_.any():
                    self.reason = UNREACHABLE
                self.publish(folded, belief)
                if self.reason:
                    return
                if belief is None:
                    raise RoundError(
                        "cells went well with one value of each axis alone: nothing can be predicted"
                    )
                count = batch(len(self.space))
                chosen = choose(self.space, belief, open_, self.costs(), count, settings.sweep.seed)
                tested = belief, chosen
            self._round(chosen)

    def costs(self) -> Costs:
        """What deployments and points are expected to take."""
        sweep, testbed = self.configuration.sweep, self.configuration.testbed
        cell = sum(sweep.measurement.bounds) / 2 + testbed.cell_seconds
        return Costs(testbed.deploy_seconds, sweep.repetitions * cell)

    def measured(self) -> NDArray[np.bool_]:
        """Which points have all their cells, also those that failed: measuring these again would tell no more."""
        return np.array([not any(self._stale(cell) for cell in cells) for cells in self.cells])

    def fold(self) -> dataset.Folded:
        """The dataset of the cells that there are, over the whole grid."""
        settings = self.configuration
        there = [cell for cells in self.cells for cell in cells if not self._stale(cell)]
        files = {settings.cell_file(cell): wanted(settings, cell) for cell in there}
        return dataset.fold(files, settings.grid.axes, files.values(), attributes=settings.attributes)

    def throughput(self, summary: xr.Dataset) -> NDArray[np.float64]:
        """Mean over the repetitions of each point, Gbit/s; NaN where there is none."""
        ok = summary["status"] == dataset.STATUS.index("ok")
        mean = summary["throughput"].where(ok).mean(REPETITION).transpose(*self.space.points)
        return np.asarray(mean.values[self.places], float)

    def learn(self, summary: xr.Dataset, surprise: Sequence[float] = ()) -> Belief | None:
        """What the cells say of the whole grid; None where one point is all.

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
            "asked": self.configuration.run.error,
            "ended": self.reason,
            "cells": len(self.configuration.grid.cells),
            "failed": self.failed,
            "rounds": self.log,
        }
        write_json(self.folder / "rounds.json", content)

    def _note(self, measured: NDArray[np.bool_], belief: Belief, estimated: float, noise: float) -> None:
        """Log and say how wrong the surface still is."""
        if not self.log:
            self.log.append({"cells": []})
        share = float(measured.mean())
        self.log[-1] |= {"share": share, "error": estimated, "noise": noise, "doubt": belief.doubt}
        cells = sum(len(one) for one, there in zip(self.cells, measured, strict=True) if there)
        self.say(
            f"{self.configuration.name}: {cells} of {len(self.configuration.grid.cells)} cells measured, "
            f"estimated error of the others {estimated:.1%} of the range"
        )

    def _round(self, rows: Sequence[int]) -> None:
        """Measure some points, and note what came of it."""
        began = datetime.datetime.now(datetime.UTC)
        cells = [cell for row in rows for cell in self.cells[row] if self._stale(cell)]
        deployments = list(dict.fromkeys(cell.deployment_path for cell in cells))
        self.say(f"{self.configuration.name}: round of {len(cells)} cells in {len(deployments)} deployments")
        self.measure(cells)
        stale = {cell.deployment_path for cell in cells if self._stale(cell)}
        self.failed += [path for path in deployments if path in stale]
        took = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
        there = [cell.path for cell in cells if not self._stale(cell)]
        if not there:
            raise RoundError("no deployment of this round could be measured; what each said is above")
        self.log.append(
            {"began": began.isoformat(timespec="seconds"), "seconds": round(took, 1), "cells": there}
        )

    def _unreachable(self) -> NDArray[np.bool_]:
        return np.array([cells[0].deployment_path in self.failed for cells in self.cells])

    def _remember(self) -> None:
        """Take over the rounds of earlier runs, as far as their cells are still there."""
        path = self.folder / "rounds.json"
        known = self.configuration.grid.by_path
        try:
            rounds = orjson.loads(path.read_bytes())["rounds"]
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError):
            return
        for one in rounds:
            if not all(name in known and not self._stale(known[name]) for name in one["cells"]):
                return
            self.log.append(one)

    def _stale(self, cell: Cell) -> bool:
        return results.stale(self.configuration.cell_file(cell), wanted(self.configuration, cell))


def predicted(
    summary: xr.Dataset, places: tuple[NDArray[np.int64], ...], belief: Belief, confidence: float
) -> xr.Dataset:
    """Add what is predicted of every point of the grid, with the interval of one more measurement."""
    dimensions = [str(name) for name in summary["throughput"].dims if name != REPETITION]
    shape = tuple(summary.sizes[name] for name in dimensions)
    half = stats.norm.ppf(0.5 + confidence / 2) * belief.deviation
    content = {
        "throughput_predicted": (belief.mean, "throughput as a Gaussian process over the cells predicts it"),
        "throughput_predicted_low": (
            np.maximum(belief.mean - half, 0.0),
            "lower end of the interval of a measurement, as predicted",
        ),
        "throughput_predicted_high": (
            belief.mean + half,
            "upper end of the interval of a measurement, as predicted",
        ),
    }
    variables: dict[str, Any] = {}
    for name, (values, about) in content.items():
        full = np.full(shape, np.nan)
        full[places] = values
        variables[name] = (dimensions, full, {"units": "Gbit/s", "long_name": about})
    return summary.assign(variables)


def completed(summary: xr.Dataset) -> xr.Dataset:
    """For figures: the surface with what is predicted where nothing was measured, and where that is so.

    The result has a variable `predicted`, true for these cells.
    """
    holes = (summary["status"] == dataset.STATUS.index("not_measured")) & summary[
        "throughput_predicted"
    ].notnull()
    holes = holes.transpose(*summary["throughput"].dims)
    filled: dict[str, Any] = {
        name: summary[name].where(~holes, summary[name.replace("throughput", "throughput_predicted")])
        for name in ("throughput", "throughput_low", "throughput_high")
    }
    return summary.assign(**filled, predicted=holes)


def draw(folder: Path) -> None:
    """Draw the surface, as measured and predicted, and the rounds, from the files in a folder."""
    summary = xr.load_dataset(folder / "dataset.nc")
    log = orjson.loads((folder / "rounds.json").read_bytes())
    shown = completed(summary) if "throughput_predicted" in summary else summary
    figures.save(figures.heatmap(shown), folder / "figures", "surface")
    figures.save(figures.rounds(summary, log), folder / "figures", "rounds")


def list_cells(path: Path, cells: Sequence[Cell]) -> Path:
    """Write the file that the configuration's `only` names."""
    write_json(path, [cell.path for cell in cells])
    return path
