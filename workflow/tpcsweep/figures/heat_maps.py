"""Throughput as heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tpcsweep.figures.grid import Grid, arrange, evenly
from tpcsweep.figures.labels import band_note, mean_note, rate_label, tick_labels, title_of, wrapped
from tpcsweep.figures.marks import MARKS, mark_handles, present
from tpcsweep.figures.panels import COLOURS, colour_scale, finish, label_axes, lay_out, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from numpy.typing import NDArray

_MOST_NUMBERED = 16
"""Values of an axis beyond which a map's cells have no numbers in them, and not all ticks."""
_VALUE, _INTERVAL, _MARK = 0.66, 0.37, 0.14
"""Heights in a cell, from its lower edge: nothing hides anything else."""
_DARK = 0.6
"""Share of the colour scale below which numbers are white."""
_CROWDED = (8.0, 5.0, False)
"""A panel of such a map."""


def heatmap(summary: xr.Dataset) -> Figure:
    """Draw throughput as annotated heat maps over streams × RTT, a panel for each value of the other axes."""
    grid = arrange(summary)
    wide, high, readable = map_size(grid)
    with styled():
        figure, panels, notes = lay_out(grid, wide, high)
        norm = colour_scale(grid.cells)
        for axes, where in panels:
            values = grid.plane("throughput", where)
            # Not by seaborn, which draws the whole figure for every panel.
            axes.pcolormesh(
                np.ma.masked_invalid(values),
                cmap=COLOURS,
                norm=norm,
                edgecolors="white" if readable else "face",
                linewidth=0.6 if readable else 0,
            )
            if readable:
                _number(axes, grid, where, norm)
            label_map(axes, grid)
            axes.set_facecolor("#dddddd")
            _mark_heatmap(axes, grid, where)
            axes.set_title(wrapped([title_of(where)], int(wide * 11)))
        bar = figure.colorbar(
            ScalarMappable(norm, COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02
        )
        bar.set_label(rate_label(summary))
        small = band_note(summary, "Small numbers") if readable else ""
        said = f"{mean_note(summary)} {small}".strip()
        finish(figure, summary, "Throughput", [said, *notes], mark_handles(grid, "white"))
    return figure


def map_size(grid: Grid) -> tuple[float, float, bool]:
    """Width and height of a map over x and y in inches, and whether its cells have room for a number."""
    across, along = grid.size(grid.x), grid.size(grid.y)
    if across > _MOST_NUMBERED or along > _MOST_NUMBERED:
        return _CROWDED
    return max(2.6, 0.62 * across + 0.9), max(1.3, 0.5 * along + 0.9), True


def label_map(axes: Axes, grid: Grid) -> None:
    """Name x and y of a map and their values, as many as there is room for."""
    for axis, name in ((axes.xaxis, grid.x), (axes.yaxis, grid.y)):
        places = evenly(grid.size(name), _MOST_NUMBERED)
        axis.set_ticks(places + 0.5, np.array(tick_labels(grid, name))[places])
    axes.tick_params(labelrotation=0, length=0)
    label_axes(axes, grid.x, grid.y)


def _number(axes: Axes, grid: Grid, where: Mapping[str, Any], norm: Normalize) -> None:
    """Write each cell's throughput into it, and below it, small, its interval where it has one."""
    low, values, high = (grid.plane(name, where) for name in ("low", "throughput", "high"))
    # No throughput is below zero, whatever the interval of a noisy cell says.
    lowest, middle, highest = (rounded(of).tolist() for of in (np.maximum(low, 0), values, high))
    for row, column in np.ndindex(values.shape):
        look: dict[str, Any] = {
            "color": "white" if norm(values[row, column]) < _DARK else "#262626",
            "ha": "center",
            "va": "center",
        }
        axes.text(column + 0.5, row + _VALUE, middle[row][column], fontsize=8, **look)
        ends = lowest[row][column], highest[row][column]
        if ends[0] != ends[1]:
            axes.text(column + 0.5, row + _INTERVAL, "–".join(ends), fontsize=5.5, **look)


def _mark_heatmap(axes: Axes, grid: Grid, where: Mapping[str, Any]) -> None:
    """Put marks into the lower edge of each cell, side by side; hatch cells without a value."""
    empty = np.isnan(grid.plane("throughput", where))
    for row, column in np.argwhere(empty):
        axes.add_patch(
            Rectangle((column, row), 1, 1, facecolor="#eeeeee", edgecolor="#999999", hatch="///", linewidth=0)
        )
    names = present(grid.cells)
    if not names:
        return
    marked = np.stack([grid.plane(name, where).astype(bool) for name in names])
    here, before = marked.sum(axis=0), np.cumsum(marked, axis=0)
    for at, name in enumerate(names):
        row, column = np.nonzero(marked[at])
        axes.scatter(
            column + before[at, row, column] / (here[row, column] + 1),
            row + np.where(empty[row, column], 0.5, _MARK),
            marker=MARKS[name].marker,
            s=18,
            color=MARKS[name].face("white"),
            edgecolor="black",
            linewidth=0.8,
            zorder=5,
        )


def rounded(values: NDArray[Any]) -> NDArray[np.object_]:
    """Give three significant digits, two of what is below 0.1, and nothing for a gap; without exponents."""
    texts = np.full(values.shape, "", dtype=object)
    for place, value in np.ndenumerate(values):
        if not np.isnan(value):
            digits = (2 if value >= 0.1 else 1) - math.floor(math.log10(value)) if value > 0 else 0
            texts[place] = f"{value:.{max(0, digits)}f}"
    return texts
