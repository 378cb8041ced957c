"""The marks of what a reader should know of a cell: failed, missing, flags."""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr
from matplotlib.lines import Line2D

from tpcsweep.figures.grid import Grid


class Mark(NamedTuple):
    """How a property of a cell is shown."""

    marker: str
    meaning: str


MARKS = {
    "failed": Mark("X", "failed"),
    "missing": Mark("o", "not measured"),
    "predicted": Mark("p", "not measured: predicted"),
    "not_steady": Mark("^", "not steady"),
    "wide_interval": Mark("s", "interval wider than asked"),
    "autocorrelated": Mark("D", "autocorrelated: interval too narrow"),
    "transfers_failed": Mark("v", "some transfers failed"),
    "files_missing": Mark("<", "not all files transferred"),
    "counters_disagree": Mark("P", "counters disagree"),
    "monitoring_disagrees": Mark(">", "XRootD's monitoring disagrees"),
    "machine_saturated": Mark("*", "machine saturated"),
    "deployment_broken": Mark("h", "deployment broke"),
    "path_slow": Mark("d", "path slower than asked"),
}


def present(cells: xr.Dataset) -> list[str]:
    """Give the marks that occur, in the order of `MARKS`."""
    return [name for name in MARKS if bool(cells[name].any())]


def mark_handles(grid: Grid, face: str) -> list[Line2D]:
    """Give legend entries of the marks that occur."""
    return [
        Line2D(
            [],
            [],
            linestyle="",
            marker=MARKS[name].marker,
            markersize=6,
            markerfacecolor=face,
            markeredgecolor="black",
            label=MARKS[name].meaning,
        )
        for name in present(grid.cells)
    ]
