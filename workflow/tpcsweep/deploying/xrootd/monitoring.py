# SPDX-License-Identifier: Apache-2.0
"""XRootD's monitoring of third-party copies: the `tpc` g-stream, JSON over UDP.

A datagram has a header and one line for each copy. Times are UTC with unpadded microseconds: "43.60931Z" is 60931 µs
after second 43. The size of a failed copy is the size moved until then. Copies by the root protocol are skipped,
because all their records have size 0.

Sources: the XRootD System Monitoring Reference, and the datagrams of release 5.5.3.
"""

import datetime
import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from tpcsweep.deploying.xrootd.server_config import LOOPBACK, MONITOR_PORT

LATE = 5.0
"""Seconds after a copy's end until its record may arrive.
Servers send once a second, by a clock of whole seconds; a server that waits for its CPU quota is later."""
READINGS = 5  # comparisons of both clocks, of which the shortest counts
_DATAGRAM = 1 << 16
_TIME = re.compile(r"(?P<seconds>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(?P<microseconds>\d{1,6})Z")


class Copy(NamedTuple):
    name: str  # file name at the destination
    begin: float  # start of the server's work, seconds of CLOCK_MONOTONIC
    end: float  # end of the copy, seconds of CLOCK_MONOTONIC
    connections: int  # requested TCP connections
    size: int  # bytes moved
    code: int  # 0 for success
    direction: str  # `pull` or `push`


def parse_datagram(datagram: bytes, to_monotonic: Callable[[float], float]) -> list[Copy]:
    """Return the copies in a datagram. Raises ValueError if it is not from the monitoring.

    `to_monotonic` converts seconds since 1970 to those of CLOCK_MONOTONIC.
    """
    try:
        lines = [json.loads(line) for line in datagram.rstrip(b"\0").splitlines() if line.strip()]
        return [
            Copy(
                name=urlsplit(line["Dst"]).path.rpartition("/")[2],
                begin=to_monotonic(_seconds(line["Xeq"]["Beg"])),
                end=to_monotonic(_seconds(line["Xeq"]["End"])),
                connections=int(line["Xeq"]["Strm"]),
                size=int(line["Size"]),
                code=int(line["Xeq"]["RC"]),
                direction=str(line["Xeq"]["Type"]),
            )
            for line in lines
            if line.get("TPC") == "http"
        ]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        # Not quoted, because URLs may contain tokens.
        raise ValueError(f"not a datagram of XRootD's TPC monitoring: {error!r}") from None


def _seconds(text: str) -> float:
    parts = _TIME.fullmatch(text)
    if not parts:
        raise ValueError(f"{text!r} is no time of XRootD's monitoring")
    whole = datetime.datetime.fromisoformat(f"{parts['seconds']}Z")
    return whole.timestamp() + int(parts["microseconds"]) * 1e-6


def clock() -> Callable[[float], float]:
    """Return a function that converts seconds since 1970 to CLOCK_MONOTONIC, by their current difference."""
    # Another process may run between two readings; the fastest readings are closest together.
    readings = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(READINGS)]
    before, now, after = min(readings, key=lambda reading: reading[2] - reading[0])
    ahead = now - (before + after) / 2
    return lambda seconds: seconds - ahead


class Monitor:
    """Receiver of the records that servers send to their own loopbacks."""

    def __init__(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on UDP sockets, one in the network of each server; `close` closes them."""
        self._sockets = list(sockets)
        for each in self._sockets:
            each.setblocking(False)
            each.bind((LOOPBACK, MONITOR_PORT))

    def copies(self) -> list[Copy]:
        """Return the copies reported since the last call. Raises ValueError for other datagrams."""
        copies: list[Copy] = []
        for each in self._sockets:
            with suppress(BlockingIOError):
                while True:
                    copies += parse_datagram(each.recv(_DATAGRAM), clock())
        return copies

    def close(self) -> None:
        for each in self._sockets:
            each.close()
