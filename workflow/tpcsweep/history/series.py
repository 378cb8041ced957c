# SPDX-License-Identifier: Apache-2.0
"""The cells of several runs as one grid over time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset.labels import about_flags
from tpcsweep.history.detection import mean_of
from tpcsweep.history.runs import Run

Floats = NDArray[np.float64]


def joined(runs: Sequence[Run]) -> xr.Dataset:
    """Join the cells of runs, along `repetition`: a run is a repetition of all.

    A parameter is an axis here where a run has several values of it, or cells of one run would be another's. One that
    has a single value in each run is none, also where runs differ in it: that is a change among others. Cells that a
    run does not have are not measured in it. The confidence of all intervals is that of the first run's.
    """
    axes = dict.fromkeys(str(name) for run in reversed(runs) for name in run.cells.dims)
    placed = []
    for number, run in enumerate(runs):
        single = [name for name in axes if name not in run.cells.dims]
        cells = run.cells.assign_coords({name: run.parameters.get(name, "unknown") for name in single})
        cells = cells.expand_dims(single).drop_vars(set(map(str, cells.coords)) - set(axes), errors="ignore")
        placed.append(cells.expand_dims({REPETITION: [number]}))
    holes: dict[str, Any] = {str(name): np.nan for name in placed[0].data_vars}
    together: xr.Dataset = xr.concat(
        placed,
        REPETITION,
        data_vars="all",
        join="outer",
        fill_value=holes | {"status": 0, "flags": 0, "limit": "", "message": ""},
        combine_attrs="override",
    )
    return together.transpose(*axes, REPETITION)


def logs_of(cells: xr.Dataset) -> Floats:
    """Logarithms of throughput, runs × cells, with the last axis fastest; NaN where a cell was not measured."""
    flat = cells["throughput"].transpose(REPETITION, ...).values
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.log(flat.reshape(len(flat), -1).astype(float))
    return logs


def mean_cell(cells: xr.Dataset) -> xr.Dataset:
    """The mean of all cells as one cell: how many times its mean over all runs, for each run."""
    mean = mean_of(logs_of(cells))
    about = (REPETITION, np.zeros(len(mean), np.int32), about_flags())
    return xr.Dataset(
        {"throughput": (REPETITION, np.exp(mean)), "flags": about},
        coords={REPETITION: cells[REPETITION].values},
    )
