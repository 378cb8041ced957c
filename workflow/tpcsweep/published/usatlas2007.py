# SPDX-License-Identifier: Apache-2.0
"""Load tests of a Tier 1 and its Tier 2s (2007): throughput over streams by TCP buffer, a panel for each layer."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tpcsweep.figures.labels import band_note, mean_note, rate_label, title_of, words
from tpcsweep.figures.line_plots import colours
from tpcsweep.figures.panels import styled
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.layout import board, close


@styled()
def _layers(data: Data, shown: Shown) -> Figure:
    """Draw the mean after warm-up with its interval, and average and maximum with ramp-up, as were published."""
    # Each layer has one tool: of the others its cells do not exist.
    summary = data.summary.mean("repetition") if "repetition" in data.summary.dims else data.summary
    if "tool" in summary["throughput"].dims:
        summary = summary.max("tool")
    layers, buffers = summary["layer"].values.tolist(), summary["tcp_buffer"].values.tolist()
    palette = colours(len(buffers))
    figure, panels = board([len(layers)], 2.6, 3.0, shown)
    for panel, layer in zip(panels, layers, strict=True):
        for place, (buffer, colour) in enumerate(zip(buffers, palette, strict=True)):
            curve = summary.sel(layer=layer, tcp_buffer=buffer)
            x = np.asarray(curve["streams"].values, float)
            panel.fill_between(x, curve["throughput_low"], curve["throughput_high"], color=colour, alpha=0.22)
            # Where buffers make no difference each is seen behind the next.
            wide = 0.9 * (len(buffers) - place)
            panel.plot(x, curve["throughput"], color=colour, marker=".", linewidth=wide)
            panel.plot(x, curve["throughput_average"], ":", color=colour, linewidth=1)
            panel.scatter(x, curve["throughput_max"], marker="^", s=16, facecolor="none", edgecolor=colour)
        panel.set_title(words(layer))
        panel.set_xlabel("streams")
        panel.set_xticks(x)
        panel.set_ylim(0)
        panel.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel(rate_label(data.summary))
    handles = [
        *(
            Line2D([], [], color=colour, marker=".", label=title_of({"tcp_buffer": buffer}))
            for buffer, colour in zip(buffers, palette, strict=True)
        ),
        Line2D([], [], color="#333333", linestyle=":", label="average with ramp-up"),
        Line2D([], [], color="#333333", linestyle="", marker="^", fillstyle="none", label="maximum"),
    ]
    close(figure, shown, [_tests(summary), f"{mean_note(data.summary)} {band_note(data.summary)}"], handles)
    return figure


def _tests(summary: xr.Dataset) -> str:
    rates = {
        "memory to memory": ("memory_to_memory", 120),
        "an ordinary disk": ("memory_to_disk", 40),
        "disk to disk": ("disk_to_disk", 200),
    }
    texts = []
    for name, (layer, target) in rates.items():
        if layer in summary["layer"].values:
            best = float(summary["throughput"].sel(layer=layer).max()) * 125
            texts.append(f"{name} {best:.3g} of {target} MB/s")
    return f"Best against the published targets: {'; '.join(texts)}."


FIGURES = (
    PublishedFigure(
        "usatlas2007",
        "Load tests of 2007: throughput over streams by TCP buffer, layer by layer",
        (
            "usatlas2007.more_streams",
            "usatlas2007.tuned_buffers",
            "usatlas2007.disk_bound",
            "usatlas2007.disk_buffers",
            "usatlas2007.twelve_streams",
            "usatlas2007.tuned_stream",
            "usatlas2007.bottleneck_buffers",
        ),
        _layers,
    ),
)
