# SPDX-License-Identifier: Apache-2.0
"""The CPU that the two sides used."""

from __future__ import annotations

import math

import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tpcsweep.figures.grid import evenly, values_of
from tpcsweep.figures.labels import rate_label, title_of
from tpcsweep.figures.panels import finish, placeholder, styled, tiles

_MOST_PANELS = 24
_MOST_DRAWN = 2000  # points of a panel; more are one picture in an SVG file
_SIDES = {"source_cpu": ("source", "#0072B2", "o"), "destination_cpu": ("destination", "#D55E00", "s")}


@styled()
def cpu(summary: xr.Dataset) -> Figure:
    """Draw the CPU that each side used against throughput, a point per cell, a panel per value of cores."""
    if not any(summary[name].notnull().any() for name in _SIDES):
        return placeholder(summary, "CPU", "No cell has the CPU of its origins.")
    every = values_of(summary, "cores") if "cores" in summary["throughput"].dims else [None]
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
            axes.scatter(
                part["throughput"],
                part[name],
                s=16,
                marker=marker,
                facecolor="none",
                edgecolor=colour,
                linewidth=0.9,
                rasterized=part["throughput"].size > _MOST_DRAWN,
            )
        quota = float(part["cores"]) if "cores" in part.coords else math.inf
        if quota <= 1.1 * top:
            quotas = True
            axes.axhline(quota, color="#555555", linestyle=":", linewidth=1)
        axes.set_title(title_of({} if value is None else {"cores": value}))
        axes.set(xlim=(0, 1.06 * fastest or 1), ylim=(0, 1.1 * top or 1), xlabel=rate_label(summary))
        axes.grid(visible=True, alpha=0.3)
    for axes in panels[::4]:
        axes.set_ylabel("CPU of one side (cores)")
    handles = [
        Line2D([], [], linestyle="", marker=m, markerfacecolor="none", markeredgecolor=c, label=label)
        for label, c, m in _SIDES.values()
    ]
    if quotas:
        handles.append(Line2D([], [], color="#555555", linestyle=":", label="quota of a side"))
    finish(figure, summary, "CPU against throughput", notes, handles)
    return figure
