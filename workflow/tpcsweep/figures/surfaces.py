# SPDX-License-Identifier: Apache-2.0
"""Throughput as surfaces in 3-D."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tpcsweep.figures.grid import Grid, arrange, positions, spaced, thinned
from tpcsweep.figures.labels import axis_label, mean_note, rate_label, tick_labels, title_of, wrapped
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

if TYPE_CHECKING:
    from matplotlib.colors import Normalize
    from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
    from numpy.typing import NDArray

_MOST_LINES = 24  # of a surface in each direction
_MOST_TICKS = 8
_MOST_DOTS = 64  # of points that have one: more of them cover the surface


@styled()
def surface(summary: xr.Dataset) -> Figure:
    """Draw throughput as 3-D surfaces over streams × RTT, or say in the figure that there is no surface."""
    grid = arrange(summary)
    if grid.size(grid.x) < 2 or grid.size(grid.y) < 2:
        return placeholder(
            summary,
            "Throughput surface",
            "There is no surface to draw: it takes two axes with two values or more, and this sweep has "
            + (f"one ({grid.x})." if grid.size(grid.x) > 1 else "none."),
        )
    grid, thinning = thinned(grid, {grid.x: _MOST_LINES, grid.y: _MOST_LINES})
    figure, panels, notes = lay_out(grid, 3.7, 3.0, projection="3d")
    notes += thinning
    norm = colour_scale(grid.cells)
    for plain, where in panels:
        panel(cast("Axes3D", plain), grid, where, norm, rate_label(summary))
    if grid.cells["throughput"].isnull().any():
        notes.insert(0, "What has no value is marked on the floor.")
    notes.insert(0, mean_note(summary))
    finish(figure, summary, "Throughput surface", notes, mark_handles(grid, "white"))
    return figure


def panel(axes: Axes3D, grid: Grid, where: Mapping[str, Any], norm: Normalize, label: str) -> None:
    """Draw one surface with its marks; x and y of the grid are axes of two values or more, and z has the label."""
    x_name, y_name = cast("str", grid.x), cast("str", grid.y)
    x, y = positions(grid.cells, x_name), positions(grid.cells, y_name)
    across, along = np.meshgrid(x, y)
    axes.computed_zorder = False  # a mark must not hide behind the surface
    values = grid.plane("throughput", where)
    crowded = values.size > _MOST_DOTS
    axes.plot_surface(
        across,
        along,
        values,
        cmap=COLOURS,
        norm=norm,
        rstride=1,
        cstride=1,
        edgecolor="#333333",
        linewidth=0.15 if crowded else 0.4,
        alpha=0.9,
    )
    if not crowded:
        known = np.isfinite(values)
        axes.scatter(
            across[known],
            along[known],
            values[known],
            s=14 if _patches(values) else 60,
            color=_colours(values, norm)[known],
            edgecolor="black",
            linewidth=0.6,
            depthshade=False,
            zorder=3,
        )
    _mark(axes, grid, where, (across, along, values), norm)
    for at, name, set_ticks in ((x, x_name, axes.set_xticks), (y, y_name, axes.set_yticks)):
        ticks = spaced(at, _MOST_TICKS)
        set_ticks(at[ticks], np.array(tick_labels(grid, name))[ticks])
    axes.set_zlim(0, norm.vmax)
    axes.view_init(elev=24, azim=-128)
    axes.set_box_aspect((1, 1, 0.75), zoom=0.97)
    axes.tick_params(pad=0, labelsize=7.5)
    axes.set_xlabel(axis_label(x_name), labelpad=2)
    axes.set_ylabel(axis_label(y_name), labelpad=4)
    axes.set_zlabel(label, labelpad=2)
    axes.set_title(wrapped([title_of(where)], 40), y=1.0)


def _mark(
    axes: Axes3D,
    grid: Grid,
    where: Mapping[str, Any],
    points: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    norm: Normalize,
) -> None:
    """Put marks on points, on the floor where there is no value; several on one point get smaller upwards.

    They have the colours of the values that they hide.
    """
    x, y, z = points
    before = np.zeros(z.shape, int)
    colours = _colours(z, norm)
    for name in present(grid.cells):
        chosen = grid.plane(name, where).astype(bool)
        axes.scatter(
            x[chosen],
            y[chosen],
            np.nan_to_num(z[chosen]),
            marker=MARKS[name].marker,
            s=60.0 / 2.2 ** before[chosen],
            color=[MARKS[name].face(colour) for colour in map(to_hex, colours[chosen])],
            edgecolor="black",
            linewidth=0.6,
            depthshade=False,
            zorder=4,
        )
        before += chosen


def _patches(values: NDArray[np.float64]) -> bool:
    """Whether four neighbours somewhere have values, as a patch of a surface takes; else points are all there is."""
    known = np.isfinite(values)
    return bool((known[1:, 1:] & known[:-1, 1:] & known[1:, :-1] & known[:-1, :-1]).any())


def _colours(values: NDArray[np.float64], norm: Normalize) -> NDArray[np.float64]:
    """The colours of values, in RGBA along a last axis; white where there is none."""
    return np.where(np.isnan(values)[..., None], 1.0, colormaps[COLOURS](norm(np.nan_to_num(values))))
