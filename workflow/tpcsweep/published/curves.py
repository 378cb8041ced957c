"""Throughput against streams, a curve with its interval for each value of another axis."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from tpcsweep.figures.grid import arrange
from tpcsweep.figures.labels import band_note, mean_note, rate_label
from tpcsweep.figures.line_plots import bandwidth_line, colours, curve_handles, curves
from tpcsweep.figures.panels import styled
from tpcsweep.published.base import Data, Shown
from tpcsweep.published.layout import board, close


@styled()
def against_streams(data: Data, shown: Shown, curve: str = "rtt", across: int = 3) -> Figure:
    """Draw throughput over streams.

    Args:
        data: The dataset.
        shown: What the figure says beside its data.
        curve: The axis with a curve for each value. Each combination of the values of the others has a panel.
        across: The most panels side by side.
    """
    summary = data.summary
    several = curve in summary["throughput"].dims and summary.sizes[curve] > 1
    grid = arrange(summary, ("streams", curve) if several else ("streams",))
    panels = [where for row in grid.panels() for where in row]
    palette = colours(grid.size(grid.y))
    top = float(np.nan_to_num(np.fmax(grid.cells["high"], grid.cells["throughput"])).max())
    columns = min(across, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = board(rows, columns, 3.9 if columns < 3 else 3.3, 3.0, shown)
    for panel, where in zip(axes.flat, panels, strict=False):
        curves(panel, grid, where, palette, top, bandwidth_line(summary, top), rate_label(summary))
    for unused in axes.flat[len(panels) :]:
        unused.remove()
    handles = curve_handles(grid, palette, bandwidth_line(summary, top))
    close(figure, shown, [f"{mean_note(summary)} {band_note(summary)}"], handles)
    return figure
