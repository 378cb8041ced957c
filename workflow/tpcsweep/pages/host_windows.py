# SPDX-License-Identifier: Apache-2.0
"""Windows that limit settings of endpoints by the kernels of recorded hosts, with the sysctl that enlarges them."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.host_buffers import RECEIVE, SEND, WINDOW_CLOSED, largest_buffer
from tpcsweep.data.labels import STATUS
from tpcsweep.data.made_with import HOSTS, hosts_of_data
from tpcsweep.pages.full_rates import RateOfHost
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION

_FIGURES = ("host_rwnd_limited", "host_sndbuf_limited", "host_in_flight")


class HostBuffer(NamedTuple):
    """A buffer that limited windows."""

    sysctl: str
    hosts: tuple[str, ...] = ()  # the receiving or the sending ones
    size: float = math.nan
    """Largest buffer of a connection, bytes"""


class HostWindow(NamedTuple):
    buffer: HostBuffer
    shares: NDArray[np.float64]
    """Share of each setting's sending time that it limited, in the median of repetitions; NaN for other settings."""
    rates: Sequence[RateOfHost]
    """Rate limits of hosts, which are the next limits of a larger window."""

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentences on some of the settings; "" if the window limits none of them."""
        limited = held & np.isfinite(self.shares)
        if not limited.any():
            return ""
        shares = 100 * self.shares[limited]
        share = between(float(shares.min()), float(shares.max()))
        return self._with_rates(f"In {counted(shares.size, 'setting')}, {self._words(share)}", limited)

    def of_setting(self, at: int) -> str:
        """Return the sentences on a setting; "" if the window does not limit it."""
        share, here = 100 * self.shares[at], np.arange(self.shares.size) == at
        if not np.isfinite(share):
            return ""
        return self._with_rates(f"By the record of hosts, {self._words(short(share))}", here)

    def _with_rates(self, words: str, settings: NDArray[np.bool_]) -> str:
        return " ".join(filter(None, [words, *(rate.after_window(settings) for rate in self.rates)]))

    def _words(self, share: str) -> str:
        sysctl, hosts, size = self.buffer
        names = " and ".join(hosts)
        window, place = (
            (f"the receive window of {names}", f"on {names} (now {value_text('tcp_buffer', int(size))})")
            if sysctl == RECEIVE
            else ("the send buffer", f"on {names or 'the sending host'}")
        )
        return (
            f"{window} stopped senders for {share} % of the time in which their kernels had data to send. "
            f"Raise the third number of {sysctl} {place}."
        )


def host_windows(summary: xr.Dataset, rates: Sequence[RateOfHost]) -> list[HostWindow]:
    """Return the windows that limit settings of a dataset, whose hosts have some rate limits."""
    ok = summary["status"] == STATUS.index("ok")
    return [
        HostWindow(buffer, shares.where(ok).median(REPETITION).values.ravel(), rates)
        for buffer, shares in _limiting_buffers(summary).items()
    ]


def window_lines(windows: Sequence[HostWindow], count: int) -> list[str]:
    """Return a line for each of `count` settings that a window limits, and "" for others."""
    return [" ".join(filter(None, (window.of_setting(at) for window in windows))) for at in range(count)]


def _limiting_buffers(summary: xr.Dataset) -> Mapping[HostBuffer, xr.DataArray]:
    """Return the share of sending time that each buffer limited, of cells that `window` limits; otherwise NaN."""
    if "provenance_record" not in summary or not {"limit", *_FIGURES} <= summary.keys():
        return {}
    received, sent, in_flight = (summary[name] for name in _FIGURES)
    second = summary.get("limit_second", summary["limit"])
    left = (summary["limit"] == "window") | (second == "window")
    found = {}
    for buffer, places in _receive_buffers(summary).items():
        full = (received >= sent) & (in_flight >= WINDOW_CLOSED * buffer.size)
        full &= left & summary["provenance"].isin(places)
        left &= ~full
        found[buffer] = received.where(full)
    senders, _ = hosts_of_data(summary)
    found[HostBuffer(SEND, tuple(senders))] = sent.where(left & (sent > 0))
    return {buffer: shares for buffer, shares in found.items() if shares.notnull().any()}


def _receive_buffers(summary: xr.Dataset) -> Mapping[HostBuffer, Sequence[int]]:
    """Return the receive buffers of hosts, each with the places of the records that have it."""
    places: dict[HostBuffer, list[int]] = defaultdict(list)
    for place, text in enumerate(summary["provenance_record"].values.tolist()):
        record: Mapping[str, Any] = json.loads(text)
        states, names = record.get(HOSTS) or {}, tuple(record.get("receiving_hosts") or ())
        size = largest_buffer([states.get(name, {}) for name in names], RECEIVE)
        if math.isfinite(size):
            places[HostBuffer(RECEIVE, names, size)].append(place)
    return places
