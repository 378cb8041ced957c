"""What XRootD's own monitoring says of third-party copies: the `tpc` g-stream, JSON over UDP.

A datagram has a header and a record for each copy, one a line. Times are UTC with microseconds that are not padded:
"43.60931Z" is 60931 µs after second 43. The size of a copy that failed is what it had moved. Copies by the root
protocol are left out: all of their records have the size 0. Sources: the XRootD System Monitoring Reference, and what
release 5.5.3 sends.
"""

from __future__ import annotations

import datetime
import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tpcsweep.xrootd.servers import LOOPBACK, MONITOR_PORT

LATE = 5.0
"""Seconds after a copy's end within which its record comes, or never. Servers send once a second, by a clock of whole
seconds; one that waits for its CPU quota is later."""
LOOKS = 5
"""At both clocks, of which the undisturbed one counts."""
_DATAGRAM = 1 << 16
_TIME = re.compile(r"(?P<seconds>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(?P<microseconds>\d{1,6})Z")


class Copy(NamedTuple):
    """One third-party copy, as the server that did it reports it."""

    name: str
    """File name at the destination."""
    begin: float
    """When the server took the request up, and when it was done: seconds of CLOCK_MONOTONIC."""
    end: float
    connections: int
    """That it asked for."""
    size: int
    """Bytes moved."""
    code: int
    """0 for one that ended well."""
    direction: str
    """`pull` or `push`."""


def parse(datagram: bytes, monotonic_of: Callable[[float], float]) -> list[Copy]:
    """The copies of one datagram. `monotonic_of` turns seconds since 1970 into those of CLOCK_MONOTONIC.

    Raises ValueError for what is no such datagram.
    """
    try:
        lines = [json.loads(line) for line in datagram.rstrip(b"\0").splitlines() if line.strip()]
        return [_copy(line, monotonic_of) for line in lines if line.get("TPC") == "http"]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        # Not quoted: what servers say of URLs may hold tokens.
        raise ValueError(f"not a datagram of XRootD's TPC monitoring: {error!r}") from None


def _copy(record: dict[str, Any], monotonic_of: Callable[[float], float]) -> Copy:
    done = record["Xeq"]
    return Copy(
        name=urlsplit(record["Dst"]).path.rpartition("/")[2],
        begin=monotonic_of(_seconds(done["Beg"])),
        end=monotonic_of(_seconds(done["End"])),
        connections=int(done["Strm"]),
        size=int(record["Size"]),
        code=int(done["RC"]),
        direction=str(done["Type"]),
    )


def _seconds(text: str) -> float:
    """Seconds since 1970."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time of XRootD's monitoring")
    whole = datetime.datetime.fromisoformat(found["seconds"]).replace(tzinfo=datetime.UTC)
    return whole.timestamp() + int(found["microseconds"]) * 1e-6


def clock() -> Callable[[float], float]:
    """Turns seconds since 1970 into those of CLOCK_MONOTONIC, as the clocks stand to each other now.

    Both are read some times: something else may run in between, and the times when nothing did tell.
    """
    looks = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(LOOKS)]
    before, now, after = min(looks, key=lambda look: look[2] - look[0])
    ahead = now - (before + after) / 2
    return lambda seconds: seconds - ahead


class Monitor:
    """Hears what servers tell on their own loopbacks; nobody waits: what came is fetched when it is wanted."""

    def __init__(self, sockets: Iterable[socket.socket]) -> None:
        """`sockets`: a UDP socket in the network of each server; closed with this."""
        self._sockets = list(sockets)
        for each in self._sockets:
            each.setblocking(False)
            each.bind((LOOPBACK, MONITOR_PORT))

    def copies(self) -> list[Copy]:
        """Those that were told of since the last call. Raises ValueError for what is no record."""
        found: list[Copy] = []
        for each in self._sockets:
            with suppress(BlockingIOError):
                while True:
                    found += parse(each.recv(_DATAGRAM), clock())
        return found

    def close(self) -> None:
        """Close the sockets."""
        for each in self._sockets:
            each.close()
