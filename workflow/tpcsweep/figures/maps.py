# SPDX-License-Identifier: Apache-2.0
"""Maps of the grid: throughput in colours and numbers, and what bound each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.figures.grid import Grid, arrange, evenly, place
from tpcsweep.figures.labels import (
    axis_label,
    band_note,
    mean_note,
    rate_label,
    tick_labels,
    title_of,
    wrapped,
)
from tpcsweep.figures.panels import (
    COLOURS,
    MARKS,
    colour_scale,
    finish,
    lay_out,
    mark_handles,
    placeholder,
    present,
    styled,
)
from tpcsweep.variables import LIMIT_NAMES, LIMITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from numpy.typing import NDArray

LIMIT_COLOURS = {
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
HATCHED: dict[str, Any] = {"facecolor": "#eeeeee", "edgecolor": "#999999", "hatch": "///"}
"""The look of a cell without a value."""
_NAMES = tuple(LIMITS)
_MOST_NUMBERED = 16
"""Values of an axis beyond which a map's cells have no numbers in them, and not all ticks."""
_VALUE, _INTERVAL, _MARK = 0.66, 0.37, 0.14
"""Heights in a cell, from its lower edge: nothing hides anything else."""
_DARK = 0.6  # share of the colour scale below which numbers are white


@styled()
def heatmap(summary: xr.Dataset) -> Figure:
    """Draw throughput as annotated heat maps over streams × RTT, a panel for each value of the other axes."""
    grid = arrange(summary)
    wide, high, readable = _map_size(grid)
    figure, panels, notes = lay_out(grid, wide, high)
    norm = colour_scale(grid.cells)
    for axes, where in panels:
        # Not by seaborn, which draws the whole figure for every panel.
        image = np.ma.masked_invalid(grid.plane("throughput", where))
        draw_map(axes, grid, where, image, wide, readable, cmap=COLOURS, norm=norm)
        if readable:
            _number(axes, grid, where, norm)
        axes.set_facecolor("#dddddd")
        _mark(axes, grid, where)
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02)
    bar.set_label(rate_label(summary))
    small = band_note(summary, "Small numbers") if readable else ""
    note = f"{mean_note(summary)} {small}".strip()
    finish(figure, summary, "Throughput", [note, *notes], mark_handles(grid, "white"))
    return figure


@styled()
def limits(summary: xr.Dataset) -> Figure:
    """Draw what bound each cell as a colour, and its throughput as a number, in panels as those of the heat map."""
    if not (summary["limit"] != "").any():
        return placeholder(summary, "Limits", "No cell of this sweep says what bound it.")
    grid = place(_limits_of(summary))
    wide, high, readable = _map_size(grid)
    look = {
        "cmap": ListedColormap([LIMIT_COLOURS[name] for name in _NAMES]),
        "vmin": -0.5,
        "vmax": len(_NAMES) - 0.5,
    }
    figure, panels, notes = lay_out(grid, wide, high)
    for axes, where in panels:
        draw_map(axes, grid, where, np.ma.masked_less(grid.plane("limit", where), 0), wide, readable, **look)
        for row, column in np.argwhere(grid.plane("differ", where)):
            fill_cell(axes, row, column, fill=False, hatch="....", edgecolor="#333333")
        if readable:
            for (row, column), text in np.ndenumerate(_rounded(grid.plane("throughput", where))):
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8)
    occurring = [name for at, name in enumerate(_NAMES) if bool((grid.cells["limit"] == at).any())]
    handles: list[Any] = [Patch(color=LIMIT_COLOURS[name], label=LIMIT_NAMES[name]) for name in occurring]
    if bool(grid.cells["differ"].any()):
        label = "repetitions differ: the most frequent"
        handles.append(Patch(facecolor="white", edgecolor="black", hatch="....", label=label))
    numbers = " Numbers: mean goodput in Gbit/s." if readable else ""
    note = f"Colours: what bound the cell.{numbers} White: no limit was judged."
    finish(figure, summary, "Limits", [note, *notes], handles)
    return figure


def draw_map(
    axes: Axes,
    grid: Grid,
    where: Mapping[str, Any],
    image: NDArray[Any],
    wide: float,
    readable: bool = True,
    **look: Any,
) -> None:
    """Draw a panel: a coloured cell for each value, x and y with as many ticks as there is room for, and the title.

    Args:
        axes: the panel.
        grid: whose x and y it is over.
        where: values of the other axes.
        image: what is coloured, in rows of y and columns of x; masked where there is nothing.
        wide: the panel's width, inches.
        readable: whether its cells have room for a number.
        look: which colours, as `pcolormesh` takes them.
    """
    colour, width = ("white", 0.6) if readable else ("face", 0)
    axes.pcolormesh(image, edgecolors=colour, linewidth=width, **look)
    for axis, name in ((axes.xaxis, grid.x), (axes.yaxis, grid.y)):
        places = evenly(grid.size(name), _MOST_NUMBERED)
        axis.set_ticks(places + 0.5, np.array(tick_labels(grid, name))[places])
    axes.tick_params(labelrotation=0, length=0)
    title = wrapped([title_of(where)], int(wide * 11))
    axes.set(xlabel=axis_label(grid.x), ylabel=axis_label(grid.y), title=title)


def fill_cell(axes: Axes, row: int, column: int, **look: Any) -> None:
    """Lay a pattern over a cell of a map."""
    axes.add_patch(Rectangle((column, row), 1, 1, linewidth=0, **look))


def _map_size(grid: Grid) -> tuple[float, float, bool]:
    """Width and height of a map over x and y in inches, and whether its cells have room for a number."""
    across, along = grid.size(grid.x), grid.size(grid.y)
    if across > _MOST_NUMBERED or along > _MOST_NUMBERED:
        return 8.0, 5.0, False
    return max(2.6, 0.62 * across + 0.9), max(1.3, 0.5 * along + 0.9), True


def _number(axes: Axes, grid: Grid, where: Mapping[str, Any], norm: Normalize) -> None:
    """Write each cell's throughput into it, and below it, small, its interval where it has one."""
    low, values, high = (grid.plane(name, where) for name in ("low", "throughput", "high"))
    # No throughput is below zero, whatever the interval of a noisy cell says.
    lowest, middle, highest = (_rounded(of).tolist() for of in (np.maximum(low, 0), values, high))
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


def _mark(axes: Axes, grid: Grid, where: Mapping[str, Any]) -> None:
    """Put marks into the lower edge of each cell, side by side; hatch cells without a value."""
    empty = np.isnan(grid.plane("throughput", where))
    for row, column in np.argwhere(empty):
        fill_cell(axes, row, column, **HATCHED)
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


def _rounded(values: NDArray[Any]) -> NDArray[np.object_]:
    """Three significant digits, two of what is below 0.1, and nothing for a gap; without exponents."""
    texts = np.full(values.shape, "", dtype=object)
    for index, value in np.ndenumerate(values):
        if not np.isnan(value):
            digits = (2 if value >= 0.1 else 1) - math.floor(math.log10(value)) if value > 0 else 0
            texts[index] = f"{value:.{max(0, digits)}f}"
    return texts


def _limits_of(summary: xr.Dataset) -> xr.Dataset:
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
