"""What data connections have done together, though they come and go: counters that only grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

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


_counters = attrgetter(*(field.name for field in fields(Flows)))
_NOTHING = _counters(Flows())


class Followed:
    """Follows connections by their cookies from look to look."""

    def __init__(self) -> None:
        self._sums: list[Any] = [*_NOTHING]
        self._last: dict[int, Any] = {}

    def look(self, connections: Sequence[Connection]) -> Flows:
        """Take in the connections that there are now; the sums until now."""
        now = {connection.cookie: _counters(connection) for connection in connections}
        for cookie, counters in now.items():
            last = self._last.get(cookie, _NOTHING)
            self._sums = [
                total + new - old for total, new, old in zip(self._sums, counters, last, strict=True)
            ]
        self._last = now
        return Flows(*self._sums)


def means(connections: Sequence[Connection]) -> tuple[float, float]:
    """RTT in ms and congestion window in segments, means over connections; NaN without any."""
    count = len(connections)
    if not count:
        return math.nan, math.nan
    return sum(c.rtt for c in connections) / count, sum(c.cwnd for c in connections) / count
