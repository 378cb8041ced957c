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

from tpcsweep.figures.analyses import hardware, releases
from tpcsweep.figures.cells import cpu, series
from tpcsweep.figures.comparisons import forest, ratios
from tpcsweep.figures.maps import heatmap, limits, lines, surface
from tpcsweep.figures.panels import MARKS, save

__all__ = [
    "MARKS",
    "cpu",
    "forest",
    "hardware",
    "heatmap",
    "limits",
    "lines",
    "ratios",
    "releases",
    "save",
    "series",
    "surface",
]
