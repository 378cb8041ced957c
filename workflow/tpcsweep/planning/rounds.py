# SPDX-License-Identifier: Apache-2.0
"""Measure a sweep in rounds: first a coarse subset, then chosen cells, until the surface is known.

The state is always read from the cells' files. An interrupted run continues, and existing measurements are used.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy import stats

from tpcsweep import dataset, figures, results, staging
from tpcsweep.configuration.loading import Configuration, cell_spec
from tpcsweep.configuration.sweep import REPETITION, Cell
from tpcsweep.dataset.labels import coordinates
from tpcsweep.files import write_json
from tpcsweep.models import fit_process, observe
from tpcsweep.models.base import Floats
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.planning import choice
from tpcsweep.planning.choice import Belief, Costs, Mask, Rows, Space

Measure = Callable[[Sequence[Cell]], object]
"""Function that measures cells. Cells that it cannot measure remain stale."""

UNREACHABLE = "the deployments of all cells that are left failed"


class RoundError(RuntimeError):
    """The sweep cannot continue after a round."""


@dataclass
class Rounds:
    """State of a sweep that is measured in rounds."""

    configuration: Configuration
    measure: Measure
    report: Callable[[str], None]
    error: float  # estimated error at which the run stops, as a share of the surface's range
    log: list[dict[str, Any]] = field(default_factory=list)
    """One entry for each round, including those of earlier runs."""
    reason: str = ""
    failed: list[str] = field(default_factory=list)  # deployments that could not be measured

    @property
    def folder(self) -> Path:
        """Folder of the dataset with predictions and of the log of rounds."""
        return self.configuration.folder / "adaptive"

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """Repetitions of each point, in the order of the grid."""
        points: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in self.configuration.grid.cells:
            points.setdefault(tuple(cell.axes[name] for name in self.axes), []).append(cell)
        return list(points.values())

    @cached_property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        return {name: values for name, values in self.configuration.grid.axes.items() if name != REPETITION}

    @cached_property
    def places(self) -> tuple[Rows, ...]:
        """Index of each point's value on each axis except the repetition."""
        return tuple(
            np.array([values.index(point[0].axes[name]) for point in self.cells])
            for name, values in self.axes.items()
        )

    @cached_property
    def space(self) -> Space:
        """Points of the grid, labelled as in datasets."""
        columns = zip(coordinates(self.axes, {}).items(), self.places, strict=True)
        return Space(pd.DataFrame({name: values[place] for (name, (_, values, _)), place in columns}))

    def run(self) -> None:
        """Measure, learn and choose until there is a reason to stop. Raises RoundError if a whole round failed."""
        predicted: tuple[Belief, list[int]] | None = None
        for file in map(self.configuration.cell_file, self.configuration.grid.cells):
            if results.damage(file):
                staging.set_aside(file, "damaged")
        staging.adopt(self.configuration)
        self._remember()
        while True:
            measured = self.measured()
            failed = np.array([cells[0].deployment.path in self.failed for cells in self.cells])
            available = ~measured & ~failed
            rows = [row for row in choice.first_points(self.space) if available[row]]
            if not rows:
                belief = self._learn(measured, available, predicted)
                if self.reason:
                    return
                if belief is None:
                    message = "cells went well with one value of each axis alone: nothing can be predicted"
                    raise RoundError(message)
                count, seed = choice.round_size(len(self.space)), self.configuration.sweep.seed
                rows = choice.next_points(self.space, belief, available, self.costs(), count, seed)
                predicted = belief, rows
            self._round(rows)

    def _learn(
        self, measured: Mask, available: Mask, predicted: tuple[Belief, list[int]] | None
    ) -> Belief | None:
        """Learn from all cells and the last round's predictions; log, decide whether to stop, publish."""
        folded = self.fold()
        throughput = self.throughput(folded.summary)
        if predicted is not None:
            belief_before, rows = predicted
            self.log[-1]["surprise"] = belief_before.standardized_errors(rows, throughput)
        surprise = [size for entry in self.log for size in entry.get("surprise", [])]
        belief = self.learn(folded.summary, surprise)
        if belief is not None:
            if not self.log:
                self.log.append({"cells": []})
            estimated, noise = choice.surface_error(belief, measured, throughput)
            share = float(measured.mean())
            self.log[-1] |= {"share": share, "error": estimated, "noise": noise, "doubt": belief.doubt}
            cells = sum(len(point) for point, known in zip(self.cells, measured, strict=True) if known)
            self.report(
                f"{self.configuration.name}: {cells} of {len(self.configuration.grid.cells)} cells measured, "
                f"estimated error of the others {estimated:.1%} of the range"
            )
            errors = [(entry["error"], entry["noise"]) for entry in self.log if "error" in entry]
            self.reason = choice.stop_reason(self.error, errors, len(surprise), measured)
        elif measured.all():
            self.reason = choice.EXHAUSTED
        if not self.reason and not available.any():
            self.reason = UNREACHABLE
        self.publish(folded, belief)
        return belief

    def costs(self) -> Costs:
        """Return the expected seconds of deployments and points."""
        sweep, testbed = self.configuration.sweep, self.configuration.testbed
        cell = sum(sweep.measurement.bounds) / 2 + testbed.cell_seconds
        return Costs(testbed.deploy_seconds, sweep.repetitions * cell)

    def measured(self) -> Mask:
        """Return which points have all their cells, including failed ones: repeating these would add nothing."""
        return np.array([not any(self._stale(cell) for cell in cells) for cells in self.cells])

    def fold(self) -> dataset.Folded:
        settings = self.configuration
        current = (cell for cell in settings.grid.cells if not self._stale(cell))
        files = {settings.cell_file(cell): cell_spec(settings, cell) for cell in current}
        return dataset.fold(files, settings.grid.axes, files.values(), attributes=settings.attributes)

    def throughput(self, summary: xr.Dataset) -> Floats:
        """Return each point's mean over repetitions in Gbit/s; NaN without any."""
        ok = summary["status"] == dataset.STATUS.index("ok")
        mean = summary["throughput"].where(ok).mean(REPETITION).transpose(*self.space.points)
        return np.asarray(mean.values[self.places], float)

    def learn(self, summary: xr.Dataset, surprise: Sequence[float]) -> Belief | None:
        """Return the belief about the grid, or None if only one point was measured. Raises RoundError without any."""
        try:
            observations = observe(summary)
        except NothingMeasuredError as error:
            raise RoundError(f"every cell so far failed; see their messages: {error}") from error
        return choice.believe(fit_process(observations), self.space, surprise) if observations.axes else None

    def publish(self, folded: dataset.Folded, belief: Belief | None) -> None:
        if belief is not None:
            confidence = self.configuration.sweep.measurement.confidence
            summary = add_predictions(folded.summary, self.places, belief, confidence)
            folded = replace(folded, summary=summary)
        dataset.write(folded, self.folder / "dataset.nc", "measured in rounds, then folded")
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
        began = datetime.datetime.now(datetime.UTC)
        cells = [cell for row in rows for cell in self.cells[row] if self._stale(cell)]
        deployments = list(dict.fromkeys(cell.deployment.path for cell in cells))
        self.report(
            f"{self.configuration.name}: round of {len(cells)} cells in {len(deployments)} deployments"
        )
        self.measure(cells)
        stale = {cell.deployment.path for cell in cells if self._stale(cell)}
        for file in map(self.configuration.cell_file, cells):
            if (
                results.unmeasured_reason(file) is not None
            ):  # otherwise Snakemake would consider the cell measured
                file.unlink()
        self.failed += [path for path in deployments if path in stale]
        took = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
        paths = [cell.path for cell in cells if not self._stale(cell)]
        if not paths:
            raise RoundError("no deployment of this round could be measured; their messages are above")
        entry = {"began": began.isoformat(timespec="seconds"), "seconds": round(took, 1), "cells": paths}
        self.log.append(entry)

    def _remember(self) -> None:
        """Continue the log of earlier runs, up to the first round with a stale cell."""
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
        return results.stale(self.configuration.cell_file(cell), cell_spec(self.configuration, cell))


def add_predictions(
    summary: xr.Dataset, places: tuple[Rows, ...], belief: Belief, confidence: float
) -> xr.Dataset:
    """Add predictions for every point of the grid, with the interval of one more measurement."""
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


def surface_with_predictions(summary: xr.Dataset) -> xr.Dataset:
    """Fill unmeasured cells with predictions; the variable `predicted` is true for these cells."""
    not_measured = summary["status"] == dataset.STATUS.index("not_measured")
    predictable = summary["throughput_predicted"].notnull()
    holes = (not_measured & predictable).transpose(*summary["throughput"].dims)
    filled: dict[str, Any] = {
        f"throughput{end}": summary[f"throughput{end}"].where(~holes, summary[f"throughput_predicted{end}"])
        for end in ("", "_low", "_high")
    }
    return summary.assign(**filled, predicted=holes)


def draw_figures(folder: Path) -> None:
    """Draw the surface (measured and predicted) and the rounds from the files in a folder."""
    summary = dataset.load(folder / "dataset.nc")
    log = orjson.loads((folder / "rounds.json").read_bytes())
    shown = surface_with_predictions(summary) if "throughput_predicted" in summary else summary
    figures.save(figures.heatmap(shown), folder / "figures", "surface")
    figures.save(figures.rounds(summary, log), folder / "figures", "rounds")
