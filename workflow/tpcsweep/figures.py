"""Figures of a dataset: the throughput surface three ways, its time series, and what CPU it took.

Every figure shows all cells: an axis that has no place in a panel gets panels of its own, repetitions are
averaged with their spread shown, and what a reader should know of a cell (failed, missing, flags) is marked.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import matplotlib as mpl
import numpy as np
import seaborn as sns  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tpcsweep.dataset import STATUS, describe, flagged
from tpcsweep.parameters import show_value
from tpcsweep.variables import FLAGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
    from numpy.typing import NDArray

_REPETITION = "repetition"
_FIRST = ("streams", "rtt", "cores", "origins")  # which axes take x and y, and then which make panels
_MOST_ROWS = 30  # of panels in one figure
_MOST_SERIES = 24
_COLOURS = "viridis"
_VIVID = "#D55E00"
_SIDES = {"source_cpu": ("source", "#0072B2", "o"), "destination_cpu": ("destination", "#D55E00", "s")}


class Mark(NamedTuple):
    """How a property of a cell is shown."""

    marker: str
    meaning: str


MARKS = {
    "failed": Mark("X", "failed"),
    "missing": Mark("o", "not measured"),
    "not_steady": Mark("^", "not steady"),
    "wide_interval": Mark("s", "interval wider than asked"),
    "autocorrelated": Mark("D", "autocorrelated: interval too narrow"),
    "transfers_failed": Mark("v", "some transfers failed"),
    "counters_disagree": Mark("P", "counters disagree"),
    "machine_saturated": Mark("*", "machine saturated"),
}


@dataclass(frozen=True)
class _Grid:
    """The cells with their repetitions combined, and where each axis goes."""

    cells: xr.Dataset
    """throughput, low, high, and one boolean per mark."""
    x: str | None
    y: str | None
    columns: str | None
    rows: tuple[str, ...]

    def panels(self) -> list[list[dict[str, Any]]]:
        """Give, row by row, the values of the axes that are neither x nor y in each panel."""
        across = (
            [{}] if self.columns is None else [{self.columns: v} for v in _values(self.cells, self.columns)]
        )
        down = itertools.product(*(_values(self.cells, name) for name in self.rows))
        return [[dict(zip(self.rows, row, strict=True)) | one for one in across] for row in down]


def heatmap(summary: xr.Dataset) -> Figure:
    """Draw throughput as annotated heat maps over streams × RTT, a panel for each value of the other axes."""
    grid = _grid(summary)
    wide = max(2.6, 0.62 * _size(grid, grid.x) + 0.9)
    high = max(1.3, 0.5 * _size(grid, grid.y) + 0.9)
    with _style():
        figure, panels, notes = _panels(grid, wide, high)
        norm = _norm(grid.cells)
        for axes, where in panels:
            values = _plane(grid, "throughput", where)
            sns.heatmap(
                values,
                ax=axes,
                cmap=_COLOURS,
                vmin=norm.vmin,
                vmax=norm.vmax,
                annot=_rounded(values),
                fmt="",
                annot_kws={"size": 8},
                cbar=False,
                linewidths=0.6,
                linecolor="white",
                xticklabels=_texts(grid, grid.x),
                yticklabels=_texts(grid, grid.y),
            )
            axes.set_facecolor("#dddddd")
            axes.invert_yaxis()
            axes.tick_params(axis="y", labelrotation=0, length=0)
            axes.tick_params(axis="x", labelrotation=0, length=0)
            _mark_heatmap(axes, grid, where)
            _label(axes, grid.x, grid.y)
            axes.set_title(_wrapped([_title(where)], int(wide * 11)))
        bar = figure.colorbar(
            mpl.cm.ScalarMappable(norm, _COLOURS), ax=[axes for axes, _ in panels], aspect=30, pad=0.02
        )
        bar.set_label("Gbit/s")
        _finish(figure, summary, "Throughput", [_mean_note(summary), *notes], _mark_handles(grid, "white"))
    return figure


def surface(summary: xr.Dataset) -> Figure:
    """Draw throughput as 3-D surfaces over streams × RTT, or say in the figure that there is no surface."""
    grid = _grid(summary)
    if _size(grid, grid.x) < 2 or _size(grid, grid.y) < 2:
        return _placeholder(
            summary,
            "Throughput surface",
            "There is no surface to draw: it takes two axes with two values or more, and this sweep has "
            + (f"one ({grid.x})." if _size(grid, grid.x) > 1 else "none."),
        )
    x_name, y_name = cast("str", grid.x), cast("str", grid.y)
    with _style():
        figure, panels, notes = _panels(grid, 3.7, 3.0, projection="3d")
        norm = _norm(grid.cells)
        x, y = _positions(grid.cells, x_name), _positions(grid.cells, y_name)
        across, along = np.meshgrid(x, y)
        for plain, where in panels:
            axes = cast("Axes3D", plain)
            axes.computed_zorder = False  # a mark must not hide behind the surface
            values = _plane(grid, "throughput", where)
            axes.plot_surface(
                across,
                along,
                values,
                cmap=_COLOURS,
                norm=norm,
                rstride=1,
                cstride=1,
                edgecolor="#333333",
                linewidth=0.4,
                alpha=0.9,
            )
            axes.scatter(across, along, values, s=7, color="black", depthshade=False, zorder=3)
            _mark_surface(axes, grid, where, across, along, values)
            axes.set_xticks(x, _texts(grid, x_name))
            axes.set_yticks(y, _texts(grid, y_name))
            axes.set_zlim(0, norm.vmax)
            axes.view_init(elev=24, azim=-128)
            axes.set_box_aspect((1, 1, 0.75), zoom=0.97)
            axes.tick_params(pad=0, labelsize=7.5)
            axes.set_xlabel(_axis_label(x_name), labelpad=2)
            axes.set_ylabel(_axis_label(y_name), labelpad=4)
            axes.set_zlabel("throughput (Gbit/s)", labelpad=2)
            axes.set_title(_wrapped([_title(where)], 40), y=1.0)
        if grid.cells["throughput"].isnull().any():
            notes.insert(0, "What has no value is marked on the floor.")
        notes.insert(0, _mean_note(summary))
        _finish(figure, summary, "Throughput surface", notes, _mark_handles(grid, _VIVID))
    return figure


def lines(summary: xr.Dataset) -> Figure:
    """Draw throughput over streams, one line per RTT, with bands over the intervals of all repetitions."""
    grid = _grid(summary)
    names = _values(grid.cells, grid.y) if grid.y else [None]
    # Without the yellow end, which is faint on white.
    palette = [tuple(colour[:3]) for colour in mpl.colormaps[_COLOURS](np.linspace(0, 0.8, len(names)))]
    with _style():
        figure, panels, notes = _panels(grid, 3.4, 2.7)
        top = float(np.nan_to_num(np.fmax(grid.cells["high"], grid.cells["throughput"])).max())
        limit = _limit(summary, top)
        x = _positions(grid.cells, grid.x) if grid.x else np.zeros(1)
        for axes, where in panels:
            low, middle, high = (_plane(grid, n, where) for n in ("low", "throughput", "high"))
            for row, colour in enumerate(palette):
                style = "-" if row % 2 == 0 else "--"
                axes.fill_between(x, low[row], high[row], color=colour, alpha=0.22, linewidth=0)
                # A band has no width at a single point.
                axes.vlines(x, low[row], high[row], color=colour, linewidth=1)
                axes.plot(x, middle[row], style, color=colour, marker=".", markersize=6, linewidth=1.5)
                for name in _present(grid.cells):
                    _mark_line(axes, name, x, middle[row], _plane(grid, name, where)[row], colour, row)
            if limit is not None:
                axes.axhline(limit, color="#555555", linestyle=":", linewidth=1)
            axes.set_xticks(x, _texts(grid, grid.x))
            axes.set_ylim(0, 1.08 * max(top, limit or 0) or 1)
            axes.set_xlim(x[0] - 0.05 * (np.ptp(x) or 1), x[-1] + 0.05 * (np.ptp(x) or 1))
            _label(axes, grid.x, None)
            axes.set_ylabel("throughput (Gbit/s)")
            axes.set_title(_wrapped([_title(where)], 36))
            axes.grid(visible=True, alpha=0.3)
        handles: list[Any] = []
        if grid.y:
            handles += [
                Line2D([], [], color=c, linestyle="-" if i % 2 == 0 else "--", label=_title({grid.y: value}))
                for i, (c, value) in enumerate(zip(palette, names, strict=True))
            ]
        if limit is not None:
            handles.append(Line2D([], [], color="#555555", linestyle=":", label="bandwidth of the path"))
        handles += _mark_handles(grid, "none")
        _finish(
            figure,
            summary,
            "Throughput",
            [
                _mean_note(summary)
                + f" Bands and bars: {_confidence(summary)} confidence interval"
                + (" of any repetition." if summary.sizes.get(_REPETITION, 1) > 1 else "."),
                *notes,
            ],
            handles,
        )
    return figure


def series(summary: xr.Dataset, samples: xr.Dataset) -> Figure:
    """Draw goodput over time of single cells, warm-up shaded, with mean and interval of what was kept.

    Of more cells than fit, those with flags come first, then others evenly over the grid; the figure says so.
    """
    dimensions = [str(name) for name in summary["throughput"].dims]
    measured = np.argwhere(samples["goodput"].notnull().any("time").values)
    if not measured.size:
        return _placeholder(summary, "Goodput over time", "No cell has samples.")
    noted = summary["status"].values == STATUS.index("failed")
    for name in FLAGS:
        noted |= flagged(summary, name).values
    chosen = _select(measured, noted[tuple(measured.T)], _MOST_SERIES)
    varying = [name for name in dimensions if summary.sizes[name] > 1]
    count = len(chosen)
    columns = min(4, count)
    rows = math.ceil(count / columns)
    time = samples["time"].values
    with _style():
        figure = Figure(figsize=(max(2.9 * columns + 0.3, 5.2), 1.75 * rows + 0.2), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for axes in grid.flat[count:]:
            axes.set_visible(False)
        for axes, index in zip(grid.flat, chosen, strict=False):
            where = dict(zip(dimensions, (int(i) for i in index), strict=True))
            one, goodput = summary.isel(where), samples["goodput"].isel(where).values
            warmup, mean = float(one["warmup"]), float(one["throughput"])
            axes.plot(time, goodput, color="#0072B2", linewidth=0.8)
            if warmup > 0:
                axes.axvspan(0, warmup, color="#999999", alpha=0.35, linewidth=0)
            axes.fill_between(
                [warmup, time[-1]],
                float(one["throughput_low"]),
                float(one["throughput_high"]),
                color="#E69F00",
                alpha=0.4,
                linewidth=0,
            )
            axes.hlines(mean, warmup, time[-1], color="#D55E00", linewidth=1.2)
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, time[-1])
            axes.grid(visible=True, alpha=0.3)
            flags = [MARKS[name].meaning for name in FLAGS if bool(flagged(one, name))]
            if int(one["status"]) == STATUS.index("failed"):
                flags.insert(0, MARKS["failed"].meaning)
            place = {name: one[name].item() for name in varying}
            axes.set_title(_wrapped([_title(place), *flags], 34), fontsize=7.5)
        for row in grid:
            row[0].set_ylabel("goodput (Gbit/s)")
        for column in range(columns):
            lowest = grid[(count - 1 - column) // columns, column]
            lowest.tick_params(labelbottom=True)
            lowest.set_xlabel("time since the cell's start (s)")
        handles = [
            Line2D([], [], color="#0072B2", label="goodput"),
            Patch(color="#999999", alpha=0.35, label="cut as warm-up"),
            Line2D([], [], color="#D55E00", label="mean after warm-up"),
            Patch(color="#E69F00", alpha=0.4, label=f"{_confidence(summary)} interval"),
        ]
        notes = []
        if len(measured) > count:
            notes = [
                f"{count} of {len(measured)} measured cells: those with flags first, the others evenly over "
                "the grid. The dataset has all."
            ]
        _finish(figure, summary, "Goodput over time", notes, handles)
    return figure


def cpu(summary: xr.Dataset) -> Figure:
    """Draw the CPU that each side used against throughput, a point per cell, a panel per value of cores."""
    if not any(summary[name].notnull().any() for name in _SIDES):
        return _placeholder(summary, "CPU", "No cell has the CPU of its origins.")
    across = _values(summary, "cores") if "cores" in summary["throughput"].dims else [None]
    columns = min(4, len(across))
    rows = math.ceil(len(across) / columns)
    top = float(max(summary[name].fillna(0).max() for name in _SIDES))
    fastest = float(summary["throughput"].fillna(0).max())
    with _style():
        figure = Figure(figsize=(max(3.1 * columns + 0.4, 5.2), 2.6 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(across) :]:
            axes.set_visible(False)
        quotas = False
        for axes, value in zip(grid.flat, across, strict=False):
            part = summary if value is None else summary.sel(cores=value)
            for name, (_, colour, marker) in _SIDES.items():
                axes.scatter(
                    part["throughput"],
                    part[name],
                    s=16,
                    marker=marker,
                    facecolor="none",
                    edgecolor=colour,
                    linewidth=0.9,
                )
            quota = float(part["cores"]) if "cores" in part.coords else math.inf
            if quota <= 1.1 * top:
                quotas = True
                axes.axhline(quota, color="#555555", linestyle=":", linewidth=1)
            axes.set_title(_title({} if value is None else {"cores": value}))
            axes.set_xlim(0, 1.06 * fastest or 1)
            axes.set_ylim(0, 1.1 * top or 1)
            axes.set_xlabel("throughput (Gbit/s)")
            axes.grid(visible=True, alpha=0.3)
        for row in grid:
            row[0].set_ylabel("CPU of one side (cores)")
        handles = [
            Line2D([], [], linestyle="", marker=m, markerfacecolor="none", markeredgecolor=c, label=label)
            for label, c, m in _SIDES.values()
        ]
        if quotas:
            handles.append(Line2D([], [], color="#555555", linestyle=":", label="quota of a side"))
        _finish(figure, summary, "CPU against throughput", ["Each repetition of a cell is a point."], handles)
    return figure


def save(figure: Figure, folder: str | Path, name: str) -> None:
    """Write `name`.png (150 dpi) and `name`.svg into a folder; the same dataset gives the same files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "tpcsweep"}):
        figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _grid(summary: xr.Dataset) -> _Grid:
    """Combine repetitions and give each axis its place."""
    axes = [str(name) for name in summary["throughput"].dims if name != _REPETITION]
    axes.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    several = [name for name in axes if summary.sizes[name] > 1]
    plane = several[:2]
    if "streams" not in plane and "streams" in axes and len(plane) < 2:
        plane = ["streams", *plane]
    x = plane[0] if plane else None
    y = plane[1] if len(plane) > 1 else None
    others = [name for name in axes if name not in plane]
    columns = others[0] if others else None
    return _Grid(_combined(summary), x, y, columns, tuple(others[1:]))


def _combined(summary: xr.Dataset) -> xr.Dataset:
    """Mean over the repetitions that went well; the band spans the intervals of all of them."""
    if _REPETITION not in summary["throughput"].dims:
        summary = summary.expand_dims(_REPETITION)
    status = summary["status"]
    ok = status == STATUS.index("ok")
    throughput = summary["throughput"].where(ok)
    marks = {name: flagged(summary, name).any(_REPETITION) for name in FLAGS}
    marks["failed"] = (status == STATUS.index("failed")).any(_REPETITION)
    marks["missing"] = (status == STATUS.index("missing")).any(_REPETITION)
    # Where a repetition has no interval, the band still spans its mean.
    low = summary["throughput_low"].where(ok).fillna(throughput).min(_REPETITION)
    high = summary["throughput_high"].where(ok).fillna(throughput).max(_REPETITION)
    return xr.Dataset({"throughput": throughput.mean(_REPETITION), "low": low, "high": high, **marks})


def _plane(grid: _Grid, name: str, where: Mapping[str, Any]) -> NDArray[Any]:
    """Give one panel's values in rows of y and columns of x."""
    part = grid.cells[name].sel(where)
    part = part.transpose(*(axis for axis in (grid.y, grid.x) if axis is not None))
    values: NDArray[Any] = part.values.reshape(_size(grid, grid.y), _size(grid, grid.x))
    return values


def _panels(
    grid: _Grid, wide: float, high: float, projection: str | None = None
) -> tuple[Figure, list[tuple[Axes, dict[str, Any]]], list[str]]:
    """Make a figure with a panel for every value of the axes that are not x or y; say what is left out."""
    rows = grid.panels()
    notes = []
    if len(rows) > _MOST_ROWS:
        notes = [f"The first {_MOST_ROWS} of {len(rows)} rows of panels; the dataset has all."]
        rows = rows[:_MOST_ROWS]
    if len(rows) == 1 and len(rows[0]) > 4:  # a single long row reads better wrapped
        rows = [rows[0][at : at + 4] for at in range(0, len(rows[0]), 4)]
    columns = max(map(len, rows))
    size = (max(wide * columns + 0.9, 5.2), high * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    keywords = {"projection": projection} if projection else {}
    axes = figure.subplots(len(rows), columns, squeeze=False, subplot_kw=keywords)
    panels: list[tuple[Axes, dict[str, Any]]] = []
    for at, row in enumerate(rows):
        panels += zip(axes[at], row, strict=False)
        for unused in axes[at, len(row) :]:
            unused.remove()
    return figure, panels, notes


def _mark_heatmap(axes: Axes, grid: _Grid, where: Mapping[str, Any]) -> None:
    """Put marks into the lower edge of each cell, side by side; hatch cells without a value."""
    empty = np.isnan(_plane(grid, "throughput", where))
    for row, column in np.argwhere(empty):
        axes.add_patch(
            mpl.patches.Rectangle(
                (column, row), 1, 1, facecolor="#eeeeee", edgecolor="#999999", hatch="///", linewidth=0
            )
        )
    names = _present(grid.cells)
    marked = np.stack([_plane(grid, name, where).astype(bool) for name in names]) if names else None
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


def _mark_surface(
    axes: Axes3D,
    grid: _Grid,
    where: Mapping[str, Any],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    z: NDArray[np.float64],
) -> None:
    """Put marks on points, on the floor where there is no value; several on one point get smaller upwards."""
    before = np.zeros(z.shape, int)
    for name in _present(grid.cells):
        chosen = _plane(grid, name, where).astype(bool)
        axes.scatter(
            x[chosen],
            y[chosen],
            np.nan_to_num(z[chosen]),
            marker=MARKS[name].marker,
            s=130.0 / 2.6 ** before[chosen],
            color=_VIVID,
            edgecolor="black",
            linewidth=0.6,
            depthshade=False,
            zorder=4,
        )
        before += chosen


def _mark_line(
    axes: Axes,
    name: str,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    chosen: NDArray[Any],
    colour: tuple[float, float, float],
    line: int,
) -> None:
    """Put hollow marks around points; what has no value is marked near the floor, each line at its height."""
    chosen = chosen.astype(bool)
    gap = np.isnan(y)
    look: dict[str, Any] = {
        "marker": MARKS[name].marker,
        "facecolor": "none",
        "edgecolor": colour,
        "zorder": 4,
    }
    axes.scatter(x[chosen & ~gap], y[chosen & ~gap], s=58, linewidth=1.2, **look)
    at = x[chosen & gap]
    floor = np.full(at.shape, 0.04 + 0.05 * line)
    axes.scatter(at, floor, s=40, linewidth=1.2, transform=axes.get_xaxis_transform(), clip_on=False, **look)


def _present(cells: xr.Dataset) -> list[str]:
    return [name for name in MARKS if bool(cells[name].any())]


def _mark_handles(grid: _Grid, face: str) -> list[Line2D]:
    """Give legend entries of the marks that occur."""
    return [
        Line2D(
            [],
            [],
            linestyle="",
            marker=MARKS[name].marker,
            markersize=6,
            markerfacecolor=face,
            markeredgecolor="black",
            label=MARKS[name].meaning,
        )
        for name in _present(grid.cells)
    ]


def _finish(
    figure: Figure, summary: xr.Dataset, what: str, notes: Sequence[str], handles: Sequence[Any] = ()
) -> None:
    """Add title, what all cells have in common, notes and one legend; the figure grows by their height."""
    simulated = summary.attrs["testbed_kind"] == "simulation"
    how = "simulated" if simulated else f"measured on {summary.attrs['testbed']}"
    wide, high = figure.get_size_inches()
    shared = [
        f"{_word(str(name))} {_text(str(name), summary[name].item())}"
        for name in summary.coords
        if not summary[name].dims
    ]
    title = textwrap.wrap(f"{what}: sweep {summary.attrs['sweep']}, {how}", int(wide * 10.5))
    small = [line for text in (", ".join(shared), *notes) for line in textwrap.wrap(text, int(wide * 16))]
    columns = max(1, min(len(handles), int(wide / 1.75)))
    above = 0.12 + 0.2 * len(title) + 0.145 * len(small) + 0.08
    below = 0.19 * math.ceil(len(handles) / columns) + 0.12 if handles else 0.0
    total = high + above + below
    figure.set_size_inches(wide, total)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, below / total, 1 - 0.08 / wide, high / total))
    left = 0.12 / wide
    top = 1 - 0.1 / total
    figure.text(left, top, "\n".join(title), va="top", fontsize=11, fontweight="bold", linespacing=1.25)
    figure.text(
        left,
        top - (0.2 * len(title) + 0.03) / total,
        "\n".join(small),
        va="top",
        fontsize=7.5,
        color="#333333",
        linespacing=1.3,
    )
    if handles:
        figure.legend(
            handles=list(handles),
            loc="lower center",
            bbox_to_anchor=(0.5, 0.04 / total),
            ncols=columns,
            frameon=False,
            fontsize=8,
            borderaxespad=0,
            columnspacing=1.4,
            handletextpad=0.5,
        )


def _placeholder(summary: xr.Dataset, what: str, text: str) -> Figure:
    with _style():
        figure = Figure(figsize=(6.4, 3.0), layout="constrained")
        axes = figure.subplots()
        axes.set_axis_off()
        axes.text(0.5, 0.5, textwrap.fill(text, 60), ha="center", va="center", fontsize=11)
        _finish(figure, summary, what, [])
    return figure


def _title(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{_word(name)} {_text(name, value)}" for name, value in where.items())


def _word(name: str) -> str:
    return " ".join(word.upper() if word in ("rtt", "mtu", "tcp") else word for word in name.split("_"))


def _text(name: str, value: Any) -> str:
    """Give a coordinate's value for people, with its unit."""
    if isinstance(value, str):
        return value
    return "no limit" if math.isinf(value) else show_value(name, value)


def _texts(grid: _Grid, name: str | None) -> list[str]:
    """Give the tick labels of an axis, without its unit, which stands in the label where there is one."""
    if name is None:
        return [""]
    unit = describe(name).units
    if unit in ("", "1", "B"):  # sizes read better each in its own unit
        return [_text(name, value) for value in _values(grid.cells, name)]
    return ["no limit" if math.isinf(value) else f"{value:g}" for value in _values(grid.cells, name)]


def _axis_label(name: str) -> str:
    unit = describe(name).units
    return _word(name) if unit in ("", "1", "B") else f"{_word(name)} ({unit})"


def _label(axes: Axes, x: str | None, y: str | None) -> None:
    axes.set_xlabel(_axis_label(x) if x else "")
    axes.set_ylabel(_axis_label(y) if y else "")


def _values(content: xr.Dataset, name: str) -> list[Any]:
    return [value.item() if hasattr(value, "item") else value for value in content[name].values]


def _size(grid: _Grid, name: str | None) -> int:
    return 1 if name is None else grid.cells.sizes[name]


def _positions(cells: xr.Dataset, name: str) -> NDArray[np.float64]:
    """Where values lie along an axis: powers of two evenly, words and infinities evenly, others to scale."""
    values = _values(cells, name)
    if any(isinstance(value, str) or math.isinf(value) for value in values):
        return np.arange(len(values), dtype=float)
    numbers = np.array(values, dtype=float)
    if name == "streams" or (numbers.min() > 0 and numbers.max() >= 16 * numbers.min()):
        return np.asarray(np.log2(numbers))
    return numbers


def _norm(cells: xr.Dataset) -> Normalize:
    largest = float(cells["throughput"].max())
    return mpl.colors.Normalize(0, largest if largest > 0 else 1)  # False for NaN


def _limit(summary: xr.Dataset, top: float) -> float | None:
    """Give the path's bandwidth where it is one and drawing it leaves the lines readable."""
    if summary["bandwidth"].dims:
        return None
    bandwidth = float(summary["bandwidth"])
    return bandwidth if bandwidth <= 2 * top else None


def _rounded(values: NDArray[Any]) -> NDArray[np.object_]:
    """Give three significant digits, two of what is below 0.1, and nothing for a gap; without exponents."""
    texts = np.full(values.shape, "", dtype=object)
    for place, value in np.ndenumerate(values):
        if not np.isnan(value):
            digits = (2 if value >= 0.1 else 1) - math.floor(math.log10(value)) if value > 0 else 0
            texts[place] = f"{value:.{max(0, digits)}f}"
    return texts


def _mean_note(summary: xr.Dataset) -> str:
    count = summary.sizes.get(_REPETITION, 1)
    of = f", mean of {count} repetitions; a cell is marked if any of them is" if count > 1 else ""
    return f"Mean goodput at the destination after warm-up{of}."


def _confidence(summary: xr.Dataset) -> str:
    return f"{100 * float(summary.attrs['measurement_confidence']):g} %"


def _select(measured: NDArray[np.int64], first: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Choose at most `count` rows: of those that come first up to half, or more if there is room, and others."""
    if len(measured) <= count:
        return measured
    flagged_rows, others = np.flatnonzero(first), np.flatnonzero(~first)
    from_flagged = min(len(flagged_rows), max(count // 2, count - len(others)))
    kept = [_evenly(flagged_rows, from_flagged), _evenly(others, count - from_flagged)]
    return measured[np.sort(np.concatenate(kept))]


def _evenly(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    places = np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)
    return np.asarray(rows[places])


def _wrapped(texts: Sequence[str], wide: int) -> str:
    return "\n".join(textwrap.fill(text, wide) for text in texts if text)


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "font.size": 9,
            "axes.titlesize": 9,
            "axes.labelsize": 9,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
