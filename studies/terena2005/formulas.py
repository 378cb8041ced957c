# SPDX-License-Identifier: Apache-2.0
"""Formulas of a TCP stream: its share of a path, and its recovery time after a loss; pure functions.

Rates and the bandwidth are in Gbit/s, RTTs in ms, the MTU in bytes; loss is a share of packets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpcsweep.common.numbers import GBIT_PER_MS
from tpcsweep.measuring.tcp import CUBIC_BETA, CUBIC_C, cubic, mathis, payload


def payload_share(mtu: int) -> float:
    """Return the payload's share of the bandwidth on a full path."""
    return payload(mtu) / mtu


def utilisation(bandwidth: float, rtt: float, mtu: int, loss: float, packets_per_ack: float = 1) -> float:
    """Return the payload of one Reno connection as a share of the bandwidth, by `mathis`.

    It is at most that of a full path.
    """
    own = float(mathis(payload(mtu), rtt, loss, packets_per_ack))
    return min(payload_share(mtu), own / bandwidth)


def cubic_utilisation(bandwidth: float, rtt: float, mtu: int, loss: float) -> float:
    """Return the payload of one CUBIC connection as a share of the bandwidth.

    CUBIC is never slower than Reno (RFC 9438, section 4.3).
    """
    own = cubic(payload(mtu), rtt, loss) / bandwidth
    return min(payload_share(mtu), max(own, utilisation(bandwidth, rtt, mtu, loss)))


def cubic_recovery_time(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return CUBIC's recovery time in s: K = ∛(W·(1−β)/C), or less where it grows like Reno.

    In that region the window grows by 3·(1−β)/(1+β) segments each round trip. Source: RFC 9438, 2023, sections 4.2 and
    4.3.
    """
    window = bandwidth * rtt / (GBIT_PER_MS * payload(mtu))
    lost = window * (1 - CUBIC_BETA)
    friendly = lost / (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)) * rtt / 1000
    return min(math.cbrt(lost / CUBIC_C), friendly)


def bdp_packets(bandwidth: float, rtt: float, mtu: int) -> float:
    """Return the packets that fill a path without a queue: C·RTT/MTU."""
    return bandwidth * rtt / (GBIT_PER_MS * mtu)


def shares(mtus: Sequence[int]) -> list[float]:
    """Return the shares of Reno connections that differ only in MTU and have equal loss: as their MSS.

    This follows from `mathis`.
    """
    segments = [payload(mtu) for mtu in mtus]
    return [segment / sum(segments) for segment in segments]
