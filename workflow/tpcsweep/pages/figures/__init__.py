# SPDX-License-Identifier: Apache-2.0
"""Figures of a dataset: throughput surfaces, time series, limits and CPU.

Every figure shows all cells: axes without a place in a panel get panels of their own, repetitions are averaged with
their spread, and marks show failed, missing and flagged cells.
"""

import contextlib
import os

# Figures do not use a user's matplotlibrc, and it may be undecodable.
os.environ["MATPLOTLIBRC"] = os.devnull
with contextlib.chdir(os.sep):
    import matplotlib  # noqa: F401

from tpcsweep.pages.figures.cell_plots import cpu, series
from tpcsweep.pages.figures.line_plots import lines
from tpcsweep.pages.figures.maps import heatmap, limits
from tpcsweep.pages.figures.panels import MARKS, save, write_figure
from tpcsweep.pages.figures.surface_plots import surface
from tpcsweep.pages.panel_grid import Places

__all__ = [
    "MARKS",
    "Places",
    "cpu",
    "heatmap",
    "limits",
    "lines",
    "save",
    "series",
    "surface",
    "write_figure",
]
