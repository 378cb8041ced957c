# SPDX-License-Identifier: Apache-2.0
"""Figures of cells: goodput over time, and each side's CPU against throughput."""

import math
import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, flagged
from tpcsweep.pages.figures.axis_labels import confidence, panel_title, rate_label
from tpcsweep.pages.figures.panels import MARKS, finish, label_edges, placeholder, point_handle, styled, tiles
from tpcsweep.pages.panel_grid import evenly, path_rate

_MOST_PANELS = 24
_LOUD = graded(FLAGS, "warning", "invalid")
_FAILED = STATUS.index("failed")
_MOST_DRAWN = 2000  # points of a panel; an SVG file draws more as one raster image
_SIDES = {"source_cpu": ("source", "#0072B2", "o"), "destination_cpu": ("destination", "#D55E00", "s")}


@styled()
def series(summary: xr.Dataset, samples: xr.Dataset) -> Figure:
    """Draw goodput over time of single cells, warm-up shaded, with mean and interval of the rest."""
    dimensions = [str(name) for name in summary["throughput"].dims]
    goodput = samples["goodput"].load()  # a file's other series may exceed the memory
    measured = np.argwhere(goodput.notnull().any("time").values)
    if not measured.size:
        return placeholder(summary, "Goodput over time", "No cell has samples.")
    noted = ((summary["status"] == _FAILED) | flagged(summary, *_LOUD)).values
    chosen = _select(measured, noted[tuple(measured.T)], _MOST_PANELS)
    varying = [name for name in dimensions if summary.sizes[name] > 1]
    figure, panels = tiles(len(chosen), 2.9, 1.75, (0.3, 0.2), sharey="row")
    for axes, index in zip(panels, chosen, strict=True):
        where = dict(zip(dimensions, map(int, index), strict=True))
        cell = summary.isel(where)
        _draw(axes, cell, samples["time"].values, goodput.isel(where).values)
        flags = [MARKS[name].meaning for name in _LOUD if bool(flagged(cell, name))]
        if int(cell["status"]) == _FAILED:
            flags.insert(0, MARKS["failed"].meaning)
        title = panel_title({name: cell[name].item() for name in varying})
        lines = (textwrap.fill(text, 34) for text in (title, *flags) if text)
        axes.set_title("\n".join(lines), fontsize=7.5)
    label_edges(panels, "time since the cell's start (s)", rate_label(summary, "goodput"))
    for at, axes in enumerate(panels):
        top, rate = (
            axes.get_ylim()[1],
            path_rate(summary.isel(dict(zip(dimensions, chosen[at], strict=True)))),
        )
        if rate <= 1.5 * top:
            axes.axhline(rate, color="#555555", linestyle=":", linewidth=1)
        axes.set_ylim(0, max(top, 1.05 * rate) if rate <= 1.5 * top else top)
    handles = [
        Line2D([], [], color="#0072B2", label="goodput"),
        Patch(color="#999999", alpha=0.35, label="cut as warm-up"),
        Line2D([], [], color="#D55E00", label="mean after warm-up"),
        Patch(color="#E69F00", alpha=0.4, label=f"{confidence(summary)} interval"),
        Line2D([], [], color="#555555", linestyle=":", label="rate of the path"),
    ]
    note = (
        f"{len(chosen)} of {len(measured)} measured cells: those with warnings and invalid ones first, the others "
        "evenly over the grid. The dataset has all."
    )
    finish(figure, summary, "Goodput over time", [note] if len(measured) > len(chosen) else [], handles)
    return figure


def _draw(axes: Axes, cell: xr.Dataset, time: NDArray[np.float64], goodput: NDArray[np.float32]) -> None:
    names = ("warmup", "throughput", "throughput_low", "throughput_high")
    warmup, mean, low, high = (float(cell[name]) for name in names)
    sampled = np.isfinite(goodput)  # long cells have fewer samples than short cells in the same file
    axes.plot(time[sampled], goodput[sampled], color="#0072B2", linewidth=0.8)
    if warmup > 0:
        axes.axvspan(0, warmup, color="#999999", alpha=0.35, linewidth=0)
    axes.fill_between([warmup, time[-1]], low, high, color="#E69F00", alpha=0.4, linewidth=0)
    axes.hlines(mean, warmup, time[-1], color="#D55E00", linewidth=1.2)
    axes.set_xlim(0, time[-1])
    axes.grid(visible=True, alpha=0.3)


def _select(measured: NDArray[np.int64], first: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Choose at most `count` rows: priority rows up to half, or more if there is room, and others."""
    if len(measured) <= count:
        return measured
    loud, others = np.flatnonzero(first), np.flatnonzero(~first)
    most = min(len(loud), max(count // 2, count - len(others)))
    kept = loud[evenly(len(loud), most)], others[evenly(len(others), count - most)]
    return measured[np.sort(np.concatenate(kept))]


@styled()
def cpu(summary: xr.Dataset) -> Figure:
    """Draw each side's CPU against throughput: one point for each cell, one panel for each value of cores."""
    if not any(summary[name].notnull().any() for name in _SIDES):
        return placeholder(summary, "CPU", "No cell has the CPU of its origins.")
    every = summary["cores"].values.tolist() if "cores" in summary["throughput"].dims else [None]
    across = [every[place] for place in evenly(len(every), _MOST_PANELS)]
    notes = ["Each repetition of a cell is a point."]
    if len(across) < len(every):
        notes.append(f"{len(across)} of {len(every)} values of cores, evenly over them; the dataset has all.")
    top = float(max(summary[name].fillna(0).max() for name in _SIDES))
    fastest = float(summary["throughput"].fillna(0).max())
    figure, panels = tiles(len(across), 3.1, 2.6)
    quotas = False
    for axes, value in zip(panels, across, strict=True):
        part = summary if value is None else summary.sel(cores=value)
        for name, (_, colour, marker) in _SIDES.items():
            look: dict[str, Any] = {"s": 16, "marker": marker, "facecolor": "none", "edgecolor": colour}
            crowded = part["throughput"].size > _MOST_DRAWN
            axes.scatter(part["throughput"], part[name], linewidth=0.9, rasterized=crowded, **look)
        quota = float(part["cores"]) if "cores" in part.coords else math.inf
        if quota <= 1.1 * top:
            quotas = True
            axes.axhline(quota, color="#555555", linestyle=":", linewidth=1)
        axes.set_title(panel_title({} if value is None else {"cores": value}))
        axes.set(xlim=(0, 1.06 * fastest or 1), ylim=(0, 1.1 * top or 1))
        axes.grid(visible=True, alpha=0.3)
    label_edges(panels, rate_label(summary), "CPU of one side (cores)")
    handles = [point_handle(label, colour, marker, "none") for label, colour, marker in _SIDES.values()]
    if quotas:
        handles.append(Line2D([], [], color="#555555", linestyle=":", label="quota of a side"))
    finish(figure, summary, "CPU against throughput", notes, handles)
    return figure
