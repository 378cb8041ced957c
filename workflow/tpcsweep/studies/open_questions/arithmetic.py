"""What netem's packet limit leaves of a path, by arithmetic alone. Pure.

A packet stays in netem for its delay, so that by Little's law no more than limit × packet / delay leave in a time. The
limit of 1000 packets is what tc-netem(8) takes by itself. A packet is what the queue counts: with offloads a GSO
super-packet is one. How large those are, Linux decides (tcp_tso_autosize() in net/ipv4/tcp_output.c): what the
connection's pacing rate sends in 1/1024 s (sk_pacing_shift), at least two segments (net.ipv4.tcp_min_tso_segs), at most
64 KiB; and the pacing rate is 1.2 times the connection's own (2 in slow start; net.ipv4.tcp_pacing_ca_ratio and
tcp_pacing_ss_ratio).

So what decides is the rate of one connection. At the cap each of n connections has limit × packet / (delay × n), and
packets pay for themselves, that is, a connection's pace makes packets as large as it sends, as long as

    n ≤ ratio × limit × 1/1024 s / delay.

With more connections packets shrink until they have two segments, and the cap no longer depends on how many there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tpcsweep.paths.plan import SUPER_PACKET, held
from tpcsweep.tcp import HEADERS

DEFAULT_LIMIT = 1000
"""Packets, tc-netem(8)."""
SEGMENTS = 2
"""The fewest of a super-packet, net.ipv4.tcp_min_tso_segs."""
PACED = 1000 / 1024
"""ms of a connection's pace that make a super-packet, 2^-sk_pacing_shift s."""


class Span(NamedTuple):
    """From the least to the largest of what may be."""

    low: float
    high: float

    def times(self, other: Span) -> Span:
        """Products of positive spans."""
        return Span(self.low * other.low, self.high * other.high)

    def overlaps(self, other: Span) -> bool:
        """Whether they have anything in common."""
        return self.low <= other.high and other.low <= self.high


RATIO = Span(1.2, 2.0)
"""Pacing rate over a connection's own: congestion avoidance, slow start."""
REACHED = Span(0.85, 1.0)
"""What cubic keeps of a path that drops what is above its cap. The least is what was measured: 0.85 with 32 real
transfers at 120 and 240 ms (docs/shipped-sweeps.md, netem-limit). That is less than the 0.925 of connections that do
nothing but back off together: cubic comes back from 0.7 of its window to all of it along a curve whose mean is
1 − 0.3/4 (RFC 9438). Connections that never back off together keep all of it."""
ABOUT_1 = Span(1 / 1.5, 1.5)
"""Gbit/s that count as about 1, as for the claim chep2023.rtt120_cap."""


@dataclass(frozen=True)
class Setup:
    """A path with a packet limit, as far as it is known.

    delay: ms that netem holds a packet of data, the whole RTT where it is on the sender's side alone, half of it
    where both sides have one. limit: packets of each queue. queues: how many data leave through. mtu: bytes.
    offloads: whether senders make super-packets.
    """

    delay: float
    mtu: int = 9000
    offloads: bool = True
    limit: int = DEFAULT_LIMIT
    queues: int = 1

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
        payload = Span(1 - HEADERS / smallest, 1 - HEADERS / fullest)
        return self.cap(streams).times(payload).times(REACHED)


def rtt_exponent(near: Span, far: Span, rtts: tuple[float, float], other: float = math.inf) -> Span:
    """Exponents of RTT that the caps of two RTTs may make, where nothing passes more than `other` Gbit/s.

    near, far: the caps at the shorter and at the longer of `rtts`, to which delays are proportional. The steepest is
    from the largest packets to the smallest; the flattest from the largest of the far path to the same, as packets
    are no smaller on the near one.
    """
    longer = rtts[1] / rtts[0]
    steepest = min(far.low, other) / min(near.high, other)
    flattest = min(far.high, other) / min(far.high * longer, other)
    return Span(math.log(steepest, longer), math.log(flattest, longer))


def published() -> Iterable[tuple[str, float, int, bool, int]]:
    """What is not known of the published set-up, in all combinations.

    Where the delay was set, ms of it for each ms of RTT, MTU, offloads, and the interfaces with a queue.
    """
    sides = (("one side", 1.0), ("half on each side", 0.5))
    for (side, share), mtu, offloads, queues in itertools.product(sides, (1500, 9000), (True, False), (1, 2)):
        yield side, share, mtu, offloads, queues
