# SPDX-License-Identifier: Apache-2.0
"""An agent's view of its pod: the container beside it, the interface on the path, connections, files, the machine."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from tpcsweep.linux.cgroups import parse_periods, parse_usage
from tpcsweep.linux.counters import CounterFile, retransmits
from tpcsweep.linux.namespaces import parse_net_dev
from tpcsweep.linux.sockets import Connection, Followed, SocketDiagnostics, means, tcp_sockets
from tpcsweep.measure.files import DestinationFiles, FirstBytes
from tpcsweep.measure.machine import Machine, Threads, numbered
from tpcsweep.testbeds.kubernetes.pod.places import CONTAINED, FILES, Sample
from tpcsweep.xrootd.servers import EXPORT

FOLDER = FILES / EXPORT.strip("/")
POLL = 0.05


class Contained:
    """The container whose CPU is measured: its counters, and connections to it."""

    def __init__(self, connections: int = 1) -> None:
        """Wait for it. The first connection is the one that the counters came over."""
        self.connections = [_connected() for _ in range(connections)]
        unit, files, *_ = socket.recv_fds(self.connections[0], 64, 3)  # what `contained.taken` sends
        self._unit = float(unit)
        self._usage, self._stat, self._proc = files
        self._threads = Threads(self._proc, lambda: numbered(self._proc))

    def cpu(self) -> float:
        return parse_usage(os.pread(self._usage, 4096, 0)) * self._unit

    def periods(self) -> tuple[int, int]:
        """Scheduling periods so far with something to run, and those in which the quota ran out."""
        return parse_periods(os.pread(self._stat, 4096, 0).decode())

    def threads(self) -> tuple[float | None, float]:
        """Cores that the busiest thread used, None before there were two looks, and threads that wait for a disk."""
        cores, waiting = self._threads.look()
        return None if math.isnan(cores) else cores, waiting

    def tcp_sockets(self) -> set[int]:
        """Return the inode numbers of the TCP sockets that its processes hold. Raises PermissionError."""
        return tcp_sockets(f"/proc/self/fd/{self._proc}", numbered(self._proc))

    def readings(self, machine: Machine) -> dict[str, Any]:
        """What every sample has, by the names of its fields: this container's CPU, and its machine's condition."""
        thread, waiting = self.threads()
        condition = machine.look()._asdict()
        of_sample = {name: value for name, value in condition.items() if name in Sample._fields}
        periods, throttled = self.periods()
        return {
            "thread": thread,
            "waiting": waiting,
            **of_sample,
            "cpu": self.cpu(),
            "periods": periods,
            "throttled": throttled,
        }


class Watched:
    """Everything of a pod that is sampled, opened once."""

    def __init__(
        self, contained: Contained, port: int, interfaces: Collection[str], peers: Collection[str]
    ) -> None:
        """`port` is the server's own, and `peers` are the addresses of the other side's origins."""
        self._contained = contained
        self._port = port
        self._interfaces = interfaces
        self._peers = frozenset(peers)
        self._machine = Machine()
        self._net = CounterFile("/proc/net/dev")
        self._snmp = CounterFile("/proc/net/snmp")
        self._sockets = SocketDiagnostics()
        self._flows = Followed()
        self.files = DestinationFiles(FOLDER, _first_bytes())

    def sample(self) -> Sample:
        """All counters, now. Files first, then the interface: what has arrived has then crossed it."""
        payload = self.files.arrived()
        counted = parse_net_dev(self._net.read().decode())
        net = [counted[interface] for interface in self._interfaces]
        now = time.monotonic()
        data = self._connections()
        flows = self._flows.look(data)
        rtt, cwnd = means(data) if data else (None, None)
        return Sample(
            time=now,
            received=sum(each["rx_bytes"] for each in net),
            sent=sum(each["tx_bytes"] for each in net),
            **self._contained.readings(self._machine),
            payload=payload,
            retransmits=retransmits(self._snmp.read()),
            **{f"data_{name}": value for name, value in flows.items()},
            rtt=rtt,
            cwnd=cwnd,
            connections=len(data),
        )

    def busy(self) -> bool:
        """Return whether the server copies, has requests of clients before it, or may have them.

        Nodes whose security modules hide a container's open files from the others of its pod leave that unknown.
        """
        try:
            held = self._contained.tcp_sockets()
        except PermissionError:
            return True
        return bool(self._connections()) or self._sockets.unfinished(self._port, held) > 0

    def _connections(self) -> list[Connection]:
        return [connection for connection in self._sockets.connections() if connection.remote in self._peers]


async def repeat(look: Callable[[], None], interval: float) -> None:
    """Look every `interval` seconds until cancelled.

    A late look does not shift those that follow; what was missed is skipped.
    """
    due = time.monotonic()
    while True:
        due = max(due + interval, time.monotonic())
        await asyncio.sleep(due - time.monotonic())
        look()


def _first_bytes() -> FirstBytes | None:
    """None where the node has no watch left, which others may have used up; transfers then have no first byte."""
    try:
        return FirstBytes(FOLDER)
    except OSError as error:
        sys.stderr.write(f"when first bytes arrive will not be known: {error}\n")
        return None


def _connected() -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(CONTAINED))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(POLL)
        else:
            return connection
