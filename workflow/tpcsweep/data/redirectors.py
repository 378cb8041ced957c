# SPDX-License-Identifier: Apache-2.0
"""Redirectors of a sweep's cells, which are a part of every change from one origin to several.

Several origins have a redirector in front of them, and one has none, unless clients contact the origins themselves
(`endpoint`: direct). The effect of the axis `origins` from 1 on therefore contains that of the redirector.
"""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import counted

_AXIS = "origins"
Mask = NDArray[np.bool_]


def redirected(summary: xr.Dataset) -> Mask:
    """Return whether clients of each cell contact a redirector, flattened; False if the dataset does not record it."""
    throughput = summary["throughput"]
    origins, endpoint = (summary.coords.get(name, xr.DataArray("")) for name in (_AXIS, "endpoint"))
    if origins.dtype.kind not in "iuf":
        return np.zeros(throughput.size, bool)
    which = (origins > 1) & (endpoint == "redirector")
    return np.asarray(which.broadcast_like(throughput).transpose(*throughput.dims).values.ravel())


def redirector_words(axis: str, new: Mask, old: Mask) -> str:
    """Return words after the new value of an axis if the change adds or removes redirectors; "" for other changes.

    `new` and `old` are pairs of `redirected` cells, after and before the change.
    """
    differs = new != old
    if axis != _AXIS or not differs.any():
        return ""
    what = "+ redirector" if new[differs].all() else "without redirector"
    return f" {what}" if differs.all() else f" ({what} in {differs.sum()} of {counted(differs.size, 'pair')})"


def each_redirector(axis: str, new: Mask, old: Mask) -> NDArray[np.object_]:
    """Return the `redirector_words` of each pair by itself."""
    words = np.full(new.shape, "", object)
    for after in (True, False):
        words[(new == after) & (old != after)] = redirector_words(
            axis, np.array([after]), np.array([not after])
        )
    return words
