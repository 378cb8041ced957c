# SPDX-License-Identifier: Apache-2.0
"""What netem's packet limit leaves of a path, by arithmetic alone: docs/open-questions.md. Pure.

How large packets are, Linux decides (tcp_tso_autosize() in net/ipv4/tcp_output.c): what the connection's pacing rate
sends in 1/1024 s (sk_pacing_shift), at least two segments (net.ipv4.tcp_min_tso_segs), at most 64 KiB. The pacing rate
is 1.2 times the connection's own (2 in slow start; net.ipv4.tcp_pacing_ca_ratio and tcp_pacing_ss_ratio).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tpcsweep.paths.plan import SUPER_PACKET, held
from tpcsweep.tcp import HEADERS

DEFAULT_LIMIT = 1000  # packets, tc-netem(8)
SEGMENTS = 2  # the fewest of a super-packet, net.ipv4.tcp_min_tso_segs
PACED = 1000 / 1024  # ms of a connection's pace that make a super-packet, 2^-sk_pacing_shift s


class Span(NamedTuple):
    """From the least to the largest of what may be."""

    low: float
    high: float


RATIO = Span(1.2, 2.0)  # pacing rate over a connection's own: congestion avoidance, slow start
REACHED = Span(0.85, 1.0)
"""What cubic keeps of a path that drops what is above its cap. The least is what was measured: 0.85 with 32 real
transfers at 120 and 240 ms (docs/shipped-sweeps.md, netem-limit). That is less than the 0.925 of connections that do
nothing but back off together: cubic comes back from 0.7 of its window to all of it along a curve whose mean is
1 − 0.3/4 (RFC 9438). Connections that never back off together keep all of it."""
ABOUT_1 = Span(1 / 1.5, 1.5)  # Gbit/s that count as about 1, as for the claim chep2023.rtt120_cap


@dataclass(frozen=True)
class Setup:
    """A path with a packet limit, as far as it is known."""

    delay: float
    """ms that netem holds a packet of data: the RTT where it is on the sender's side alone, half of it on both."""
    mtu: int = 9000  # bytes
    offloads: bool = True  # whether senders make super-packets
    limit: int = DEFAULT_LIMIT  # packets of each queue
    queues: int = 1  # how many data leave through

    @property
    def packets(self) -> Span:
        """Bytes of the smallest and of the largest packet that full connections make."""
        if not self.offloads:
            return Span(self.mtu, self.mtu)
        return Span(min(SEGMENTS * (self.mtu - HEADERS) + HEADERS, SUPER_PACKET), SUPER_PACKET)

    @property
    def crossover(self) -> Span:
        """Connections up to which packets may be large, and from which on they are the smallest.

        Zero without offloads: packets do not change there.
        """
        if not self.offloads:
            return Span(0, 0)
        each = self.queues * self.limit * PACED / self.delay
        return Span(RATIO.low * each, RATIO.high * each)

    def cap(self, streams: float) -> Span:
        """Gbit/s on the wire that the limit leaves to so many connections; a span where packets may have any size."""
        smallest, largest = (self.queues * held(self.limit, round(size), self.delay) for size in self.packets)
        return Span(smallest, smallest if streams > self.crossover.high else largest)

    def goodput(self, streams: float) -> Span:
        """Gbit/s of TCP's payload that cubic makes of the cap, without anything else that binds.

        A super-packet has its headers once while the queue counts it. Of files over TLS it is 16384/16406 (RFC 8446).
        """
        smallest, largest = self.packets
        fullest = smallest if streams > self.crossover.high else largest
        least, most = self.cap(streams)
        return Span(
            least * (1 - HEADERS / smallest) * REACHED.low, most * (1 - HEADERS / fullest) * REACHED.high
        )


def rtt_exponent(near: Span, far: Span, rtts: tuple[float, float], other: float = math.inf) -> Span:
    """Exponents of RTT that the caps of two RTTs may make.

    The steepest is from the largest packets to the smallest; the flattest from the largest of the far path to the
    same, as packets are no smaller on the near one.

    Args:
        near: the cap at the shorter RTT, Gbit/s.
        far: that at the longer one.
        rtts: both, to which delays are proportional.
        other: Gbit/s that something else lets through.
    """
    longer = rtts[1] / rtts[0]
    steepest = min(far.low, other) / min(near.high, other)
    flattest = min(far.high, other) / min(far.high * longer, other)
    return Span(math.log(steepest, longer), math.log(flattest, longer))
