# SPDX-License-Identifier: Apache-2.0
"""Figures of throughput as lines over one axis, each named at its end."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tpcsweep.pages.figures import axis_labels
from tpcsweep.pages.figures.axis_labels import positions, spaced
from tpcsweep.pages.figures.panels import (
    MARKS,
    Colour,
    Panels,
    cell_marks,
    colours,
    finish,
    label_edges,
    lay_out,
    mark_handles,
    point_handle,
    styled,
)
from tpcsweep.pages.panel_grid import (
    ANYWHERE,
    Arrangement,
    Places,
    arrange,
    evenly,
    grid_top,
    path_rate,
    thin_axes,
)
from tpcsweep.sweeps.parameters import name_text, value_text

_MOST_CURVES = 12  # that can be told apart; twice as many are drawn at most
_MOST_BARS = 32  # of a panel; more would hide the lines
_CURVE_TICKS = 6
_WIDE, _HIGH = 2.5, 2.1  # inches of a panel
_STYLES: tuple[Literal["-"], Literal["--"]] = ("-", "--")  # of curves in turn
_NAME = 0.125  # inches of a line of text at the lines' ends
LEADER = 0.22  # inches between a panel and the names of its lines
_ARROW = "$\\uparrow$"


@styled()
def lines(summary: xr.Dataset, places: Places = ANYWHERE) -> Figure:
    """Draw throughput over streams, one line for each RTT, with bars over all repetitions' intervals.

    The axes of x and of lines are swapped if the second has too many values for distinct lines.
    """
    grid = arrange(summary, places)
    if grid.size(grid.y) > _MOST_CURVES and grid.size(grid.y) > grid.size(grid.x):
        grid = replace(grid, x=grid.y, y=grid.x)
    grid, thinning = thin_axes(grid, {grid.y: 2 * _MOST_CURVES})
    below = _names_along(grid)[2]
    figure, panels, notes = lay_out(
        grid, _WIDE, _HIGH, beside=names_width(grid.y, grid.lines()), margin=(0, below)
    )
    handles = draw_lines(panels, grid, summary)
    finish(figure, summary, "Throughput", [axis_labels.throughput_note(summary), *notes, *thinning], handles)
    return figure


def draw_lines(
    panels: Panels,
    grid: Arrangement,
    summary: xr.Dataset,
    bottom: float = 0.0,
    mark: Callable[[Any], str] = lambda _: "",
) -> list[Line2D]:
    """Draw throughput over x with intervals, one line for each value of y, and return legend entries.

    `grid` arranges `summary`. The axis of throughput begins at `bottom` (Gbit/s), logarithmic unless this is 0. It ends
    at 1.1 times the path's rate; an arrow marks longer bars. `mark` returns what follows the name of a line.
    """
    names = [
        name + mark(value) for name, value in zip(line_names(grid.y, grid.lines()), grid.lines(), strict=True)
    ]
    palette, top = colours(grid.size(grid.y)), grid_top(summary, grid.cells)
    for axes, where in panels:
        ends = _lines(axes, grid, where, list(zip(names, palette, strict=True)), (bottom, top))
        if (rate := path_rate(summary, where)) <= top:
            axes.axhline(rate, color="#555555", linestyle=":", linewidth=1)
            axes.text(0.01, rate, "path", transform=axes.get_yaxis_transform(), fontsize=7, va="bottom")
        axes.set(yscale="log" if bottom else "linear", ylim=(bottom, top))
        axes.grid(visible=True, alpha=0.3)
        name_lines(axes, ends, name_text(grid.y) if grid.y else "")
    label_edges([axes for axes, _ in panels], axis_labels.axis_label(grid.x), axis_labels.rate_label(summary))
    handles = mark_handles(grid, "none")
    if (every := _bars_apart(grid)) > 1:
        handles.append(point_handle(f"intervals: at one in {every} points", "#333333", "|", markersize=8))
    if bool((grid.cells["high"] > top).any()):
        handles.append(point_handle("interval beyond the axis", "#333333", _ARROW, markersize=7))
    return handles


def _bars_apart(grid: Arrangement) -> int:
    """Return the points of a line from one bar to the next."""
    return math.ceil(grid.size(grid.x) * grid.size(grid.y) / _MOST_BARS)


class End(NamedTuple):
    """End of a line: position, name and style."""

    x: float
    y: float
    name: str
    look: dict[str, Any]


def line_names(axis: str | None, values: Sequence[Any]) -> list[str]:
    """Return the names of lines, one for each value of an axis; "" without an axis."""
    return [axis_labels.escape_math(value_text(axis, value)) if axis else "" for value in values]


def names_width(axis: str | None, values: Sequence[Any]) -> float:
    """Return the inches that the names of lines need at the right of a panel."""
    if axis is None:
        return 0.0
    names = [name_text(axis), *line_names(axis, values)]
    return LEADER + max(axis_labels.text_width(name, 7.5) for name in names) + 0.05


def _lines(
    axes: Axes,
    grid: Arrangement,
    where: Mapping[str, Any],
    looks: Sequence[tuple[str, Colour]],
    ends_of_axis: tuple[float, float],
) -> list[End]:
    """Draw a panel's lines with bars and marks, each next to the last, and return their ends."""
    bottom, top = ends_of_axis
    x = positions(grid.cells, grid.x) if grid.x else np.zeros(1)
    wide = float(np.ptp(x)) or 1.0
    step = min(0.25 * float(np.diff(np.sort(x)).min()), 0.03 * wide) if len(x) > 1 else 0.03
    low, middle, high = (grid.plane(name, where) for name in ("low", "throughput", "high"))
    every = _bars_apart(grid)
    ends = []
    for row, (value, (name, colour)) in enumerate(zip(grid.lines(), looks, strict=True)):
        if grid.empty({**where, grid.y: value} if grid.y else where):
            continue
        at = x + step * ((row + 0.5) / len(looks) - 0.5)
        look: dict[str, Any] = {"color": colour, "linestyle": _STYLES[row % 2], "linewidth": 1.3}
        axes.plot(at, middle[row], marker=".", markersize=5, **look)
        barred = np.arange(len(at)) % every == row % every
        axes.vlines(
            at[barred], np.maximum(low[row], bottom)[barred], high[row][barred], color=colour, linewidth=1
        )
        beyond = at[barred & (high[row] > top)]
        axes.scatter(
            beyond,
            np.full(beyond.shape, 1.0),
            marker=_ARROW,
            s=70,
            linewidth=0,
            color=colour,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
        _mark(axes, grid, where, row, at, colour)
        if (known := np.flatnonzero(np.isfinite(middle[row]))).size:
            last = known[-1]
            ends.append(End(at[last], middle[row][last], name, look))
    at, texts, below = _names_along(grid)
    axes.set_xticks(at, texts, rotation=90 if below else 0)
    axes.set_xlim(x[0] - 0.05 * wide, x[-1] + 0.05 * wide)
    return ends


def _mark(
    axes: Axes, grid: Arrangement, where: Mapping[str, Any], row: int, at: NDArray[np.float64], colour: Colour
) -> None:
    """Draw the marks of a line's cells; those without a value near the floor, at a height for each line."""
    middle = grid.plane("throughput", where)[row]
    gap = np.isnan(middle)
    for name in cell_marks(grid.cells):
        chosen, mark = grid.plane(name, where)[row].astype(bool), MARKS[name]
        look: dict[str, Any] = {"marker": mark.marker, "s": 30, "linewidth": 1, "zorder": 4}
        look |= {"facecolor": mark.face("none"), "edgecolor": colour}
        axes.scatter(at[chosen & ~gap], middle[chosen & ~gap], **look)
        floor = np.full(at[chosen & gap].shape, 0.03 + 0.02 * (row % 9))
        axes.scatter(at[chosen & gap], floor, transform=axes.get_xaxis_transform(), clip_on=False, **look)


def name_lines(axes: Axes, ends: Sequence[End], heading: str) -> None:
    """Write each line's name at its end, one above the other where lines end close together.

    The limits of the axes must be set. Panels of the first row have the heading, the name of the lines' axis.
    """
    if not heading or not ends:
        return
    kept = sorted((ends[at] for at in evenly(len(ends), _MOST_CURVES)), key=lambda end: end.y)
    drawn = axes.transData.transform([(end.x, end.y) for end in kept])
    heights = _spread(axes.transAxes.inverted().transform(drawn)[:, 1], _NAME / _HIGH)
    for end, height in zip(kept, heights, strict=True):
        axes.annotate(
            end.name,
            (end.x, end.y),
            (1 + LEADER / _WIDE, height),
            textcoords="axes fraction",
            va="center",
            fontsize=7.5,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),
                "shrinkA": 0,
                "shrinkB": 3,
                **end.look,
                "linewidth": 0.8,
            },
            annotation_clip=False,
        )
    if axes.get_subplotspec().is_first_row():  # type: ignore[union-attr]  # panels have a place in a grid
        above = max(1.0, heights[-1] + 0.6 * _NAME / _HIGH)
        look: dict[str, Any] = {"va": "bottom", "fontsize": 7.5, "color": "#555555"}
        axes.text(1 + LEADER / _WIDE, above, heading, transform=axes.transAxes, **look)


def _spread(heights: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Return ascending heights in a panel (0 to 1) moved as little as needed to be `least` apart."""
    places = least * np.arange(len(heights))
    # Heights less their places in an evenly spaced column must not descend: pool any that do.
    pools: list[list[float]] = []
    for free in heights - places:
        pools.append([free])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    pooled = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    return np.asarray(np.clip(pooled, 0, 1 - places[-1]) + places)


def _names_along(grid: Arrangement) -> tuple[NDArray[np.float64], list[str], float]:
    """Return places and texts of the ticks of x, and the height in inches of turned texts, 0 if they fit."""
    x = positions(grid.cells, grid.x) if grid.x else np.zeros(1)
    at = x[ticks := spaced(x, _CURVE_TICKS)]
    names = [str(label) for label in np.array(axis_labels.tick_labels(grid, grid.x))[ticks]]
    nearest = float(np.diff(at).min() / np.ptp(x)) if len(at) > 1 else 1.0
    return at, names, axis_labels.turned_height(names, nearest * _WIDE / 1.1)
