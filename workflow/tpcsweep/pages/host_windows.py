# SPDX-License-Identifier: Apache-2.0
"""Windows that limit settings of endpoints by the kernels of recorded hosts, with the sysctl that enlarges them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.host_buffers import RECEIVE, HostBuffer, limiting_buffers
from tpcsweep.data.labels import STATUS
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION


class HostWindow(NamedTuple):
    buffer: HostBuffer
    shares: NDArray[np.float64]
    """Share of each setting's sending time that it limited, in the median of repetitions; NaN for other settings."""

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentences on some of the settings; "" if the window limits none of them."""
        shares = 100 * self.shares[held & np.isfinite(self.shares)]
        if not shares.size:
            return ""
        share = between(float(shares.min()), float(shares.max()))
        return f"In {counted(shares.size, 'setting')}, {self._words(share)}"

    def of_setting(self, at: int) -> str:
        """Return the sentences on a setting; "" if the window does not limit it."""
        share = 100 * self.shares[at]
        return f"By the record of hosts, {self._words(short(share))}" if np.isfinite(share) else ""

    def _words(self, share: str) -> str:
        sysctl, hosts, size = self.buffer
        names = " and ".join(hosts)
        window, place = (
            (f"the receive window of {names}", f"on {names} (now {value_text('tcp_buffer', int(size))})")
            if sysctl == RECEIVE
            else ("the send buffer", "on the sending host")
        )
        return (
            f"{window} stopped senders for {share} % of the time in which their kernels had data to send. "
            f"Raise the third number of {sysctl} {place}."
        )


def host_windows(summary: xr.Dataset) -> list[HostWindow]:
    """Return the windows that limit settings of a dataset."""
    ok = summary["status"] == STATUS.index("ok")
    return [
        HostWindow(buffer, shares.where(ok).median(REPETITION).values.ravel())
        for buffer, shares in limiting_buffers(summary).items()
    ]


def window_lines(windows: Sequence[HostWindow], count: int) -> list[str]:
    """Return a line for each of `count` settings that a window limits, and "" for others."""
    return [" ".join(filter(None, (window.of_setting(at) for window in windows))) for at in range(count)]
