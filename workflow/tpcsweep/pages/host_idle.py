# SPDX-License-Identifier: Apache-2.0
"""Time without data under way in streams whose limit is not known, by the kernels of sending hosts; pure functions."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.variables import UNEXPLAINED

_LEAST = 0.3  # share of the time from which it is named
_WORDS = (
    "by the record of hosts no data was under way for {} % of the streams' time: the source had none to send, as "
    "between files. Larger files, or more streams, fill such pauses."
)


class HostIdle(NamedTuple):
    shares: NDArray[np.float64]
    """Share of each setting's time; NaN for settings with a known limit, without records, and below `_LEAST`."""

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentences on some of the settings; "" if none of them has such time."""
        shares = 100 * self.shares[held & np.isfinite(self.shares)]
        if not shares.size:
            return ""
        share = between(float(shares.min()), float(shares.max()))
        return f"In {counted(shares.size, 'setting')}, {_WORDS.format(share)}"

    def lines(self) -> list[str]:
        """Return a line for each setting with such time, and "" for others."""
        return [
            f"B{_WORDS.format(short(100 * share, 2))[1:]}" if np.isfinite(share) else ""
            for share in self.shares.tolist()
        ]


def host_idle(settings: xr.Dataset, limits: NDArray[Any]) -> HostIdle:
    """Return the time without data of settings from `data.repetitions.settings_of`, whose limits are known."""
    rates = settings["throughput"]
    if not {"host_busy", "host_connections"} <= settings.keys():
        return HostIdle(np.full(rates.size, np.nan))
    streams, each = (settings.coords.get(name, 1) for name in ("streams", "tcp_streams"))
    busy = settings["host_busy"] * (settings["host_connections"] / (streams * each)).clip(max=1.0)
    idle = 1 - busy.transpose(*rates.dims).values.ravel()
    return HostIdle(np.where(np.isin(limits, UNEXPLAINED) & (idle >= _LEAST), idle, np.nan))
