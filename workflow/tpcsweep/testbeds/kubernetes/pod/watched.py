# SPDX-License-Identifier: Apache-2.0
"""An agent's view of its pod: the server container, the interface on the path, connections, files, the machine."""

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from tpcsweep.errors import BrokenError
from tpcsweep.linux.cgroups import parse_periods, parse_usage
from tpcsweep.linux.counters import CounterFile
from tpcsweep.linux.namespaces import parse_net_dev
from tpcsweep.linux.sockets import ConnectionTotals
from tpcsweep.measure.files import DestinationFiles, FirstBytes
from tpcsweep.measure.looks import PAUSE, Looks
from tpcsweep.measure.machine import Machine, process_ids
from tpcsweep.testbeds.kubernetes.pod.places import FILES, SERVER_CONTAINER_SOCKET, Sample
from tpcsweep.testbeds.node.counters import OriginCounters, Programs
from tpcsweep.xrootd.servers import EXPORT

FOLDER = FILES / EXPORT.strip("/")
POLL = 0.05


class ContainerPrograms(Programs):
    """The programs in the container whose CPU is measured, connections to it, and the machine."""

    def __init__(self, connections: int = 1) -> None:
        """Wait for the container, and get its counters by the first connection."""
        self.connections = [_connected() for _ in range(connections)]
        unit, files, *_ = socket.recv_fds(self.connections[0], 64, 3)  # sent by `server_container.taken`
        usage, stat, proc = files
        super().__init__(
            cpu=lambda: parse_usage(os.pread(usage, 4096, 0)) * float(unit),
            periods=lambda: parse_periods(os.pread(stat, 4096, 0).decode()),
            proc=proc,
            pids=lambda: process_ids(proc),
        )
        self._machine = Machine()

    def readings(self) -> dict[str, Any]:
        """Return the fields of every sample: the container's CPU, and its machine's condition."""
        cores, waiting = self.threads()
        machine = {f"machine_{name}": value for name, value in self._machine.read()._asdict().items()}
        counted = {**machine, **self.totals(), "thread": cores, "waiting": waiting, "cpu": self.cpu()}
        return {name: value for name, value in counted.items() if name in Sample._fields}


class Watched(OriginCounters):
    """The counters of an origin's pod, opened once."""

    def __init__(
        self, contained: ContainerPrograms, port: int, interfaces: Collection[str], peers: Collection[str]
    ) -> None:
        """`port` is the server's own, and `peers` are the addresses of the other side's origins."""
        super().__init__(contained, port, peers)
        self._contained = contained
        self._interfaces = interfaces
        self._net = CounterFile("/proc/net/dev")
        self._flows = ConnectionTotals()
        self.files = DestinationFiles(FOLDER, _first_bytes())

    def sample(self) -> Sample:
        """Read all counters: files before the interface, which all arrived bytes have then crossed."""
        payload = self.files.arrived()
        counted = parse_net_dev(self._net.read().decode())
        net = [counted[interface] for interface in self._interfaces]
        now = time.monotonic()
        flows = self._flows.update(self.connections())
        return Sample(
            time=now,
            rx_bytes=sum(each["rx_bytes"] for each in net),
            tx_bytes=sum(each["tx_bytes"] for each in net),
            **self._contained.readings(),
            payload=payload,
            retransmits=self.retransmits(),
            **flows,
        )

    def busy(self) -> bool:
        """Return whether the server copies, or has requests; True on nodes that hide a container's open files."""
        try:
            return self.unfinished() > 0
        except PermissionError:
            return True


class Sampling:
    """Looks at equal intervals; a late look shifts no other, and missed ones are skipped.

    A failed look is a missing sample. If samples stop for long (`Looks`), the reason is reported once.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        """`report` is called with the reason for which samples have stopped."""
        self._report = report
        self._looks: Looks | None = None  # None without a cell, and after a report
        self._task: asyncio.Task[None] | None = None

    async def start(self, look: Callable[[], None], interval: float) -> None:
        """Look now and every `interval` seconds from now on, and end the looks that were started before.

        Raises BrokenError if no look succeeds.
        """
        self.cancel()
        looks = Looks(look, interval)
        await _look_until_success(looks)
        self._looks, self._task = looks, asyncio.create_task(self._repeat(looks, interval))

    async def stop(self) -> None:
        """Look a last time, so that samples reach the cell's end."""
        looks = self._looks
        self.cancel()
        if looks:
            with self._reported():
                await _look_until_success(looks)

    def cancel(self) -> None:
        self._looks = None
        if self._task:
            self._task.cancel()

    async def _repeat(self, looks: Looks, interval: float) -> None:
        due = time.monotonic()
        with self._reported():
            while True:
                due = max(due + interval, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
                looks.attempt()

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._looks = None
            self._report(str(error) if isinstance(error, BrokenError) else repr(error))


async def _look_until_success(looks: Looks) -> None:
    while not looks.attempt():
        await asyncio.sleep(PAUSE)


def _first_bytes() -> FirstBytes | None:
    """Return None if the node has no inotify watch left; transfers then have no first byte."""
    try:
        return FirstBytes(FOLDER)
    except OSError as error:
        sys.stderr.write(f"when first bytes arrive will not be known: {error}\n")
        return None


def _connected() -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(SERVER_CONTAINER_SOCKET))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(POLL)
        else:
            return connection
