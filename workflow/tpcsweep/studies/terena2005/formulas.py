"""What theory says of one TCP connection on a long fat path. Pure; bandwidths in Gbit/s, RTTs in ms, sizes in bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpcsweep.models.base import HEADERS, mathis

PUBLISHED_HEADERS = 40
"""Bytes of IPv4 and TCP headers without options, as the publication's own formula has them; its hosts' are not known.
What is simulated and measured here has the timestamp option too, `HEADERS`, as has every other formula."""

CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""CUBIC's constants (RFC 9438, 2023, section 4.1 and 4.6)."""


def mss(mtu: int) -> int:
    """Give the payload of a packet."""
    return mtu - int(HEADERS)


def full(mtu: int) -> float:
    """Give the share of the bandwidth that is payload on a path that is full."""
    return mss(mtu) / mtu


def bdp_packets(bandwidth: float, rtt: float, mtu: int) -> float:
    """Give the packets that fill a path without a queue: C·RTT/(8·MTU)."""
    return bandwidth * 1e6 * rtt / (8 * mtu)


def recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Give the seconds that Reno takes to recover from one loss: r = C·RTT²/(2·MSS), C in bytes a second, as published.

    Half of a window of C·RTT/MSS is lost, and comes back by one segment a round trip (RFC 5681, 2009, section 3.1).
    """
    return bandwidth * 1e9 / 8 * (rtt / 1000) ** 2 / (2 * (mtu - PUBLISHED_HEADERS))


def cubic_recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Give the seconds that CUBIC takes: K = ∛(W·(1−β)/C), or less where it grows as Reno would (RFC 9438).

    That region's window grows by 3·(1−β)/(1+β) segments a round trip (section 4.3).
    """
    window = bandwidth * 1e6 * rtt / (8 * mss(mtu))
    lost = window * (1 - CUBIC_BETA)
    friendly = lost / (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)) * rtt / 1000
    return min(math.cbrt(lost / CUBIC_C), friendly)


def utilisation(bandwidth: float, rtt: float, mtu: int, loss: float, packets_per_ack: float = 1) -> float:
    """Give the payload of one Reno connection under random loss, as a share of the bandwidth; at most a full path's.

    packets_per_ack: 1 where the window grows with every packet (also with delayed ACKs where bytes are counted, as
    Linux does), 2 with delayed ACKs that are counted (Mathis and others 1997).
    """
    return min(full(mtu), float(mathis(mss(mtu), rtt, loss, packets_per_ack)) / bandwidth)


def cubic_utilisation(bandwidth: float, rtt: float, mtu: int, loss: float) -> float:
    """Give the same for CUBIC: a mean window of ∜(C·(3+β)/(4·(1−β)))·(RTT/p)^¾ segments, or Reno's if that is larger.

    RFC 9438, section 5.1.
    """
    factor = math.pow(CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA)), 0.25)
    window = factor * math.pow(rtt / 1000 / loss, 0.75)
    own = window * mss(mtu) * 8e-6 / rtt / bandwidth
    return min(full(mtu), max(own, utilisation(bandwidth, rtt, mtu, loss)))


def shares(mtus: Sequence[int]) -> list[float]:
    """Give the shares of Reno connections that differ in MTU alone and lose the same share of packets: as their MSS.

    By Mathis and others 1997, where the rate is MSS/RTT·√(3/2p).
    """
    segments = [mss(mtu) for mtu in mtus]
    return [one / sum(segments) for one in segments]
