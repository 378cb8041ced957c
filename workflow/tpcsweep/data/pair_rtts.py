# SPDX-License-Identifier: Apache-2.0
"""RTTs of pairs of endpoints or sites, to whose paths nothing adds an RTT; pure functions.

They are declared or measured before the cells. Without such RTTs the kernels of recorded hosts know them.
"""

import math

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import short
from tpcsweep.data.labels import ENDPOINTS


def rtts_of_pairs(summary: xr.Dataset) -> NDArray[np.float64]:
    """Return the known RTTs of idle paths in ms, of all cells."""
    own = _known(summary, "rtt_idle")
    return own if own.size else _known(summary, "host_rtt")


def _known(summary: xr.Dataset, name: str) -> NDArray[np.float64]:
    values = summary[name].values.ravel() if name in summary else np.array([])
    return np.asarray(values[np.isfinite(values)])


def pair_rtt_text(summary: xr.Dataset) -> str:
    """Return the RTTs of pairs, and where they are from, if they take the place of a parameter; or ""."""
    rtt = summary.coords.get("rtt")
    if rtt is None or rtt.ndim or summary.attrs.get("testbed_kind") is None:
        return ""
    is_added = summary.attrs["testbed_kind"] != ENDPOINTS
    of_pairs = rtts_of_pairs(summary)
    if (math.isfinite(rtt.item()) and (rtt.item() or is_added)) or not of_pairs.size:
        return ""
    source = "measured" if is_added else "declared"
    if not _known(summary, "rtt_idle").size:
        source = "by the hosts' kernels"
    return f"{ends_text(of_pairs)} ms {source}"


def ends_text(values: NDArray[np.float64]) -> str:
    """Return the smallest and the largest value, or the only one, rounded to integers unless that is 0."""
    ends = [float(end(values)) for end in (np.nanmin, np.nanmax)]
    return " to ".join(dict.fromkeys(short(round(end) or end, 2) for end in ends))
