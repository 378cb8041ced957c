# SPDX-License-Identifier: Apache-2.0
"""Throughput that netem's packet limit allows on a path, and on every possible published set-up.

Linux determines the size of packets (tcp_tso_autosize() in net/ipv4/tcp_output.c): the data that the connection's
pacing rate sends in 1/1024 s (sk_pacing_shift), at least two segments (net.ipv4.tcp_min_tso_segs), at most 64 KiB. The
pacing rate is 1.2 times the connection's own (2 in slow start; net.ipv4.tcp_pacing_ca_ratio and tcp_pacing_ss_ratio).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from tpcsweep.deploying.paths.network_path import SUPER_PACKET, queue_rate
from tpcsweep.measuring.tcp import HEADERS

DEFAULT_LIMIT = 1000  # packets, tc-netem(8)
SEGMENTS = 2  # fewest segments of a super-packet, net.ipv4.tcp_min_tso_segs
PACED = 1000 / 1024  # ms of a connection's pace in a super-packet, 2^-sk_pacing_shift s


class Span(NamedTuple):
    """Smallest and largest possible value."""

    low: float
    high: float


RTT = 120.0  # ms, of question (1)
STREAMS = (100, 500)
NEAR, FAR = 10.0, 60.0  # ms, of question (2)
DELAYS = {"one side": 1.0, "half on each side": 0.5}
"""Possible sides of the delay, with the share of the RTT on each."""
RATIO = Span(1.2, 2.0)  # pacing rate over a connection's own: congestion avoidance, slow start
REACHED = Span(0.85, 1.0)
"""Share of a path's packet cap that cubic achieves.
0.85 was measured with 32 real transfers at 120 and 240 ms (docs/shipped-sweeps.md, netem-limit). Connections that never
back off together achieve 1. Connections that always do achieve 0.925, the mean of cubic's curve from 0.7 of its window
to all of it (RFC 9438)."""
ABOUT_1 = Span(1 / 1.5, 1.5)  # Gbit/s that count as about 1, as for the claim chep2023.rtt120_cap


@dataclass(frozen=True)
class Setup:
    """Path with a packet limit, as far as known."""

    delay: float
    """ms that netem delays a data packet: the RTT if only the sender's side delays, half of it if both do."""
    mtu: int = 9000  # bytes
    offloads: bool = True  # whether senders make super-packets
    limit: int = DEFAULT_LIMIT  # packets of each queue
    queues: int = 1  # number of queues that data leave through

    def times(self, factor: float) -> Setup:
        """Return the path with a `factor` times longer RTT."""
        return replace(self, delay=factor * self.delay)

    @property
    def packets(self) -> Span:
        """Bytes of the smallest and of the largest packet that full connections make."""
        if not self.offloads:
            return Span(self.mtu, self.mtu)
        return Span(min(SEGMENTS * (self.mtu - HEADERS) + HEADERS, SUPER_PACKET), SUPER_PACKET)

    @property
    def crossover(self) -> Span:
        """Numbers of connections up to which packets may be large, and from which they are smallest.

        Zero without offloads, which fix the size of packets.
        """
        if not self.offloads:
            return Span(0, 0)
        each = self.queues * self.limit * PACED / self.delay
        return Span(RATIO.low * each, RATIO.high * each)

    def cap(self, streams: float) -> Span:
        """Return the Gbit/s on the wire that the limit allows; a span if packets may have any size."""
        smallest, largest = (
            self.queues * queue_rate(self.limit, round(size), self.delay) for size in self.packets
        )
        return Span(smallest, smallest if streams > self.crossover.high else largest)

    def goodput(self, streams: float) -> Span:
        """Return the Gbit/s of TCP's payload that cubic achieves within the cap, without other limits.

        A super-packet, which the queue counts as one, has its headers once. The files are 16384/16406 of it with TLS
        (RFC 8446).
        """
        smallest, largest = self.packets
        fullest = smallest if streams > self.crossover.high else largest
        least, most = self.cap(streams)
        return Span(
            least * (1 - HEADERS / smallest) * REACHED.low, most * (1 - HEADERS / fullest) * REACHED.high
        )


def rtt_exponent(near: Span, far: Span, rtts: tuple[float, float], other: float = math.inf) -> Span:
    """Return the exponents of RTT that the caps of two RTTs allow.

    The steepest is from the largest packets to the smallest; the flattest keeps the largest packets of the far path,
    because packets are no smaller on the near path.

    Args:
        near: Cap at the shorter RTT, Gbit/s.
        far: Cap at the longer RTT.
        rtts: Both RTTs, to which delays are proportional.
        other: Gbit/s of another limit.
    """
    longer = rtts[1] / rtts[0]
    steepest = min(far.low, other) / min(near.high, other)
    flattest = min(far.high, other) / min(far.high * longer, other)
    return Span(math.log(steepest, longer), math.log(flattest, longer))


def setups() -> Iterator[tuple[dict[str, Any], Setup]]:
    """Yield every possible published set-up: its unknowns, and its path at an RTT of 1 ms."""
    for side, mtu, offloads, queues in itertools.product(DELAYS, (1500, 9000), (True, False), (1, 2)):
        unknown = {"delay": side, "MTU": mtu, "offloads": "on" if offloads else "off", "interfaces": queues}
        yield unknown, Setup(DELAYS[side], mtu, offloads, queues=queues)


def first() -> pd.DataFrame:
    """Question (1): return goodput in Gbit/s at 120 ms over the streams, one row for each set-up."""
    rows = []
    for unknown, path in setups():
        spans = [path.times(RTT).goodput(count) for count in STREAMS]
        low, high = min(span.low for span in spans), max(span.high for span in spans)
        about = low <= ABOUT_1.high and ABOUT_1.low <= high
        crossover = path.times(RTT).crossover.high
        rows.append(
            {**unknown, "from streams": crossover, "least": low, "most": high, "about 1 Gbit/s": about}
        )
    return pd.DataFrame(rows)


def second(streams: int, others: Sequence[float]) -> pd.DataFrame:
    """Question (2): return the exponent of RTT from 10 to 60 ms by netem's limit, one row for each set-up.

    `others` are further limits in Gbit/s.
    """
    rows = []
    for (unknown, path), other in itertools.product(setups(), others):
        low, high = rtt_exponent(
            path.times(NEAR).cap(streams), path.times(FAR).cap(streams), (NEAR, FAR), other
        )
        inverse = bool(np.isclose(low, -1) and np.isclose(high, -1))
        rows.append({**unknown, "other limit": other, "least": low, "most": high, "1/RTT": inverse})
    return pd.DataFrame(rows)
