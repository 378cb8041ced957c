# SPDX-License-Identifier: Apache-2.0
"""Figures of a dataset: the throughput surface three ways, its time series, what bound it, and what CPU it took.

Every figure shows all cells: an axis that has no place in a panel gets panels of its own, repetitions are
averaged with their spread shown, and what a reader should know of a cell (failed, missing, flags) is marked.
"""

from tpcsweep.figures.comparisons import forest, ratios
from tpcsweep.figures.cpu_use import cpu
from tpcsweep.figures.hardware import hardware
from tpcsweep.figures.line_plots import lines
from tpcsweep.figures.maps import heatmap, limits
from tpcsweep.figures.panels import MARKS, save
from tpcsweep.figures.releases import releases
from tpcsweep.figures.rounds import rounds
from tpcsweep.figures.surfaces import surface
from tpcsweep.figures.time_series import series

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
    "rounds",
    "save",
    "series",
    "surface",
]
