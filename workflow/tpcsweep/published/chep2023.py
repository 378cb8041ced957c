# SPDX-License-Identifier: Apache-2.0
"""400Gbps benchmark of XRootD HTTP-TPC (CHEP 2023): figures 3 and 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.figures.grid import arrange
from tpcsweep.figures.labels import band_note, mean_note, rate_label, title_of
from tpcsweep.figures.line_plots import draw_lines
from tpcsweep.figures.panels import styled
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.layout import board, close

TARGET = 400.0
"""Of the main test, Gbit/s."""

STATED: Mapping[str, tuple[float, ...]] = {"origins": (2,), "cores": (128,), "rtt": (0.1, 10, 60, 120)}
"""Values of figure 4 that the publication says in numbers. All others are ours, and so are those of the streams."""

_MARK = " *"
_OURS = (
    "* Ours: the publication says no such value; of streams it says no more than up to 500. Throughput is on a "
    "logarithmic axis, RTT on none: each has a curve."
)
_PORTS = (
    "Published is a line for each port of the destinations. Goodput is recorded for a side as a whole, and ports are "
    "alike where it is simulated: drawn is the mean of a port."
)
_BINS = 120  # points of an hour: 30 s each


@styled()
def _hour(data: Data, shown: Shown) -> Figure:
    """Draw goodput over time with the most streams, in total and of a port, and the mean of each cell over streams."""
    summary = data.summary.mean(REPETITION)
    samples = data.samples.isel({REPETITION: 0})
    streams, ports = summary["streams"].values, int(summary["origins"])
    figure, [time, against] = board([2], 4.2, 3.2, shown)
    if "goodput" in samples:
        goodput = samples["goodput"].sel(streams=streams.max()).dropna("time")
        width = max(1, goodput.sizes["time"] // _BINS)
        course = goodput.coarsen(time=width, boundary="trim").mean()
        minutes = course["time"].values / 60
        time.plot(minutes, course.values, color="#0072B2", label="total")
        time.plot(minutes, course.values / ports, color="#009E73", label=f"a port, mean of {ports}")
    against.fill_between(
        streams,
        summary["throughput_low"].squeeze(),
        summary["throughput_high"].squeeze(),
        color="#0072B2",
        alpha=0.2,
    )
    against.plot(streams, summary["throughput"].squeeze(), marker=".", color="#0072B2")
    for axes in (time, against):
        axes.axhline(TARGET, color="#555555", linestyle=":", linewidth=1, label=f"{TARGET:g} Gbit/s")
        axes.set_ylim(0, 1.08 * TARGET)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7, loc="center right")
    label = rate_label(data.summary)
    time.set(xlabel="time (min)", ylabel=label, title=f"{streams.max():g} streams")
    against.set(xlabel="streams", ylabel=label, title="mean of an hour")
    close(figure, shown, [f"{mean_note(data.summary)} {band_note(data.summary)}", _PORTS])
    return figure


@styled()
def _by_cores_and_origins(data: Data, shown: Shown) -> Figure:
    """Draw throughput over streams by RTT, a panel for each cores × origins, the origins growing to the right."""
    grid = replace(arrange(data.summary, ("streams", "rtt")), columns="origins", rows=("cores",))
    rows = grid.panels()
    figure, panels = board(list(map(len, rows)), 3.2, 2.4, shown)
    places = [where for row in rows for where in row]
    handles = draw_lines(list(zip(panels, places, strict=True)), grid, data.summary)
    drawn = grid.cells["throughput"].where(grid.cells["throughput"] > 0)
    bottom, top = float(drawn.min()), float(np.fmax(drawn, grid.cells["high"]).max())
    for axes, where in zip(panels, places, strict=True):
        axes.set_yscale("log")
        axes.set_ylim(bottom / 1.5, top * 1.5)
        axes.set_title(title_of(where) + _marked(where), fontsize=8)
        axes.label_outer()
    for handle, rtt in zip(handles, grid.cells["rtt"].values, strict=False):
        handle.set_label(title_of({"rtt": float(rtt)}) + _marked({"rtt": rtt}))
    close(figure, shown, [f"{mean_note(data.summary)} {band_note(data.summary)}", _OURS], handles)
    return figure


def _marked(where: Mapping[str, Any]) -> str:
    """The mark of values that nobody published."""
    return "" if all(value in STATED[name] for name, value in where.items()) else _MARK


FIGURES = (
    PublishedFigure(
        "chep2023_fig3",
        "CHEP 2023, figure 3: 520 streams over 13 ports, 3 ms, an hour",
        ("chep2023.saturate", "chep2023.little_fluctuation", "chep2023.streams_required"),
        _hour,
    ),
    PublishedFigure(
        "chep2023_fig4",
        "CHEP 2023, figure 4: throughput against streams and RTT, by cores and origins",
        (
            "chep2023.streams_peak",
            "chep2023.origins_help",
            "chep2023.rtt_fivefold",
            "chep2023.rtt_not_linear",
            "chep2023.rtt120_cap",
            "chep2023.streams_stop_helping",
        ),
        _by_cores_and_origins,
    ),
)
