# SPDX-License-Identifier: Apache-2.0
"""An agent's view of its pod: the server container, and the target of the sampler."""

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Collection

from tpcsweep.common.errors import BrokenError
from tpcsweep.deploying.linux.cgroups import CpuCounters
from tpcsweep.deploying.linux.kernel_counters import CounterFile
from tpcsweep.deploying.xrootd.server_config import EXPORT
from tpcsweep.measuring.machine import Machine, process_ids
from tpcsweep.measuring.sampler import LocalTargets, Record
from tpcsweep.measuring.transfer_files import DestinationFiles, FirstBytes
from tpcsweep.testbeds.kubernetes.pod.network import path_drops
from tpcsweep.testbeds.kubernetes.pod.pod_files import FILES, SERVER_CONTAINER_SOCKET
from tpcsweep.testbeds.node.program_counters import (
    DROPS_INTERVAL,
    Files,
    Interfaces,
    Network,
    Part,
    PathDrops,
    Programs,
    Target,
)

FOLDER = FILES / EXPORT.strip("/")
POLL = 0.05
COUNTERS = {"source": "tx_bytes", "destination": "rx_bytes"}
"""Counter of the interface on the path, by the target of an origin."""


class Container:
    """The container whose CPU is measured, and connections to it."""

    def __init__(self, connections: int = 1) -> None:
        """Wait for the container, and get its counters by the first connection."""
        self.connections = [_connected() for _ in range(connections)]
        # Sent by `server_container.taken`.
        text, descriptors, *_ = socket.recv_fds(self.connections[0], 256, 8)
        *files, self._proc = descriptors
        names = json.loads(text)
        counters = {name: CounterFile(file) for name, file in zip(names, files, strict=True)}
        self._cpu = CpuCounters(counters).read

    def programs(self, target: str) -> Programs:
        """Return the reader of the container's programs, which are those of a `target` of the sampler."""
        return Programs(target, self._cpu, self._proc, lambda: process_ids(self._proc))


class OriginPod:
    """An origin's pod, whose files and sockets are opened once."""

    def __init__(
        self,
        container: Container,
        target: str,
        port: int,
        interfaces: Collection[str],
        peers: Collection[str],
    ) -> None:
        """`port` is the server's own, and `peers` are the addresses of the other side's origins."""
        programs = container.programs(target)
        self.files = DestinationFiles(FOLDER, _first_bytes())
        self._network = Network(target, programs, port, peers)
        arrived: list[Part] = [Files(self.files)] if target == "destination" else []
        self.target = Target(
            *arrived,
            Interfaces(target, interfaces, COUNTERS[target]),
            programs,
            self._network,
            PathDrops(path_drops, DROPS_INTERVAL),
            Machine(),
        )

    def busy(self) -> bool:
        """Return whether the server copies, or has requests; True on nodes that hide a container's open files."""
        try:
            return self._network.unfinished() > 0
        except PermissionError:
            return True


class AgentSampling:
    """An agent's sampling: records and the reason for which they stop go to the hub, in the event loop's thread."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._targets: LocalTargets | None = None  # None without a cell

    async def start(self, read: Callable[[], Record], interval: float) -> None:
        """Read a target now and at each interval, and end earlier sampling. Raises BrokenError if nothing is read."""
        if self._targets:
            await asyncio.to_thread(self._targets.end)
        loop = asyncio.get_running_loop()

        def call(function: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the agent has ended
                loop.call_soon_threadsafe(function)

        def receive(_: str, record: Record) -> None:
            call(lambda: self._say(sample=record))

        def report(error: Exception) -> None:
            if self._targets is targets:
                self._report(error)

        targets = LocalTargets({"": read}, lambda error: call(lambda: report(error)))
        await asyncio.to_thread(targets.start, interval, receive)
        self._targets = targets

    async def stop(self) -> None:
        """Read a last time, so that records reach the cell's end."""
        targets, self._targets = self._targets, None
        if targets:
            try:
                await asyncio.to_thread(targets.stop)
            except Exception as error:
                self._report(error)

    def cancel(self) -> None:
        if self._targets:
            self._targets.cancel()
        self._targets = None

    def _report(self, error: Exception) -> None:
        self._targets = None
        self._say(stopped=str(error) if isinstance(error, BrokenError) else repr(error))


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
