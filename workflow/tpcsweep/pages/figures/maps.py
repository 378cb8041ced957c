# SPDX-License-Identifier: Apache-2.0
"""Maps over two axes: throughput and limits, a coloured rectangle for each cell."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray
from seaborn.utils import relative_luminance  # type: ignore[import-untyped]

from tpcsweep.common.numbers import plain, short
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS
from tpcsweep.pages.figures import axis_labels
from tpcsweep.pages.figures.panels import (
    COLOURS,
    MARKS,
    Panels,
    cell_marks,
    colour_scale,
    finish,
    label_edges,
    lay_out,
    mark_handles,
    placeholder,
    styled,
)
from tpcsweep.pages.limit_colours import LIMIT_COLOURS, LIMIT_LETTERS
from tpcsweep.pages.panel_grid import (
    ANYWHERE,
    Arrangement,
    Places,
    arrange,
    arrange_axes,
    combine,
    evenly,
    places_of_map,
)
from tpcsweep.sweeps.sweep import REPETITION

HATCHED: dict[str, Any] = {"facecolor": "#eeeeee", "edgecolor": "#999999", "hatch": "///"}
"""Style of a cell without a value."""
_NAMES = tuple(LIMITS)
_MOST_NUMBERED = 16  # largest number of values of an axis for numbers in cells, and for all ticks
_VALUE, _INTERVAL, _MARK = 0.66, 0.37, 0.14  # heights in a cell, from its lower edge, without overlap
_FITTING = 11  # most characters of an interval that fit into a cell; longer ones are smaller
_DARK = 0.6  # share of the colour scale below which numbers are white
_DARK_LIMIT = 0.19  # luminance below which white letters have more contrast than black ones
_HATCHES: dict[str, dict[str, Any]] = {
    "empty": HATCHED,
    "warning": {"fill": False, "hatch": "///", "edgecolor": "#333333"},
    "invalid": {"fill": False, "hatch": "xxx", "edgecolor": "#333333"},
    "differ": {"fill": False, "hatch": "....", "edgecolor": "#333333"},
}
_HATCHED_MEANINGS = {
    "empty": "failed or not measured",
    "warning": "a warning",
    "invalid": "invalid",
    "differ": "repetitions differ: the most frequent",
}


@styled()
def heatmap(summary: xr.Dataset, places: Places = ANYWHERE) -> Figure:
    """Draw annotated heat maps of throughput over streams × RTT, one panel for each value of other axes."""
    grid = arrange(summary, places_of_map(summary, places))
    wide, high, readable = map_size(grid)
    figure, panels, notes = lay_out(grid, wide, high, margin=names_room(grid, wide))
    norm = colour_scale(grid.cells)
    for axes, where in panels:
        # seaborn would draw the whole figure for every panel.
        image = np.ma.masked_invalid(grid.plane("throughput", where))
        draw_map(axes, grid, image, readable, cmap=COLOURS, norm=norm)
        if readable:
            _number(axes, grid, where, norm)
        axes.set_facecolor("#dddddd")
        _mark(axes, grid, where)
    label_map(panels, grid, wide)
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02)
    bar.set_label(axis_labels.rate_label(summary))
    note = axis_labels.mean_note(summary)
    note += f" {axis_labels.band_note(summary, 'Small numbers')}" if readable else ""
    finish(figure, summary, "Throughput", [note, *notes], mark_handles(grid, "white"))
    return figure


@styled()
def limits(summary: xr.Dataset, places: Places = ANYWHERE) -> Figure:
    """Draw each cell's limit as colour and throughput as number, in the panels of the heat map."""
    if not (summary["limit"] != "").any():
        return placeholder(summary, "Limits", "No cell of this sweep has a limit.")
    grid = arrange_axes(_limits_of(summary), places_of_map(summary, places))
    wide, high, readable = map_size(grid)
    colours = ListedColormap([LIMIT_COLOURS[name] for name in _NAMES])
    look = {"cmap": colours, "vmin": -0.5, "vmax": len(_NAMES) - 0.5}
    figure, panels, notes = lay_out(grid, wide, high, margin=names_room(grid, wide))
    for axes, where in panels:
        draw_map(axes, grid, np.ma.masked_less(grid.plane("limit", where), 0), readable, **look)
        for name, style in _HATCHES.items():
            for row, column in np.argwhere(grid.plane(name, where)):
                fill_cell(axes, row, column, **style)
        if readable:
            _letter(axes, grid, where)
    label_map(panels, grid, wide)
    handles: list[Any] = [
        Patch(color=LIMIT_COLOURS[name], label=f"{LIMIT_LETTERS[name]}: {LIMIT_NAMES[name]}")
        for at, name in enumerate(_NAMES)
        if bool((grid.cells["limit"] == at).any())
    ]
    handles += [
        Patch(**{"facecolor": "white", **style, "fill": True}, label=_HATCHED_MEANINGS[name])
        for name, style in _HATCHES.items()
        if bool(grid.cells[name].any())
    ]
    numbers = " Numbers: mean goodput in Gbit/s." if readable else ""
    note = f"Colours: what bound the cell.{numbers} White: no limit was judged."
    finish(figure, summary, "Limits", [note, *notes], handles)
    return figure


def _letter(axes: Axes, grid: Arrangement, where: Mapping[str, Any]) -> None:
    """Write letters of the limit and throughput into each cell, on white where a hatch would cover them."""
    limits = grid.plane("limit", where).astype(int)
    hatched = np.any([grid.plane(name, where) for name in _HATCHES], axis=0)
    for (row, column), rate in np.ndenumerate(_rounded(grid.plane("throughput", where))):
        name = _NAMES[limits[row, column]] if limits[row, column] >= 0 else ""
        dark = (
            bool(name) and relative_luminance(LIMIT_COLOURS[name]) < _DARK_LIMIT and not hatched[row, column]
        )
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
        if hatched[row, column]:
            look["bbox"] = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1.2}
        text = f"{LIMIT_LETTERS.get(name, '')}\n{rate}".strip()
        axes.text(column + 0.5, row + 0.5, text, color="white" if dark else "#222222", **look)


def draw_map(axes: Axes, grid: Arrangement, image: NDArray[Any], readable: bool = True, **look: Any) -> None:
    """Draw one panel: a coloured cell for each value, and as many ticks as fit.

    `image` has rows of y and columns of x, masked if missing; `readable` cells have room for a number; `look` are
    arguments of `pcolormesh`.
    """
    colour, width = ("white", 0.6) if readable else ("face", 0)
    axes.pcolormesh(image, edgecolors=colour, linewidth=width, **look)
    for axis, name in ((axes.xaxis, grid.x), (axes.yaxis, grid.y)):
        axis.set_ticks(_places(grid, name) + 0.5, _names(grid, name))
        axis.set_tick_params(length=0)


def label_map(panels: Panels, grid: Arrangement, wide: float) -> None:
    """Write the axes' labels at the edges, and turn tick labels that would touch in panels of `wide` inches."""
    label_edges([axes for axes, _ in panels], axis_labels.axis_label(grid.x), axis_labels.axis_label(grid.y))
    for axes, _ in panels:
        axes.tick_params("x", labelrotation=90 if names_room(grid, wide)[1] else 0)


def _places(grid: Arrangement, name: str | None) -> NDArray[np.int64]:
    return evenly(grid.size(name), _MOST_NUMBERED)


def _names(grid: Arrangement, name: str | None) -> list[str]:
    return [str(label) for label in np.array(axis_labels.tick_labels(grid, name))[_places(grid, name)]]


def names_room(grid: Arrangement, wide: float) -> tuple[float, float]:
    """Return the inches that long tick labels need at the left and below maps of `wide` inches.

    There is room below if the labels must be turned.
    """
    names = _names(grid, grid.x)
    beside = max(map(axis_labels.text_width, _names(grid, grid.y))) - 0.4
    return max(0.0, beside), axis_labels.turned_height(names, wide / len(names))


def fill_cell(axes: Axes, row: int, column: int, **look: Any) -> None:
    axes.add_patch(Rectangle((column, row), 1, 1, linewidth=0, **look))


def map_size(grid: Arrangement) -> tuple[float, float, bool]:
    """Return width and height of a map in inches, and whether numbers fit into cells."""
    across, along = grid.size(grid.x), grid.size(grid.y)
    readable = across <= _MOST_NUMBERED and along <= _MOST_NUMBERED
    return (max(1.9, 0.62 * across), max(0.9, 0.5 * along + 0.2), True) if readable else (7.0, 4.2, False)


def _number(axes: Axes, grid: Arrangement, where: Mapping[str, Any], norm: Normalize) -> None:
    low, values, high = (grid.plane(name, where) for name in ("low", "throughput", "high"))
    # The interval of a noisy cell may extend below zero, a throughput cannot.
    low, middle = np.maximum(low, 0), _rounded(values).tolist()
    for row, column in np.ndindex(values.shape):
        colour = "white" if norm(values[row, column]) < _DARK else "#262626"
        look: dict[str, Any] = {"color": colour, "ha": "center", "va": "center"}
        axes.text(column + 0.5, row + _VALUE, middle[row][column], fontsize=8, **look)
        if low[row, column] < high[row, column]:
            # As many decimals as the mean has.
            digits = 2 - math.floor(math.log10(max(float(values[row, column]), 1e-9)))
            ends = "–".join(plain(round(float(end[row, column]), digits)) for end in (low, high))
            axes.text(
                column + 0.5, row + _INTERVAL, ends, fontsize=min(5.5, 5.5 * _FITTING / len(ends)), **look
            )


def _mark(axes: Axes, grid: Arrangement, where: Mapping[str, Any]) -> None:
    """Draw marks side by side in the lower part of each cell; hatch cells without a value."""
    empty = np.isnan(grid.plane("throughput", where))
    for row, column in np.argwhere(empty):
        fill_cell(axes, row, column, **HATCHED)
    names = cell_marks(grid.cells)
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
    rounded = np.vectorize(lambda value: "" if np.isnan(value) else short(value), otypes=[object])
    return np.asarray(rounded(values))


def _limits_of(summary: xr.Dataset) -> xr.Dataset:
    """Return the settings' limits (index in `LIMITS`, -1: none), mean throughput and hatches."""
    counts = xr.concat([(summary["limit"] == name).sum(REPETITION) for name in _NAMES], "name")
    marks = combine(summary)
    limits = marks["limit"].values
    places = np.select([limits == name for name in _NAMES], range(len(_NAMES)), -1)
    loud = {
        grade: marks[list(graded(FLAGS, grade))].to_dataarray().any("variable")
        for grade in ("warning", "invalid")
    }
    return xr.Dataset(
        {
            "limit": marks["limit"].copy(data=places),
            "throughput": marks["throughput"],
            "missing": marks["missing"],
            "empty": marks["throughput"].isnull(),
            "differ": (counts > 0).sum("name") > 1,
            **loud,
        }
    )
