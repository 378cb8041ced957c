# SPDX-License-Identifier: Apache-2.0
"""Figures of throughput as 3-D surfaces over two axes."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.pages.figures import axis_labels
from tpcsweep.pages.figures.axis_labels import positions, spaced
from tpcsweep.pages.figures.panels import (
    COLOURS,
    MARKS,
    cell_marks,
    colour_scale,
    finish,
    lay_out,
    mark_handles,
    placeholder,
    styled,
)
from tpcsweep.pages.panel_grid import ANYWHERE, Arrangement, Places, arrange, grid_top, thin_axes

_FEWEST = 3  # values of each axis: fewer make a single folded face
_DOT: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6, "depthshade": False}
_MOST_LINES = 24  # in each direction
_MOST_TICKS = 8
_MOST_LETTERS = 14  # of a tick label, which cannot be turned
_MOST_DOTS = 64  # more dots would cover the surface


@styled()
def surface(summary: xr.Dataset, places: Places = ANYWHERE) -> Figure:
    """Draw throughput as 3-D surfaces over streams × RTT, or a note that there is no surface."""
    grid = arrange(summary, places)
    if min(grid.size(grid.x), grid.size(grid.y)) < _FEWEST:
        axes = [f"{grid.size(name)} of {name}" for name in (grid.x, grid.y) if name is not None]
        why = f"There is no surface to draw: it needs two axes with at least {_FEWEST} values, and this sweep has"
        return placeholder(summary, "Throughput surface", f"{why} {' and '.join(axes) or 'none'}.")
    grid, thinning = thin_axes(grid, {grid.x: _MOST_LINES, grid.y: _MOST_LINES})
    figure, panels, notes = lay_out(grid, 3.5, 2.7, projection="3d")
    notes += thinning
    norm, top = colour_scale(grid.cells), grid_top(summary, grid.cells)
    for plain, where in panels:
        _surface(cast("Axes3D", plain), grid, where, norm, top)
        plain.set_zlabel(axis_labels.rate_label(summary), labelpad=2)  # type: ignore[attr-defined]
    if grid.cells["throughput"].isnull().any():
        notes.insert(0, "Cells without a value are marked on the floor.")
    notes.insert(0, axis_labels.mean_note(summary))
    finish(figure, summary, "Throughput surface", notes, mark_handles(grid, "white"))
    return figure


def _surface(axes: Axes3D, grid: Arrangement, where: Mapping[str, Any], norm: Normalize, top: float) -> None:
    x_name, y_name = cast("str", grid.x), cast("str", grid.y)
    x, y = positions(grid.cells, x_name), positions(grid.cells, y_name)
    across, along = np.meshgrid(x, y)
    axes.computed_zorder = False  # a mark must not be hidden by the surface
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
    colours = np.where(np.isnan(values)[..., None], 1.0, colormaps[COLOURS](norm(np.nan_to_num(values))))
    if not crowded:
        known, size = np.isfinite(values), 14 if _patches(values) else 60
        points = across[known], along[known], values[known]
        drops = np.stack(
            [np.stack([*points[:2], level], axis=1) for level in (0 * points[2], points[2])], axis=1
        )
        axes.add_collection3d(Line3DCollection(drops, colors="#999999", linewidths=0.6, zorder=0))
        axes.scatter(*points, s=size, color=colours[known], zorder=3, **_DOT)
    before = np.zeros(values.shape, int)
    # On points in their colours, or on the floor; each further mark of a point is smaller.
    for name in cell_marks(grid.cells):
        chosen = grid.plane(name, where).astype(bool)
        look = {"marker": MARKS[name].marker, "s": 60.0 / 2.2 ** before[chosen], "zorder": 4, **_DOT}
        look["color"] = [MARKS[name].face(colour) for colour in map(to_hex, colours[chosen])]
        axes.scatter(across[chosen], along[chosen], np.nan_to_num(values[chosen]), **look)
        before += chosen
    for at, name, set_ticks in ((x, x_name, axes.set_xticks), (y, y_name, axes.set_yticks)):
        names = np.array(axis_labels.tick_labels(grid, name, _MOST_LETTERS))
        ticks = spaced(at, _MOST_TICKS if max(map(len, names)) < _MOST_LETTERS // 2 else _MOST_TICKS // 2)
        set_ticks(at[ticks], names[ticks])
    axes.set_zlim(0, top)
    axes.view_init(elev=24, azim=-128)
    axes.set_box_aspect((1, 1, 0.75), zoom=1.0)
    axes.tick_params(pad=0, labelsize=7.5)
    axes.set_xlabel(axis_labels.axis_label(x_name), labelpad=2)
    axes.set_ylabel(axis_labels.axis_label(y_name), labelpad=4)


def _patches(values: NDArray[np.float64]) -> bool:
    """Return whether any four neighbours have values, because a surface without such a patch is invisible."""
    known = np.isfinite(values)
    return bool((known[1:, 1:] & known[:-1, 1:] & known[1:, :-1] & known[:-1, :-1]).any())
