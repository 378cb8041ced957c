# SPDX-License-Identifier: Apache-2.0
"""TCP buffers of recorded hosts, and cells whose windows they limited by the hosts' kernels."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import xarray as xr

from tpcsweep.data.made_with import HOSTS

RECEIVE, SEND = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
WINDOW_CLOSED = 0.25
"""Data in flight over the TCP buffer above which a window binds if the kernel reports so.
A slow reader closes windows at less."""
_FIGURES = ("host_rwnd_limited", "host_sndbuf_limited", "host_in_flight")


class HostBuffer(NamedTuple):
    """A buffer that limited windows."""

    sysctl: str
    hosts: tuple[str, ...] = ()
    """The receiving hosts; no record names the sending ones."""
    size: float = math.nan
    """Largest buffer of a connection, bytes"""


def largest_buffer(states: Sequence[Mapping[str, Any]], sysctl: str) -> float:
    """Return the third number of `RECEIVE` or `SEND`, the largest of some hosts' in bytes; NaN if unknown."""
    texts = (str(state.get("sysctls", {}).get(sysctl, "")).split() for state in states)
    return max((float(numbers[2]) for numbers in texts if len(numbers) == 3), default=math.nan)


def limiting_buffers(summary: xr.Dataset) -> Mapping[HostBuffer, xr.DataArray]:
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
    found[HostBuffer(SEND)] = sent.where(left & (sent > 0))
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
