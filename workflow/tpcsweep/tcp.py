# SPDX-License-Identifier: Apache-2.0
"""The theory of TCP connections. Pure.

Rates and the bandwidth C are in Gbit/s, RTTs in ms and more than 0, sizes, windows and the MTU in bytes; loss is a
share of packets, more than 0. `packets_per_ack` is b, the packets for which a window grows as for one: 1 where it grows
with every packet (also with delayed ACKs where bytes are counted, as Linux does), 2 with delayed ACKs that are counted.

Functions of `Numbers` take arrays of any shapes that broadcast, and return an array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tpcsweep.variables import BYTES, GBIT_PER_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.float64] | float"

HEADERS = 52
"""Bytes of a packet that are no payload: IPv4, TCP and its timestamps (RFC 791, RFC 9293, RFC 7323)."""

PLAIN_HEADERS = 40
"""The same without options."""

INITIAL_WINDOW = 10
"""Segments that a connection begins with (RFC 6928, 2013)."""

CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""CUBIC's constants (RFC 9438, 2023, sections 4.1 and 4.6)."""


def payload(mtu: int) -> int:
    """Return the payload of a full packet in bytes, its MSS, with TCP's timestamps."""
    return mtu - HEADERS


def payload_share(mtu: int) -> float:
    """Return the share of the bandwidth that is payload on a path that is full."""
    return payload(mtu) / mtu


def window_rate(window: Numbers, rtt: Numbers) -> NDArray[np.float64]:
    """Return the rate at which a window of data under way leaves: window/RTT.

    Source: V. Jacobson, R. Braden, D. Borman, RFC 1323, 1992, section 1.1.
    """
    return np.asarray(GBIT_PER_MS * np.asarray(window) / rtt)


def slow_start(most: Numbers, first: Numbers) -> NDArray[np.float64]:
    """Return the round trips after which doubling windows have sent `most`: log₂(1 + most/first).

    The first round trip sends `first`, in the same unit. Source: RFC 5681, 2009, section 3.1; N. Cardwell, S. Savage,
    T. Anderson, Modeling TCP latency, INFOCOM 2000.
    """
    return np.asarray(np.log2(1 + np.asarray(most) / first))


def mathis(
    payload: Numbers, rtt: Numbers, loss: Numbers, packets_per_ack: float = 1.0
) -> NDArray[np.float64]:
    """Return the rate of a Reno connection under random loss: MSS/RTT·√(3/2b)/√p.

    Source: M. Mathis, J. Semke, J. Mahdavi, T. Ott, Computer Communication Review 27(3), 1997.
    """
    return np.asarray(GBIT_PER_MS * payload / rtt * np.sqrt(1.5 / (packets_per_ack * loss)))


def cubic(payload: float, rtt: float, loss: float) -> float:
    """Return the rate of a CUBIC connection under random loss where it does not grow as Reno would.

    Its mean window is ∜(C·(3+β)/(4·(1−β)))·(RTT/p)^¾ segments. Source: RFC 9438, 2023, section 5.1.
    """
    factor = math.pow(CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA)), 0.25)
    window = factor * math.pow(rtt / 1000 / loss, 0.75)
    return window * payload * GBIT_PER_MS / rtt


def utilisation(bandwidth: float, rtt: float, mtu: int, loss: float, packets_per_ack: float = 1) -> float:
    """Return the payload of one Reno connection as a share of the bandwidth, by `mathis`; at most a full path's."""
    own = float(mathis(payload(mtu), rtt, loss, packets_per_ack))
    return min(payload_share(mtu), own / bandwidth)


def cubic_utilisation(bandwidth: float, rtt: float, mtu: int, loss: float) -> float:
    """Return the same of one CUBIC connection, which is never slower than Reno (RFC 9438, section 4.3)."""
    own = cubic(payload(mtu), rtt, loss) / bandwidth
    return min(payload_share(mtu), max(own, utilisation(bandwidth, rtt, mtu, loss)))


def recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return the seconds that Reno takes to recover from one loss: C·RTT²/(2·MSS), the MSS without options.

    Half of a window of C·RTT/MSS is lost, and comes back by one segment a round trip. Source: RFC 5681, 2009, section
    3.1; TERENA 2005 has this formula.
    """
    return bandwidth * BYTES * (rtt / 1000) ** 2 / (2 * (mtu - PLAIN_HEADERS))


def cubic_recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return the seconds that CUBIC takes: K = ∛(W·(1−β)/C), or less where it grows as Reno would.

    That region's window grows by 3·(1−β)/(1+β) segments a round trip. Source: RFC 9438, 2023, sections 4.2 and 4.3.
    """
    window = bandwidth * rtt / (GBIT_PER_MS * payload(mtu))
    lost = window * (1 - CUBIC_BETA)
    friendly = lost / (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)) * rtt / 1000
    return min(math.cbrt(lost / CUBIC_C), friendly)


def bdp_packets(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return the packets that fill a path without a queue: C·RTT/MTU."""
    return bandwidth * rtt / (GBIT_PER_MS * mtu)


def shares(mtus: Sequence[int]) -> list[float]:
    """Return the shares of Reno connections that differ in MTU alone and lose the same share of packets: as their MSS.

    Follows from `mathis`.
    """
    segments = [payload(mtu) for mtu in mtus]
    return [segment / sum(segments) for segment in segments]
