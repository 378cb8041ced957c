# SPDX-License-Identifier: Apache-2.0
"""Throughput as lines with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tpcsweep.figures.grid import Arrangement, arrange, positions, spaced, thinned, values_of
from tpcsweep.figures.labels import axis_label, rate_label, throughput_note, tick_labels, title_of, wrapped
from tpcsweep.figures.panels import COLOURS, MARKS, finish, lay_out, mark_handles, present, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colour = tuple[float, float, float]

_MOST_LINES = 12
_MOST_TICKS = 6


@styled()
def lines(summary: xr.Dataset, chosen: tuple[str, str] | None = None) -> Figure:
    """Draw throughput over streams, one line for each RTT, with bands over all repetitions' intervals.

    `chosen` are other axes for x and for lines. They are swapped if the second has too many values for distinct lines.
    """
    grid = arrange(summary, chosen or ())
    if grid.size(grid.y) > _MOST_LINES and grid.size(grid.y) > grid.size(grid.x):
        grid = replace(grid, x=grid.y, y=grid.x)
    grid, thinning = thinned(grid, {grid.y: 2 * _MOST_LINES})
    figure, panels, notes = lay_out(grid, 3.4, 2.7)
    handles = draw_lines(panels, grid, summary)
    finish(figure, summary, "Throughput", [throughput_note(summary), *notes, *thinning], handles)
    return figure


def draw_lines(
    panels: Sequence[tuple[Axes, Mapping[str, Any]]], grid: Arrangement, summary: xr.Dataset
) -> list[Line2D]:
    """Draw throughput over x with intervals, one line for each value of y, and return legend entries.

    Args:
        panels: Panels with their values of the axes other than x and y.
        grid: Arrangement of `summary`.
        summary: Group of a dataset.
    """
    palette = colours(grid.size(grid.y))
    top = float(np.nan_to_num(np.fmax(grid.cells["high"], grid.cells["throughput"])).max())
    single = "bandwidth" in summary and not summary["bandwidth"].dims
    bandwidth = float(summary["bandwidth"]) if single else np.inf
    bounded = bandwidth <= 2 * top  # a line far above the others would make them unreadable
    for axes, where in panels:
        _lines(axes, grid, where, palette)
        if bounded:
            axes.axhline(bandwidth, color="#555555", linestyle=":", linewidth=1)
        axes.set_ylim(0, 1.08 * (max(top, bandwidth) if bounded else top) or 1)
        axes.set(xlabel=axis_label(grid.x), title=wrapped([title_of(where)], 36))
        spec = axes.get_subplotspec()
        if spec is None or spec.is_first_col():  # labels of other panels would touch their neighbours
            axes.set_ylabel(rate_label(summary))
        axes.grid(visible=True, alpha=0.3)
    handles = []
    if grid.y:
        handles = [
            Line2D([], [], color=c, linestyle="-" if at % 2 == 0 else "--", label=title_of({grid.y: value}))
            for at, (c, value) in enumerate(zip(palette, values_of(grid.cells, grid.y), strict=True))
        ]
    if bounded:
        handles.append(Line2D([], [], color="#555555", linestyle=":", label="bandwidth of the path"))
    return [*handles, *mark_handles(grid, "none")]


def colours(count: int) -> list[Colour]:
    """Return `count` colours, without the ends of the scale, which are faint on white."""
    return list(sns.color_palette(COLOURS, count))


def _lines(axes: Axes, grid: Arrangement, where: Mapping[str, Any], palette: Sequence[Colour]) -> None:
    x = positions(grid.cells, grid.x) if grid.x else np.zeros(1)
    low, middle, high = (grid.plane(n, where) for n in ("low", "throughput", "high"))
    names = values_of(grid.cells, grid.y) if grid.y else [None]
    for row, (value, colour) in enumerate(zip(names, palette, strict=True)):
        if grid.empty({**where, grid.y: value} if grid.y else where):
            continue
        style = "-" if row % 2 == 0 else "--"
        axes.fill_between(x, low[row], high[row], color=colour, alpha=0.22, linewidth=0)
        # A band has no width at a single point.
        axes.vlines(x, low[row], high[row], color=colour, linewidth=1)
        axes.plot(x, middle[row], style, color=colour, marker=".", markersize=6, linewidth=1.5)
        gap = np.isnan(middle[row])
        for name in present(grid.cells):
            chosen, mark = grid.plane(name, where)[row].astype(bool), MARKS[name]
            look: dict[str, Any] = {
                "marker": mark.marker,
                "facecolor": mark.face("none"),
                "edgecolor": colour,
            }
            look |= {"s": 34, "linewidth": 1, "zorder": 4}
            axes.scatter(x[chosen & ~gap], middle[row][chosen & ~gap], **look)
            # A mark without a value is near the floor, at a different height for each line.
            floor = np.full(x[chosen & gap].shape, 0.03 + 0.02 * (row % 9))
            axes.scatter(x[chosen & gap], floor, transform=axes.get_xaxis_transform(), clip_on=False, **look)
    ticks = spaced(x, _MOST_TICKS)
    axes.set_xticks(x[ticks], np.array(tick_labels(grid, grid.x))[ticks])
    margin = 0.05 * (np.ptp(x) or 1)
    axes.set_xlim(x[0] - margin, x[-1] + margin)
