# SPDX-License-Identifier: Apache-2.0
"""Figures of throughput over axes: lines, heat maps, maps of limits, and 3-D surfaces."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import seaborn as sns  # type: ignore[import-untyped]
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.common.numbers import short
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS
from tpcsweep.pages.figures import axis_labels
from tpcsweep.pages.figures.panel_grid import Arrangement, arrange, arrange_axes, evenly, thin_axes
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
from tpcsweep.sweeps.sweep import REPETITION

_LIMITS = {
    "bandwidth": ("#4477AA", "B"),
    "window": ("#66CCEE", "W"),
    "cpu_source": ("#EE6677", "SC"),
    "cpu_destination": ("#FFAABB", "DC"),
    "client": ("#AA3377", "C"),
    "disk": ("#997755", "D"),
    "server": ("#BB5566", "S"),
    "path_queue": ("#CCBB44", "Q"),
    "loss": ("#EEDD88", "L"),
    "between_files": ("#AADDCC", "BF"),
    "machine": ("#777777", "M"),
    "none_found": ("#DDDDDD", "–"),
    "not_visible": ("#EEEEEE", "?"),
}
"""Colour and letters of each limit. Colours are cold for the network and warm for servers; letters serve colour-blind
readers and grey print. Source: P. Tol's schemes "bright" and "light" (2021)."""
LIMIT_COLOURS = {limit: colour for limit, (colour, _) in _LIMITS.items()}
LIMIT_LETTERS = {limit: letters for limit, (_, letters) in _LIMITS.items()}
HATCHED: dict[str, Any] = {"facecolor": "#eeeeee", "edgecolor": "#999999", "hatch": "///"}
"""Style of a cell without a value."""
_DOT: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.6, "depthshade": False}  # of a surface
_NAMES = tuple(LIMITS)
_MOST_NUMBERED = 16  # largest number of values of an axis for numbers in cells, and for all ticks
_VALUE, _INTERVAL, _MARK = 0.66, 0.37, 0.14  # heights in a cell, from its lower edge, without overlap
_DARK = 0.6  # share of the colour scale below which numbers are white
_MOST_LINES = 24  # of a surface in each direction
_MOST_TICKS = 8
_MOST_LETTERS = 14  # of a tick label of a surface, which cannot be turned
_MOST_DOTS = 64  # more dots would cover the surface
_MOST_CURVES = 12  # that can be told apart; twice as many are drawn at most
_CURVE_TICKS = 6
_LINES_WIDE = 3.4  # inches of a panel with curves
_STYLES: tuple[Literal["-"], Literal["--"]] = ("-", "--")  # of curves in turn

Colour = tuple[float, float, float]


@styled()
def heatmap(summary: xr.Dataset) -> Figure:
    """Draw annotated heat maps of throughput over streams × RTT, one panel for each value of other axes."""
    grid = arrange(summary)
    wide, high, readable = _map_size(grid)
    figure, panels, notes = lay_out(grid, wide, high)
    norm = colour_scale(grid.cells)
    for axes, where in panels:
        # seaborn would draw the whole figure for every panel.
        image = np.ma.masked_invalid(grid.plane("throughput", where))
        draw_map(axes, grid, where, image, wide, readable, cmap=COLOURS, norm=norm)
        if readable:
            _number(axes, grid, where, norm)
        axes.set_facecolor("#dddddd")
        _mark(axes, grid, where)
    bar = figure.colorbar(ScalarMappable(norm, COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02)
    bar.set_label(axis_labels.rate_label(summary))
    note = axis_labels.mean_note(summary)
    note += f" {axis_labels.band_note(summary, 'Small numbers')}" if readable else ""
    finish(figure, summary, "Throughput", [note, *notes], mark_handles(grid, "white"))
    return figure


@styled()
def limits(summary: xr.Dataset) -> Figure:
    """Draw each cell's limit as colour and throughput as number, in the panels of the heat map."""
    if not (summary["limit"] != "").any():
        return placeholder(summary, "Limits", "No cell of this sweep has a limit.")
    grid = arrange_axes(_limits_of(summary))
    wide, high, readable = _map_size(grid)
    colours = ListedColormap([LIMIT_COLOURS[name] for name in _NAMES])
    look = {"cmap": colours, "vmin": -0.5, "vmax": len(_NAMES) - 0.5}
    figure, panels, notes = lay_out(grid, wide, high)
    for axes, where in panels:
        draw_map(axes, grid, where, np.ma.masked_less(grid.plane("limit", where), 0), wide, readable, **look)
        for row, column in np.argwhere(grid.plane("differ", where)):
            fill_cell(axes, row, column, fill=False, hatch="....", edgecolor="#333333")
        if readable:
            limits = grid.plane("limit", where).astype(int)
            for (row, column), rate in np.ndenumerate(_rounded(grid.plane("throughput", where))):
                letters = LIMIT_LETTERS[_NAMES[limits[row, column]]] if limits[row, column] >= 0 else ""
                text = f"{letters}\n{rate}"
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8)
    occurring = [name for at, name in enumerate(_NAMES) if bool((grid.cells["limit"] == at).any())]
    handles: list[Any] = [
        Patch(color=LIMIT_COLOURS[name], label=f"{LIMIT_LETTERS[name]}: {LIMIT_NAMES[name]}")
        for name in occurring
    ]
    if bool(grid.cells["differ"].any()):
        label = "repetitions differ: the most frequent"
        handles.append(Patch(facecolor="white", edgecolor="black", hatch="....", label=label))
    numbers = " Numbers: mean goodput in Gbit/s." if readable else ""
    note = f"Colours: what bound the cell.{numbers} White: no limit was judged."
    finish(figure, summary, "Limits", [note, *notes], handles)
    return figure


def draw_map(
    axes: Axes,
    grid: Arrangement,
    where: Mapping[str, Any],
    image: NDArray[Any],
    wide: float,
    readable: bool = True,
    **look: Any,
) -> None:
    """Draw one panel, `wide` inches: a coloured cell for each value, as many ticks as fit, and the title.

    `image` has rows of y and columns of x, masked if missing; `readable` cells have room for a number; `look` are
    arguments of `pcolormesh`.
    """
    colour, width = ("white", 0.6) if readable else ("face", 0)
    axes.pcolormesh(image, edgecolors=colour, linewidth=width, **look)
    turned = names_room(grid, wide - names_room(grid, wide)[0])[1] > 0
    for axis, name in ((axes.xaxis, grid.x), (axes.yaxis, grid.y)):
        axis.set_ticks(_places(grid, name) + 0.5, _names(grid, name))
        axis.set_tick_params(labelrotation=90 if turned and axis is axes.xaxis else 0, length=0)
    title = textwrap.fill(axis_labels.panel_title(where), int(wide * 11))
    axes.set(xlabel=axis_labels.axis_label(grid.x), ylabel=axis_labels.axis_label(grid.y), title=title)


def _places(grid: Arrangement, name: str | None) -> NDArray[np.int64]:
    return evenly(grid.size(name), _MOST_NUMBERED)


def _names(grid: Arrangement, name: str | None) -> list[str]:
    return [str(label) for label in np.array(axis_labels.tick_labels(grid, name))[_places(grid, name)]]


def names_room(grid: Arrangement, wide: float) -> tuple[float, float]:
    """Return the inches that long tick labels need beside and below a map, which is `wide` inches without them.

    There is room below if the labels must be turned.
    """
    names = _names(grid, grid.x)
    beside = max(map(axis_labels.text_width, _names(grid, grid.y))) - 0.4
    return max(0.0, beside), axis_labels.turned_height(names, (wide - 0.9) / len(names))


def fill_cell(axes: Axes, row: int, column: int, **look: Any) -> None:
    axes.add_patch(Rectangle((column, row), 1, 1, linewidth=0, **look))


def _map_size(grid: Arrangement) -> tuple[float, float, bool]:
    """Return width and height of a map in inches, with room for its tick labels, and whether numbers fit into cells."""
    across, along = grid.size(grid.x), grid.size(grid.y)
    readable = across <= _MOST_NUMBERED and along <= _MOST_NUMBERED
    wide = max(2.6, 0.62 * across + 0.9) if readable else 8.0
    high = max(1.3, 0.5 * along + 0.9) if readable else 5.0
    beside, below = names_room(grid, wide)
    return wide + beside, high + below, readable


def _number(axes: Axes, grid: Arrangement, where: Mapping[str, Any], norm: Normalize) -> None:
    low, values, high = (grid.plane(name, where) for name in ("low", "throughput", "high"))
    # The interval of a noisy cell may extend below zero, a throughput cannot.
    lowest, middle, highest = (_rounded(of).tolist() for of in (np.maximum(low, 0), values, high))
    for row, column in np.ndindex(values.shape):
        colour = "white" if norm(values[row, column]) < _DARK else "#262626"
        look: dict[str, Any] = {"color": colour, "ha": "center", "va": "center"}
        axes.text(column + 0.5, row + _VALUE, middle[row][column], fontsize=8, **look)
        ends = lowest[row][column], highest[row][column]
        if ends[0] != ends[1]:
            axes.text(column + 0.5, row + _INTERVAL, "–".join(ends), fontsize=5.5, **look)


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
    """Return the repetitions' most frequent limit (index in `LIMITS`, -1: none) and their mean throughput."""
    judged = summary["limit"] != ""
    counts = xr.concat([(summary["limit"] == name).sum(REPETITION) for name in _NAMES], "name")
    return xr.Dataset(
        {
            "limit": counts.argmax("name").where(judged.any(REPETITION), -1),
            "differ": (counts > 0).sum("name") > 1,
            "throughput": summary["throughput"].where(judged).mean(REPETITION),
        }
    )


@styled()
def surface(summary: xr.Dataset) -> Figure:
    """Draw throughput as 3-D surfaces over streams × RTT, or a note that there is no surface."""
    grid = arrange(summary)
    if grid.size(grid.x) < 2 or grid.size(grid.y) < 2:
        axes = f"one ({grid.x})" if grid.size(grid.x) > 1 else "none"
        why = "There is no surface to draw: it needs two axes with at least two values, and this sweep has"
        return placeholder(summary, "Throughput surface", f"{why} {axes}.")
    grid, thinning = thin_axes(grid, {grid.x: _MOST_LINES, grid.y: _MOST_LINES})
    figure, panels, notes = lay_out(grid, 3.7, 3.0, projection="3d")
    notes += thinning
    norm = colour_scale(grid.cells)
    for plain, where in panels:
        _surface(cast("Axes3D", plain), grid, where, norm, axis_labels.rate_label(summary))
    if grid.cells["throughput"].isnull().any():
        notes.insert(0, "Cells without a value are marked on the floor.")
    notes.insert(0, axis_labels.mean_note(summary))
    finish(figure, summary, "Throughput surface", notes, mark_handles(grid, "white"))
    return figure


def _surface(axes: Axes3D, grid: Arrangement, where: Mapping[str, Any], norm: Normalize, label: str) -> None:
    x_name, y_name = cast("str", grid.x), cast("str", grid.y)
    x, y = _positions(grid.cells, x_name), _positions(grid.cells, y_name)
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
        ticks = _spaced(at, _MOST_TICKS if max(map(len, names)) < _MOST_LETTERS // 2 else _MOST_TICKS // 2)
        set_ticks(at[ticks], names[ticks])
    axes.set_zlim(0, norm.vmax)
    axes.view_init(elev=24, azim=-128)
    axes.set_box_aspect((1, 1, 0.75), zoom=0.97)
    axes.tick_params(pad=0, labelsize=7.5)
    axes.set_xlabel(axis_labels.axis_label(x_name), labelpad=2)
    axes.set_ylabel(axis_labels.axis_label(y_name), labelpad=4)
    axes.set_zlabel(label, labelpad=2)
    axes.set_title(textwrap.fill(axis_labels.panel_title(where), 34), y=1.0)


def _positions(cells: xr.Dataset, name: str) -> NDArray[np.float64]:
    """Return positions of values on an axis: logarithmic or to scale; words and infinities evenly."""
    values = cells[name].values.tolist()
    if any(isinstance(value, str) or math.isinf(value) for value in values):
        return np.arange(len(values), dtype=float)
    numbers = np.array(values, dtype=float)
    if name == "streams" or (numbers.min() > 0 and numbers.max() >= 16 * numbers.min()):
        return np.asarray(np.log2(numbers))
    return numbers


def _spaced(at: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Choose positions of ticks, by index: all if few, otherwise with room for `most` labels."""
    if len(at) <= most:
        return np.arange(len(at))
    chosen: list[int] = []
    for place in np.argsort(at, kind="stable"):
        if not chosen or at[place] - at[chosen[-1]] >= np.ptp(at) / most:
            chosen.append(int(place))
    return np.array(chosen)


def _patches(values: NDArray[np.float64]) -> bool:
    """Return whether any four neighbours have values, because a surface without such a patch is invisible."""
    known = np.isfinite(values)
    return bool((known[1:, 1:] & known[:-1, 1:] & known[1:, :-1] & known[:-1, :-1]).any())


@styled()
def lines(summary: xr.Dataset, chosen: tuple[str, str] | None = None) -> Figure:
    """Draw throughput over streams, one line for each RTT, with bands over all repetitions' intervals.

    `chosen` are other axes for x and for lines. They are swapped if the second has too many values for distinct lines.
    """
    grid = arrange(summary, chosen or ())
    if grid.size(grid.y) > _MOST_CURVES and grid.size(grid.y) > grid.size(grid.x):
        grid = replace(grid, x=grid.y, y=grid.x)
    grid, thinning = thin_axes(grid, {grid.y: 2 * _MOST_CURVES})
    below = _names_along(grid, _LINES_WIDE)[2]
    figure, panels, notes = lay_out(grid, _LINES_WIDE, 2.7 + below)
    handles = draw_lines(panels, grid, summary)
    finish(figure, summary, "Throughput", [axis_labels.throughput_note(summary), *notes, *thinning], handles)
    return figure


def draw_lines(
    panels: Sequence[tuple[Axes, Mapping[str, Any]]], grid: Arrangement, summary: xr.Dataset
) -> list[Line2D]:
    """Draw throughput over x with intervals, one line for each value of y, and return legend entries.

    `panels` come with their values of the axes other than x and y; `grid` arranges `summary`.
    """
    palette = colours(grid.size(grid.y))
    top = float(np.nan_to_num(np.fmax(grid.cells["high"], grid.cells["throughput"])).max())
    single = "bandwidth" in summary and not summary["bandwidth"].dims
    bandwidth = float(summary["bandwidth"].fillna(np.inf)) if single else np.inf
    bounded = bandwidth <= 2 * top  # a line far above the others would make them unreadable
    for axes, where in panels:
        _lines(axes, grid, where, palette)
        if bounded:
            axes.axhline(bandwidth, color="#555555", linestyle=":", linewidth=1)
        axes.set_ylim(0, 1.08 * (max(top, bandwidth) if bounded else top) or 1)
        axes.set(
            xlabel=axis_labels.axis_label(grid.x), title=textwrap.fill(axis_labels.panel_title(where), 36)
        )
        spec = axes.get_subplotspec()
        if spec is None or spec.is_first_col():  # labels of other panels would touch their neighbours
            axes.set_ylabel(axis_labels.rate_label(summary))
        axes.grid(visible=True, alpha=0.3)
    handles = []
    for at, value in enumerate(grid.cells[grid.y].values.tolist() if grid.y else ()):
        label = axis_labels.panel_title({str(grid.y): value})
        handles.append(Line2D([], [], color=palette[at], linestyle=_STYLES[at % 2], label=label))
    if bounded:
        handles.append(Line2D([], [], color="#555555", linestyle=":", label="bandwidth of the path"))
    return [*handles, *mark_handles(grid, "none")]


def colours(count: int) -> list[Colour]:
    """Return `count` colours, without the ends of the scale, which are faint on white."""
    return list(sns.color_palette(COLOURS, count))


def _names_along(grid: Arrangement, wide: float) -> tuple[NDArray[np.float64], list[str], float]:
    """Return places and texts of the ticks of x, and the height in inches of turned texts, 0 if they fit."""
    x = _positions(grid.cells, grid.x) if grid.x else np.zeros(1)
    at = x[ticks := _spaced(x, _CURVE_TICKS)]
    names = [str(label) for label in np.array(axis_labels.tick_labels(grid, grid.x))[ticks]]
    nearest = float(np.diff(at).min() / np.ptp(x)) if len(at) > 1 else 1.0
    return at, names, axis_labels.turned_height(names, nearest * (wide - 0.9))


def _lines(axes: Axes, grid: Arrangement, where: Mapping[str, Any], palette: Sequence[Colour]) -> None:
    x = _positions(grid.cells, grid.x) if grid.x else np.zeros(1)
    low, middle, high = (grid.plane(n, where) for n in ("low", "throughput", "high"))
    names = grid.cells[grid.y].values.tolist() if grid.y else [None]
    for row, (value, colour) in enumerate(zip(names, palette, strict=True)):
        if grid.empty({**where, grid.y: value} if grid.y else where):
            continue
        axes.fill_between(x, low[row], high[row], color=colour, alpha=0.22, linewidth=0)
        # A band has no width at a single point.
        axes.vlines(x, low[row], high[row], color=colour, linewidth=1)
        axes.plot(x, middle[row], _STYLES[row % 2], color=colour, marker=".", markersize=6, linewidth=1.5)
        gap = np.isnan(middle[row])
        for name in cell_marks(grid.cells):
            chosen, mark = grid.plane(name, where)[row].astype(bool), MARKS[name]
            look: dict[str, Any] = {"marker": mark.marker, "s": 34, "linewidth": 1, "zorder": 4}
            look |= {"facecolor": mark.face("none"), "edgecolor": colour}
            axes.scatter(x[chosen & ~gap], middle[row][chosen & ~gap], **look)
            # A mark without a value is near the floor, at a different height for each line.
            floor = np.full(x[chosen & gap].shape, 0.03 + 0.02 * (row % 9))
            axes.scatter(x[chosen & gap], floor, transform=axes.get_xaxis_transform(), clip_on=False, **look)
    at, names, below = _names_along(grid, _LINES_WIDE)
    axes.set_xticks(at, names, rotation=90 if below else 0)
    margin = 0.05 * (np.ptp(x) or 1)
    axes.set_xlim(x[0] - margin, x[-1] + margin)
