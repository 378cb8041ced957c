# SPDX-License-Identifier: Apache-2.0
"""Settings whose streams share a rate that no cell shows by itself: other streams fill the pauses of each; pure.

Time between files is each stream's own. If nothing else binds, *n* streams have *n* times the throughput of one, pauses
included. Where they have far less, they share a rate limit, such as a shaper, pacing, a disk or another device, and
longer files would only make the other streams slower.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.labels import SIMULATED
from tpcsweep.data.variables import NONE_FOUND, NOT_VISIBLE, SHARES

_OWN = 0.5
"""Throughput of a stream over that of one among fewer streams, below which its own pauses are not the limit."""
_AXIS, _PAUSES = "streams", "between_files"
SHARED, UNDECIDED = "shared_rate", "undecided_pauses"
"""Variables of settings with the limit `between_files`: whether their streams share a rate, and whether nobody knows,
because there is no setting with fewer streams."""
Mask = NDArray[np.bool_]


def shared_rates(settings: xr.Dataset) -> tuple[Mask, Mask]:
    """Return the settings with `SHARED`, beyond their intervals, and those with `UNDECIDED`.

    Both have the dimensions of `throughput`.
    """
    rates = settings["throughput"]
    paused = settings["limit"].values == _PAUSES
    if _AXIS not in settings.coords or settings.attrs.get("testbed_kind") == SIMULATED:
        return np.zeros_like(paused), np.zeros_like(paused)
    streams = settings[_AXIS].broadcast_like(rates).transpose(*rates.dims).values
    low, high = (
        settings.get(f"throughput_{end}", rates).fillna(rates).values / streams for end in ("low", "high")
    )
    fewer = np.full(rates.shape, np.nan)
    if _AXIS in rates.dims:
        along = rates.get_axis_num(_AXIS)
        order = np.argsort(settings[_AXIS].values)
        best = np.fmax.accumulate(np.moveaxis(low, along, 0)[order])
        np.moveaxis(fewer, along, 0)[order[1:]] = best[:-1]
    return paused & (high < _OWN * fewer), paused & (streams > 1) & np.isnan(fewer)


def without_filled_pauses(settings: xr.Dataset) -> xr.Dataset:
    """Return settings with `SHARED` and `UNDECIDED`; where the first is true, no known cause has the pauses' time."""
    shared, undecided = shared_rates(settings)
    whole = settings["throughput"]
    settings = settings.assign({SHARED: whole.copy(data=shared), UNDECIDED: whole.copy(data=undecided)})
    if not shared.any():
        return settings
    unseen = (
        settings["source_cpu"].isnull().values if "source_cpu" in settings else np.ones(shared.shape, bool)
    )
    unexplained = np.where(unseen, NOT_VISIBLE, NONE_FOUND).astype(object)
    changed: dict[Hashable, NDArray[Any]] = {"limit": np.where(shared, unexplained, settings["limit"].values)}
    if "limit_second" in settings:
        second = settings["limit_second"].values
        changed["limit_second"] = np.where(shared & (second == unexplained), "", second)
    if (pauses := SHARES[_PAUSES]) in settings:
        filled = np.where(shared, settings[pauses].values, 0.0)
        changed[pauses] = settings[pauses].values - filled
        for limit in (NONE_FOUND, NOT_VISIBLE):
            if SHARES[limit] in settings:
                changed[SHARES[limit]] = settings[SHARES[limit]].values + filled * (unexplained == limit)
    return settings.assign({name: settings[name].copy(data=values) for name, values in changed.items()})
