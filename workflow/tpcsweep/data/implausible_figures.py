# SPDX-License-Identifier: Apache-2.0
"""The figure for which each cell of a dataset has the flag `implausible`; pure functions."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.cell_result import Summary
from tpcsweep.data.flag_rules import Evidence, implausible_figure
from tpcsweep.data.labels import ENDPOINTS, STATUS, flagged
from tpcsweep.data.variables import SUMMARY


def implausible_figures(summary: xr.Dataset) -> dict[str, NDArray[np.bool_]]:
    """Return for each figure that is implausible the cells in which it is the first such one.

    A flagged cell is absent if the dataset lacks the figure. Arrays have the dimensions of `throughput`.
    """
    flags = flagged(summary, "implausible").values
    bandwidth = summary.get("bandwidth", xr.DataArray(np.nan)).broadcast_like(summary["throughput"])
    paths = bandwidth.transpose(*summary["throughput"].dims).values
    names = [name for name in SUMMARY if name in summary]
    found: dict[str, NDArray[np.bool_]] = {}
    for place in map(tuple, np.argwhere(flags)):
        values = {name: float(summary[name].values[place]) for name in names}
        cell = Evidence(
            status="ok" if summary["status"].values[place] == STATUS.index("ok") else "failed",
            summary=Summary({name: None if np.isnan(value) else value for name, value in values.items()}),
            bandwidth=float(paths[place]),
            declared=summary.attrs.get("testbed_kind") == ENDPOINTS,
        )
        if figure := implausible_figure(cell):
            found.setdefault(figure, np.zeros(flags.shape, bool))[place] = True
    return found
