# SPDX-License-Identifier: Apache-2.0
"""The rate of a path that TCP connections filled, from observations of both ends. Pure.

A low rate counts only if the path was full, by Little's law: see docs/kubernetes.md. The observations are those of
`tcp_probes`, which need no privilege.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tpcsweep.common.numbers import BYTES, GBIT
from tpcsweep.deploying.paths import verification
from tpcsweep.deploying.paths.network_path import wire_bytes
from tpcsweep.deploying.paths.verification import BANDWIDTH_TOLERANCE, FoundRate, allowed_rtt

CONNECTIONS = (4, 32)  # the fewest and the most connections of each source
WINDOW = 0.1  # seconds
ENOUGH = 5  # windows with a full path from which its rate is known
LATE = 0.03  # the most seconds between two looks of an agent, as the path may not have been full in between
DELAYED_ACK_SEGMENTS = 2  # segments of a connection that a receiver may acknowledge late (RFC 9293, 3.8.6.3)
WINDOW_SHARE = 0.5
"""The window's share of a TCP buffer; the rest is the kernel's bookkeeping (ip-sysctl, tcp_adv_win_scale)."""


class RequestedPath(verification.RequestedPath, Protocol):
    """A path as configured, and the TCP buffers of its ends in bytes."""

    @property
    def tcp_buffer(self) -> int: ...


class Flow(NamedTuple):
    """Observations of both ends of a pair while its source filled the path; times in s of one clock, rising."""

    looks: Sequence[tuple[float, int]]  # at the source: segments under way
    counts: Sequence[tuple[float, int, int]]  # at the destination: bytes and packets received
    connections: int
    mss: int  # bytes of payload in a segment
    header: int  # bytes around it
    interface: str = ""
    """The interface of its destination; flows that share it have the same counts. Empty: a flow shares it with none."""


class Window(NamedTuple):
    """A stretch of time: Gbit/s that arrived in it, and whether the path was full all the time."""

    rate: float
    full: bool


def probe_connections(wanted: RequestedPath, sources: int) -> int:
    """Return the number of connections of each source, whose windows hold twice the path's content. Pure."""
    fewest, most = CONNECTIONS
    needed = 2 * _held(wanted) / sources / (WINDOW_SHARE * wanted.tcp_buffer)
    return max(fewest, min(most, math.ceil(needed)))


def fillable(wanted: RequestedPath, sources: int) -> bool:
    """Return whether the windows of these connections hold the path's content, and do not bound its rate. Pure."""
    held = sources * probe_connections(wanted, sources) * WINDOW_SHARE * wanted.tcp_buffer
    return held > _held(wanted)


def windows(flows: Sequence[Flow], rtt: float, warm_up: float) -> list[Window]:
    """Return the common windows of flows, from `warm_up` seconds on. Pure.

    `rtt` is that of the empty path, in ms.
    """
    every = [series for flow in flows for series in (flow.looks, flow.counts)]
    if not all(every):
        return []
    first = max(series[0][0] for series in every) + max(warm_up, rtt / 1000)
    last = min(series[-1][0] for series in every)
    # A rounding error must not cost the last window.
    number = max(0, math.floor((last - first) / WINDOW + 1e-6))
    shared: dict[str, list[Flow]] = {}
    for index, flow in enumerate(flows):
        shared.setdefault(flow.interface or str(index), []).append(flow)
    shares = [[_share(some, first + WINDOW * i, rtt) for some in shared.values()] for i in range(number)]
    return [Window(sum(share.rate for share in each), all(share.full for share in each)) for each in shares]


def path_rate(looked_at: Sequence[Window], asked: float) -> FoundRate:
    """Return the rate of the windows of one or several looks. Pure.

    The rate of a path that was never full is known if the rate `asked`, in Gbit/s, arrived.
    """
    full = [window.rate for window in looked_at if window.full]
    enough = len(full) >= ENOUGH
    rates = full if enough else [window.rate for window in looked_at]
    median = statistics.median(rates) if rates else 0.0
    known = enough or median >= asked * (1 + BANDWIDTH_TOLERANCE[0])
    return FoundRate(median, known, len(looked_at), len(full))


def _share(flows: Sequence[Flow], begin: float, rtt: float) -> Window:
    """Return a window of flows that share an interface."""
    end = begin + WINDOW
    flow = flows[0]
    counts = np.array(flow.counts, float)
    received, packets = (
        np.diff(np.interp((begin, end), counts[:, 0], counts[:, column])).item() for column in (1, 2)
    )
    wire = wire_bytes({"rx_bytes": received, "rx_packets": packets}, flow.mss, flow.header)
    # Data that arrives in a window was under way up to an RTT before.
    seen = [_during(np.array(each.looks, float), begin - rtt / 1000, end) for each in flows]
    times = [*(each[:, 0] for each in seen), _during(counts, begin, end)[:, 0]]
    punctual = max(np.diff(each).max(initial=0.0) for each in times) <= LATE
    held_back = DELAYED_ACK_SEGMENTS * sum(each.connections for each in flows)
    waiting = (sum(each[:, 1].min() for each in seen) - held_back) * (flow.mss + flow.header)
    # A full path holds more at every look than an empty one at the rate that arrived.
    empty = wire / WINDOW * (rtt + allowed_rtt(rtt)) / 1000
    return Window(wire * GBIT / WINDOW, bool(punctual and waiting > empty))


def _during(series: np.ndarray[Any, Any], begin: float, end: float) -> np.ndarray[Any, Any]:
    """Return the rows from the last one before `begin` to the first one after `end`; the first column has times."""
    times = series[:, 0]
    first = max(0, int(np.searchsorted(times, begin, side="right")) - 1)
    return series[first : int(np.searchsorted(times, end, side="left")) + 1]


def _held(wanted: RequestedPath) -> float:
    return wanted.bandwidth * BYTES * wanted.rtt / 1000
