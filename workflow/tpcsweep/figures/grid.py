# SPDX-License-Identifier: Apache-2.0
"""The cells as figures show them: repetitions combined, and each axis given its place. Nothing is drawn here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import IMPORTED, STATUS, flagged
from tpcsweep.flags import FLAGS, graded

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST = ("streams", "rtt", "cores", "origins")  # which axes take x and y, and then which make panels


@dataclass(frozen=True)
class Arrangement:
    """The cells with their repetitions combined, and where each axis goes."""

    cells: xr.Dataset
    """throughput, low, high, and one boolean per mark."""
    x: str | None
    y: str | None
    columns: str | None
    rows: tuple[str, ...]

    def panels(self) -> list[list[dict[str, Any]]]:
        """Give, row by row, the values of the axes that are neither x nor y in each panel that has a cell."""
        names = self.rows if self.columns is None else (*self.rows, self.columns)
        every = combinations(self.cells, names)
        across = 1 if self.columns is None else self.size(self.columns)
        rows = [every[first : first + across] for first in range(0, len(every), across)]
        held = [[where for where in row if not self.empty(where)] for row in rows]
        return [row for row in held if row] or rows

    def empty(self, where: Mapping[str, Any]) -> bool:
        """Say whether no cell was asked for with these values, as where a tool does not know a layer."""
        return "missing" in self.cells and bool(self.cells["missing"].sel(where).all())

    def plane(self, name: str, where: Mapping[str, Any]) -> NDArray[Any]:
        """Give one panel's values in rows of y and columns of x."""
        part = self.cells[name].sel(where).transpose(*(axis for axis in (self.y, self.x) if axis is not None))
        values: NDArray[Any] = part.values.reshape(self.size(self.y), self.size(self.x))
        return values

    def size(self, name: str | None) -> int:
        """Give how many values an axis has; one where there is no axis."""
        return 1 if name is None else self.cells.sizes[name]


def arrange(summary: xr.Dataset, chosen: Sequence[str] = ()) -> Arrangement:
    """Combine repetitions and give each axis its place: x and y to the chosen ones."""
    return place(_combined(summary), chosen)


def place(cells: xr.Dataset, chosen: Sequence[str] = ()) -> Arrangement:
    """Give each axis of cells its place, x and y to the chosen ones; all variables have the same dimensions."""
    axes = [str(name) for name in next(iter(cells.values())).dims]
    axes.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    several = [name for name in axes if cells.sizes[name] > 1]
    plane = list(chosen) or several[:2]
    if "streams" not in plane and "streams" in axes and len(plane) < 2:
        plane = ["streams", *plane]
    x, y = (*plane, None, None)[:2]
    others = [name for name in axes if name not in plane]
    columns = others[0] if others else None
    return Arrangement(cells, x, y, columns, tuple(others[1:]))


def _combined(summary: xr.Dataset) -> xr.Dataset:
    """Mean over the repetitions that went well; the band spans the intervals of all of them."""
    if REPETITION not in summary["throughput"].dims:
        summary = summary.expand_dims(REPETITION)
    status = summary["status"]
    # Of a surface that a prediction completes: see `rounds.completed`.
    predicted = summary["predicted"] if "predicted" in summary else xr.zeros_like(status, bool)
    ok = (status == STATUS.index("ok")) | predicted
    throughput = summary["throughput"].where(ok)
    loud = graded(FLAGS, "warning", "invalid")
    marks = {name: flagged(summary, name).any(REPETITION) for name in loud}
    marks["failed"] = (status == STATUS.index("failed")).any(REPETITION)
    marks["predicted"] = predicted.any(REPETITION)
    missing = (status == STATUS.index("not_measured")) & ~predicted
    # What others measured more often in one cell than in another is not missing in the other.
    uneven = summary.attrs["testbed_kind"] == IMPORTED
    marks["missing"] = missing.all(REPETITION) if uneven else missing.any(REPETITION)
    # Where a repetition has no interval, the band still spans its mean.
    low = summary["throughput_low"].where(ok).fillna(throughput).min(REPETITION)
    high = summary["throughput_high"].where(ok).fillna(throughput).max(REPETITION)
    return xr.Dataset({"throughput": throughput.mean(REPETITION), "low": low, "high": high, **marks})


def spaced(at: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Choose positions to put ticks at, by index: all of a few, else such as leave room for `most` labels."""
    if len(at) <= most:
        return np.arange(len(at))
    chosen: list[int] = []
    for place in np.argsort(at, kind="stable"):
        if not chosen or at[place] - at[chosen[-1]] >= np.ptp(at) / most:
            chosen.append(int(place))
    return np.array(chosen)


def evenly(size: int, most: int) -> NDArray[np.int64]:
    """Choose at most so many of so many places, evenly, the first and the last among them."""
    return np.linspace(0, max(0, size - 1), min(size, most)).round().astype(np.int64)


def thinned(grid: Arrangement, most: Mapping[str | None, int]) -> tuple[Arrangement, list[str]]:
    """Keep at most so many values of some axes, evenly over those that there are, and say so."""
    crowded = {name: count for name, count in most.items() if name is not None and grid.size(name) > count}
    kept = {name: evenly(grid.size(name), count) for name, count in crowded.items()}
    notes = [f"{count} of {grid.size(name)} values of {name}" for name, count in crowded.items()]
    said = [f"Drawn: {', '.join(notes)}, evenly over them; the dataset has all."] if notes else []
    return replace(grid, cells=grid.cells.isel(kept)), said


def values_of(content: xr.Dataset, name: str) -> list[Any]:
    values: list[Any] = content[name].values.tolist()
    return values


def combinations(content: xr.Dataset, names: Sequence[str]) -> list[dict[str, Any]]:
    """Give every combination of the values of some axes."""
    values = itertools.product(*(values_of(content, name) for name in names))
    return [dict(zip(names, row, strict=True)) for row in values]


def positions(cells: xr.Dataset, name: str) -> NDArray[np.float64]:
    """Where values lie along an axis: powers of two evenly, words and infinities evenly, others to scale."""
    values = values_of(cells, name)
    if any(isinstance(value, str) or math.isinf(value) for value in values):
        return np.arange(len(values), dtype=float)
    numbers = np.array(values, dtype=float)
    if name == "streams" or (numbers.min() > 0 and numbers.max() >= 16 * numbers.min()):
        return np.asarray(np.log2(numbers))
    return numbers
