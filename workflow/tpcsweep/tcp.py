# SPDX-License-Identifier: Apache-2.0
"""Theory of TCP connections, as pure functions.

Rates and the bandwidth C are in Gbit/s, RTTs in ms and more than 0, sizes, windows and the MTU in bytes; loss is a
share of packets, more than 0. `packets_per_ack` is b, the number of packets that grow a window like one: 1 if it grows
with every packet (also with delayed ACKs if bytes are counted, as Linux does), 2 with counted delayed ACKs.

Functions of `Numbers` take arrays of any shapes that broadcast, and return an array.
"""

import math
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpcsweep.variables import BYTES, GBIT_PER_MS

_Number = TypeVar("_Number", int, float, NDArray[np.float64])
Numbers: TypeAlias = NDArray[np.float64] | float

HEADERS = 52
"""Bytes of a packet before the payload: IPv4, TCP and its timestamps (RFC 791, RFC 9293, RFC 7323)."""

PLAIN_HEADERS = 40  # bytes of IPv4 and TCP headers without options
INITIAL_WINDOW = 10  # segments of a connection's first window (RFC 6928, 2013)
CUBIC_C, CUBIC_BETA = 0.4, 0.7  # CUBIC's constants (RFC 9438, 2023, sections 4.1 and 4.6)


def payload(mtu: _Number) -> _Number:
    """Return the payload of a full packet in bytes, its MSS, with TCP's timestamps."""
    return mtu - HEADERS


def first_window(mtu: _Number) -> _Number:
    """Return the bytes that a new connection sends before the first is acknowledged."""
    return payload(mtu) * INITIAL_WINDOW


def window_rate(window: Numbers, rtt: Numbers) -> NDArray[np.float64]:
    """Return the rate that a window of data in flight allows: window/RTT.

    Source: V. Jacobson, R. Braden, D. Borman, RFC 1323, 1992, section 1.1.
    """
    return np.asarray(GBIT_PER_MS * np.asarray(window) / rtt)


def slow_start(most: Numbers, first: Numbers) -> NDArray[np.float64]:
    """Return the round trips in which doubling windows send `most`: log₂(1 + most/first).

    The first round trip sends `first`, in the same unit. Source: RFC 5681, 2009, section 3.1; N. Cardwell, S. Savage,
    T. Anderson, Modeling TCP latency, INFOCOM 2000.
    """
    return np.asarray(np.log2(1 + np.asarray(most) / first))


def growth_rounds(most: Numbers, first: Numbers) -> NDArray[np.float64]:
    """Return the round trips in which a window grows beyond the first: max(0, log₂(1 + most/first) − 1).

    A connection sends its first window with the handshakes, and `most` in its largest window or in all, in the same
    unit. Source: as for `slow_start`.
    """
    return np.maximum(0.0, slow_start(most, first) - 1)


def mathis(
    payload: Numbers, rtt: Numbers, loss: Numbers, packets_per_ack: float = 1.0
) -> NDArray[np.float64]:
    """Return the rate of a Reno connection under random loss: MSS/RTT·√(3/2b)/√p.

    Source: M. Mathis, J. Semke, J. Mahdavi, T. Ott, Computer Communication Review 27(3), 1997.
    """
    return np.asarray(GBIT_PER_MS * payload / rtt * np.sqrt(1.5 / (packets_per_ack * loss)))


def cubic(payload: float, rtt: float, loss: float) -> float:
    """Return the rate of a CUBIC connection under random loss if it does not grow as Reno would.

    Its mean window is ∜(C·(3+β)/(4·(1−β)))·(RTT/p)^¾ segments. Source: RFC 9438, 2023, section 5.1.
    """
    factor = math.pow(CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA)), 0.25)
    window = factor * math.pow(rtt / 1000 / loss, 0.75)
    return window * payload * GBIT_PER_MS / rtt


def recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return the seconds that Reno needs to recover from one loss: C·RTT²/(2·MSS), without TCP options.

    Half of a window of C·RTT/MSS is lost, and returns by one segment each round trip. Source: RFC 5681, 2009, section
    3.1; TERENA 2005 has this formula.
    """
    return bandwidth * BYTES * (rtt / 1000) ** 2 / (2 * (mtu - PLAIN_HEADERS))
