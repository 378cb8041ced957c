# SPDX-License-Identifier: Apache-2.0
"""The reason for which each cell of a dataset has the flag `too_short`; pure functions."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.labels import ENDPOINTS, STATUS, flagged
from tpcsweep.data.similar_cells import FEWEST_TIMES, judged

_FIGURES = (
    *("throughput", "throughput_low", "throughput_high", "duration", "cycle"),
    *("batch_correlation", "length_rtts", "length_correlations"),
)


def short_reasons(summary: xr.Dataset) -> dict[str, NDArray[np.bool_]]:
    """Return for each key of the reasons in flags.toml the cells that are `too_short` by it.

    A cell has the first reason that applies, or none if the dataset lacks the figures. Arrays have the dimensions of
    `throughput`.
    """
    left = flagged(summary, "too_short").values.copy()
    if not left.any() or not set(_FIGURES) <= set(summary):
        return {}
    figures = {name: summary[name].values for name in _FIGURES}
    ok = summary["status"].values == STATUS.index("ok")
    known, reasons = judged(figures, ok, float(summary.attrs.get("measurement_interval", 1.0)))
    # Cells that similar ones do not judge are judged alone; at endpoints few files are the reason for that.
    reasons["round_trips"] = figures["length_rtts"] < FEWEST_TIMES
    reasons["files"] = ~known & (summary.attrs.get("testbed_kind") == ENDPOINTS)
    reasons["own"] = ~known & (figures["length_correlations"] < FEWEST_TIMES)
    found = {}
    for key, held in reasons.items():
        found[key] = left & held
        left &= ~held
    return found
