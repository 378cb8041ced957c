"""The marks of what a reader should know of a cell: failed, missing, warnings, invalid.

Flags that are notes have none: they are about the interval, which is drawn itself.
"""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr
from matplotlib.lines import Line2D

from tpcsweep.figures.grid import Grid
from tpcsweep.flags import FLAGS

INVALID = "#D55E00"
"""What marks are filled with of cells whose figure is not that of what was asked."""


class Mark(NamedTuple):
    """How a property of a cell is shown."""

    marker: str
    meaning: str
    invalid: bool = False

    def face(self, otherwise: str) -> str:
        """Give the colour that it is filled with."""
        return INVALID if self.invalid else otherwise


_MARKERS = {
    "not_steady": "^",
    "transfers_failed": "v",
    "files_missing": "<",
    "counters_disagree": "P",
    "monitoring_disagrees": ">",
    "machine_saturated": "*",
    "deployment_broken": "h",
    "path_slow": "D",
    "disturbed": "s",
}

MARKS = {
    "failed": Mark("X", "failed"),
    "missing": Mark("o", "not measured"),
    "predicted": Mark("p", "not measured: predicted"),
    **{
        flag: Mark(marker, f"{FLAGS[flag].grade}: {FLAGS[flag].words}", FLAGS[flag].grade == "invalid")
        for flag, marker in _MARKERS.items()
    },
}


def present(cells: xr.Dataset) -> list[str]:
    """Give the marks that occur, in the order of `MARKS`."""
    return [name for name in MARKS if bool(cells[name].any())]


def mark_handles(grid: Grid, face: str) -> list[Line2D]:
    """Give legend entries of the marks that occur; face: the colour of those that are not invalid."""
    return [
        Line2D(
            [],
            [],
            linestyle="",
            marker=MARKS[name].marker,
            markersize=5,
            markerfacecolor=MARKS[name].face(face),
            markeredgecolor="black",
            label=MARKS[name].meaning,
        )
        for name in present(grid.cells)
    ]
