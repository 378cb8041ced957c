"""Throughput as heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import seaborn as sns  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tpcsweep.figures.grid import Grid, arrange
from tpcsweep.figures.labels import mean_note, rate_label, tick_labels, title_of, wrapped
from tpcsweep.figures.marks import MARKS, mark_handles, present
from tpcsweep.figures.panels import COLOURS, colour_scale, finish, label_axes, lay_out, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def heatmap(summary: xr.Dataset) -> Figure:
    """Draw throughput as annotated heat maps over streams × RTT, a panel for each value of the other axes."""
    grid = arrange(summary)
    wide = max(2.6, 0.62 * grid.size(grid.x) + 0.9)
    high = max(1.3, 0.5 * grid.size(grid.y) + 0.9)
    with styled():
        figure, panels, notes = lay_out(grid, wide, high)
        norm = colour_scale(grid.cells)
        for axes, where in panels:
            values = grid.plane("throughput", where)
            sns.heatmap(
                values,
                ax=axes,
                cmap=COLOURS,
                vmin=norm.vmin,
                vmax=norm.vmax,
                annot=rounded(values),
                fmt="",
                annot_kws={"size": 8},
                cbar=False,
                linewidths=0.6,
                linecolor="white",
                xticklabels=tick_labels(grid, grid.x),
                yticklabels=tick_labels(grid, grid.y),
            )
            axes.set_facecolor("#dddddd")
            axes.invert_yaxis()
            axes.tick_params(axis="y", labelrotation=0, length=0)
            axes.tick_params(axis="x", labelrotation=0, length=0)
            _mark_heatmap(axes, grid, where)
            label_axes(axes, grid.x, grid.y)
            axes.set_title(wrapped([title_of(where)], int(wide * 11)))
        bar = figure.colorbar(
            ScalarMappable(norm, COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02
        )
        bar.set_label(rate_label(summary))
        finish(figure, summary, "Throughput", [mean_note(summary), *notes], mark_handles(grid, "white"))
    return figure


def _mark_heatmap(axes: Axes, grid: Grid, where: Mapping[str, Any]) -> None:
    """Put marks into the lower edge of each cell, side by side; hatch cells without a value."""
    empty = np.isnan(grid.plane("throughput", where))
    for row, column in np.argwhere(empty):
        axes.add_patch(
            Rectangle((column, row), 1, 1, facecolor="#eeeeee", edgecolor="#999999", hatch="///", linewidth=0)
        )
    names = present(grid.cells)
    marked = np.stack([grid.plane(name, where).astype(bool) for name in names]) if names else None
    if marked is None:
        return
    for row, column in np.argwhere(marked.any(axis=0)):
        here = [name for at, name in enumerate(names) if marked[at, row, column]]
        height = 0.5 if empty[row, column] else 0.17
        for at, name in enumerate(here):
            axes.scatter(
                column + (at + 1) / (len(here) + 1),
                row + height,
                marker=MARKS[name].marker,
                s=26,
                color="white",
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
