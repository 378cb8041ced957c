"""What bound each cell, as a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tpcsweep.figures.grid import REPETITION, Grid, place
from tpcsweep.figures.heat_maps import label_map, map_size, rounded
from tpcsweep.figures.labels import title_of, words, wrapped
from tpcsweep.figures.panels import finish, lay_out, placeholder, styled
from tpcsweep.variables import LIMITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

COLOURS = {
    "bandwidth": "#4477AA",
    "window": "#66CCEE",
    "slow_start": "#AADDCC",
    "cpu_source": "#EE6677",
    "cpu_destination": "#FFAABB",
    "client": "#AA3377",
    "disk": "#997755",
    "server": "#BB5566",
    "path_queue": "#CCBB44",
    "loss": "#EEDD88",
    "machine": "#777777",
    "none_found": "#DDDDDD",
}
"""Of each limit: after P. Tol's schemes "bright" and "light" (2021), the network's cold, the servers' warm."""
_NAMES = tuple(LIMITS)
_DIFFER = "repetitions differ: the most frequent"


def limits(summary: xr.Dataset) -> Figure:
    """Draw what bound each cell as a colour, and its throughput as a number, in panels as those of the heat map."""
    if not (summary["limit"] != "").any():
        return placeholder(summary, "Limits", "No cell of this sweep says what bound it.")
    grid = place(_combined(summary))
    wide, high, readable = map_size(grid)
    with styled():
        figure, panels, notes = lay_out(grid, wide, high)
        for axes, where in panels:
            _panel(axes, grid, where, readable)
            label_map(axes, grid)
            axes.set_title(wrapped([title_of(where)], int(wide * 11)))
        present = [name for at, name in enumerate(_NAMES) if bool((grid.cells["limit"] == at).any())]
        handles: list[Any] = [Patch(color=COLOURS[name], label=words(name)) for name in present]
        if bool(grid.cells["differ"].any()):
            handles.append(Patch(facecolor="white", edgecolor="black", hatch="....", label=_DIFFER))
        numbers = " Numbers: mean goodput in Gbit/s." if readable else ""
        note = f"Colours: what bound the cell.{numbers} White: no limit was judged."
        finish(figure, summary, "Limits", [note, *notes], handles)
    return figure


def _combined(summary: xr.Dataset) -> xr.Dataset:
    """The most frequent limit of the repetitions, by its place in `LIMITS` (-1: none), and the mean throughput."""
    if REPETITION not in summary["limit"].dims:
        summary = summary.expand_dims(REPETITION)
    judged = summary["limit"] != ""
    counts = xr.concat([(summary["limit"] == name).sum(REPETITION) for name in _NAMES], "name")
    return xr.Dataset(
        {
            "limit": counts.argmax("name").where(judged.any(REPETITION), -1),
            "differ": (counts > 0).sum("name") > 1,
            "throughput": summary["throughput"].where(judged).mean(REPETITION),
        }
    )


def _panel(axes: Axes, grid: Grid, where: Mapping[str, Any], readable: bool) -> None:
    found: NDArray[np.int64] = grid.plane("limit", where)
    differ = grid.plane("differ", where)
    texts = rounded(grid.plane("throughput", where))
    axes.pcolormesh(
        np.ma.masked_less(found, 0),
        cmap=ListedColormap([COLOURS[name] for name in _NAMES]),
        vmin=-0.5,
        vmax=len(_NAMES) - 0.5,
        edgecolors="white" if readable else "face",
        linewidth=0.6 if readable else 0,
    )
    for row, column in np.argwhere(differ):
        axes.add_patch(
            Rectangle((column, row), 1, 1, fill=False, hatch="....", edgecolor="#333333", linewidth=0)
        )
    if readable:
        for (row, column), text in np.ndenumerate(texts):
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8)
