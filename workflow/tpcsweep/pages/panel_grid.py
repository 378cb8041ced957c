# SPDX-License-Identifier: Apache-2.0
"""Arrangement of cells for figures: repetitions combined, axes placed. Nothing is drawn here."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import IMPORTED, STATUS, flagged, is_mesh
from tpcsweep.data.repetitions import settings_of
from tpcsweep.sweeps.parameters import DESTINATION, SOURCE
from tpcsweep.sweeps.sweep import REPETITION

_FIRST = ("streams", "rtt", "cores", "origins")  # order in which axes take x and y, then panels


@dataclass(frozen=True)
class Arrangement:
    """Cells with combined repetitions, and the place of each axis."""

    cells: xr.Dataset  # throughput, low, high, and one boolean for each mark
    x: str | None
    y: str | None
    columns: str | None
    rows: tuple[str, ...]

    def panels(self) -> list[list[dict[str, Any]]]:
        """Return, row by row, the values of the panel axes for each panel that has a cell."""
        names = self.rows if self.columns is None else (*self.rows, self.columns)
        every = combinations(self.cells, names)
        across = 1 if self.columns is None else self.size(self.columns)
        rows = [every[first : first + across] for first in range(0, len(every), across)]
        held = [[where for where in row if not self.empty(where)] for row in rows]
        return [row for row in held if row] or rows

    def empty(self, where: Mapping[str, Any]) -> bool:
        """Return whether no cell was requested with these values, as for a tool without some layer."""
        return "missing" in self.cells and bool(self.cells["missing"].sel(where).all())

    def plane(self, name: str, where: Mapping[str, Any]) -> NDArray[Any]:
        """Return one panel's values in rows of y and columns of x."""
        part = self.cells[name].sel(where).transpose(*(axis for axis in (self.y, self.x) if axis is not None))
        return np.asarray(part.values.reshape(self.size(self.y), self.size(self.x)))

    def lines(self) -> list[Any]:
        """Return the values of y; one None without it."""
        return [None] if self.y is None else list(self.cells[self.y].values.tolist())

    def size(self, name: str | None) -> int:
        return 1 if name is None else self.cells.sizes[name]


class Places(NamedTuple):
    """Axes that a reader wants at a place of a figure; all others take the places that are left."""

    x: str | None = None
    y: str | None = None  # the axis of lines, or the second one of a map
    panels: Sequence[str] = ()  # the first has a column for each value, the others have rows


ANYWHERE = Places()


def places_of_map(summary: xr.Dataset, places: Places = ANYWHERE) -> Places:
    """Return the places of axes in a map: of a mesh, if nobody chose any, sites × sites."""
    return Places(DESTINATION, SOURCE) if places == ANYWHERE and is_mesh(summary) else places


def arrange(summary: xr.Dataset, places: Places = ANYWHERE) -> Arrangement:
    """Combine repetitions and place each axis."""
    return arrange_axes(combine(summary), places)


def arrange_axes(cells: xr.Dataset, places: Places = ANYWHERE) -> Arrangement:
    """Place each axis of cells, all of whose variables have equal dimensions."""
    axes = [str(name) for name in next(iter(cells.values())).dims]
    # An axis with one value has the last place; the sort is stable.
    axes.sort(key=lambda name: (cells.sizes[name] < 2, _FIRST.index(name) if name in _FIRST else len(_FIRST)))
    free = [name for name in axes if name not in (places.x, places.y, *places.panels)]
    several = [name for name in free if cells.sizes[name] > 1]
    if places.x is None and "streams" in free and len(several) + (places.y is not None) < 2:
        several = ["streams", *(name for name in several if name != "streams")]
    x = places.x or next(iter(several), None)
    y = places.y or next((name for name in several if name != x), None)
    others = [*places.panels, *(name for name in free if name not in (x, y))]
    return Arrangement(cells, x, y, others[0] if others else None, tuple(others[1:]))


def combine(summary: xr.Dataset) -> xr.Dataset:
    """Return the throughput of settings with its interval (`data.repetitions`), and their marks."""
    settings, status = settings_of(summary), summary["status"]
    loud = graded(FLAGS, "warning", "invalid")
    marks = {name: flagged(settings, name) for name in loud}
    marks["failed"] = (status == STATUS.index("failed")).any(REPETITION)
    missing = status == STATUS.index("not_measured")
    # Imported cells have different numbers of measurements, so a missing repetition is normal.
    uneven = summary.attrs["testbed_kind"] == IMPORTED
    marks["missing"] = missing.all(REPETITION) if uneven else missing.any(REPETITION)
    mean = settings["throughput"]
    low, high = (settings[f"throughput_{end}"].fillna(mean) for end in ("low", "high"))
    return xr.Dataset({"throughput": mean, "low": low, "high": high, "limit": settings["limit"], **marks})


def path_rate(summary: xr.Dataset, where: Mapping[str, Any] = MappingProxyType({})) -> float:
    """Return the path's bandwidth in a panel in Gbit/s; inf if nobody knows it or its cells have several."""
    rate = where.get("bandwidth", summary.get("bandwidth", np.inf))
    rate = np.inf if np.ndim(rate) else float(rate)
    return np.inf if np.isnan(rate) else rate


def rate_top(path: float, largest: float, longest: float = np.inf) -> float:
    """Return the upper end of an axis of throughput in Gbit/s; longer intervals end there.

    It is 1.1 times the path's rate, or less if that is more than twice the largest mean; then the axis ends behind the
    `longest` interval, or at twice the largest mean.
    """
    end = path if path <= 2 * largest else min(longest, 2 * largest)
    return max(1.1 * end, 1.05 * largest) or 1.0


def grid_top(summary: xr.Dataset, cells: xr.Dataset) -> float:
    """Return `rate_top` of the cells of an arrangement of `summary`."""
    paths = summary["bandwidth"].fillna(np.inf) if "bandwidth" in summary else xr.DataArray(np.inf)
    largest, longest = (float(cells[name].fillna(0).max()) for name in ("throughput", "high"))
    return rate_top(float(paths.max()), largest, longest)


def evenly(size: int, most: int) -> NDArray[np.int64]:
    """Choose at most `most` of `size` indices, evenly, including the first and the last."""
    return np.linspace(0, max(0, size - 1), min(size, most)).round().astype(np.int64)


def thin_axes(grid: Arrangement, most: Mapping[str | None, int]) -> tuple[Arrangement, list[str]]:
    """Keep at most `most` values of each axis, evenly spread, and return notes about it."""
    crowded = {name: count for name, count in most.items() if name is not None and grid.size(name) > count}
    kept = {name: evenly(grid.size(name), count) for name, count in crowded.items()}
    notes = [f"{count} of {grid.size(name)} values of {name}" for name, count in crowded.items()]
    drawn = [f"Drawn: {', '.join(notes)}, evenly over them; the dataset has all."] if notes else []
    return replace(grid, cells=grid.cells.isel(kept)), drawn


def combinations(content: xr.Dataset, names: Sequence[str]) -> list[dict[str, Any]]:
    values = itertools.product(*(content[name].values.tolist() for name in names))
    return [dict(zip(names, row, strict=True)) for row in values]
