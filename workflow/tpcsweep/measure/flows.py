"""What data connections have done together, though they come and go: counters that only grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tpcsweep.linux.sockets import Connection


@dataclass(frozen=True)
class Flows:
    """Sums over all connections that were ever seen, of what the kernel counts for each (see `Connection`).

    What a connection does after the last look at it is missed: an interval of sampling at most.
    """

    busy: float = 0.0
    """Connection-seconds, like the next two."""
    rwnd_limited: float = 0.0
    sndbuf_limited: float = 0.0
    sent: int = 0
    """Bytes, like the next."""
    resent: int = 0

    def grown(self, since: Flows, now: Flows) -> Flows:
        """These and what one connection has added between two looks."""
        return Flows(
            self.busy + now.busy - since.busy,
            self.rwnd_limited + now.rwnd_limited - since.rwnd_limited,
            self.sndbuf_limited + now.sndbuf_limited - since.sndbuf_limited,
            self.sent + now.sent - since.sent,
            self.resent + now.resent - since.resent,
        )


_NOTHING = Flows()


class Followed:
    """Follows connections by their cookies from look to look."""

    def __init__(self) -> None:
        self._flows = _NOTHING
        self._last: dict[int, Flows] = {}

    def look(self, connections: Sequence[Connection]) -> Flows:
        """Take in the connections that there are now; the sums until now."""
        now = {
            c.cookie: Flows(c.busy, c.rwnd_limited, c.sndbuf_limited, c.sent, c.resent) for c in connections
        }
        for cookie, flows in now.items():
            self._flows = self._flows.grown(self._last.get(cookie, _NOTHING), flows)
        self._last = now
        return self._flows


def means(connections: Sequence[Connection]) -> tuple[float, float]:
    """RTT in ms and congestion window in segments, means over connections; NaN without any."""
    count = len(connections)
    if not count:
        return math.nan, math.nan
    return sum(c.rtt for c in connections) / count, sum(c.cwnd for c in connections) / count
