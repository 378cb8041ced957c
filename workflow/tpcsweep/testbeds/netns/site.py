"""What a deployment hands over to whoever measures: endpoints, the client, files, counters."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.cgroups import Cgroup, parse_usage
from tpcsweep.commands import Commands
from tpcsweep.measure.files import Arrivals, add_source, forget
from tpcsweep.measure.linux import CounterFile, machine, retransmits
from tpcsweep.measure.readings import Reading, Sampler
from tpcsweep.measure.sockets import SocketDiagnostics
from tpcsweep.namespaces import entered, parse_net_dev
from tpcsweep.paths import Link
from tpcsweep.testbeds.clients import Client
from tpcsweep.testbeds.netns import state, topology
from tpcsweep.tools import TOOLS, Place
from tpcsweep.xrootd import Server

SETTLE_SECONDS = 10.0


class SettleError(Exception):
    """Transfers of the last cell do not end."""


@dataclass(frozen=True)
class Side:
    """One side's servers, their groups, and the folder of their files."""

    redirector: Server | None
    origins: tuple[Server, ...]
    groups: tuple[Cgroup, ...]
    """One for each origin."""
    files: Path
    disk: bool = False
    """Whether they are on a disk, and not in memory."""

    @property
    def servers(self) -> list[Server]:
        """All of them, origins first."""
        return [*self.origins, *([self.redirector] if self.redirector else [])]

    def base_urls(self, endpoint: str) -> list[str]:
        """Where the client sends its requests: the redirector alone, or every origin by hand."""
        if endpoint == "redirector" and self.redirector:
            return [self.redirector.url]
        return [origin.url for origin in self.origins]


class Counters:
    """Everything that is read ten times a second, opened once."""

    def __init__(self, prefix: str, sides: dict[str, Side], client: Cgroup, path: Cgroup) -> None:
        self._sides = sides
        self._stat = CounterFile("/proc/stat")
        with entered(f"{prefix}-near"):
            self._near = CounterFile("/proc/thread-self/net/dev")
        with entered(f"{prefix}-far"):
            self._far = CounterFile("/proc/thread-self/net/dev")
        self._cpu = {
            "source": _usage(sides["src"].groups),
            "destination": _usage(sides["dst"].groups),
            "client": _usage((client,)),
            "path": _usage((path,)),
        }
        self._snmp: list[CounterFile] = []
        self._sockets: list[SocketDiagnostics] = []
        for origin in sides["src"].origins:
            with entered(f"{prefix}-{origin.name}"):
                self._snmp.append(CounterFile("/proc/thread-self/net/snmp"))
                self._sockets.append(SocketDiagnostics())
        self._ports = [f"tpc-{origin.name}" for origin in sides["src"].origins]
        self._remote = {origin.address for origin in sides["dst"].origins}

    def read(self, arrivals: Arrivals) -> Reading:
        """One reading. Raises OSError when something of the deployment has gone."""
        near, far = parse_net_dev(self._near.read().decode()), parse_net_dev(self._far.read().decode())
        busy, steal, total = machine(self._stat.read())
        connections = [
            connection
            for diagnostics in self._sockets
            for connection in diagnostics.connections()
            if connection.remote in self._remote
        ]
        count = len(connections)
        cpu = {name: _seconds(counted) for name, counted in self._cpu.items()}
        return Reading(
            time=time.monotonic(),
            payload=arrivals.arrived(),
            source_bytes=sum(near[port]["rx_bytes"] for port in self._ports),
            wire_bytes=far[topology.PATH_INTERFACE]["rx_bytes"],
            source_cpu=cpu["source"],
            destination_cpu=cpu["destination"],
            client_cpu=sum(cpu["client"]),
            path_cpu=sum(cpu["path"]),
            machine_busy=busy,
            machine_steal=steal,
            machine_total=total,
            retransmits=sum(retransmits(snmp.read()) for snmp in self._snmp),
            rtt_loaded=sum(c.rtt for c in connections) / count if count else math.nan,
            cwnd=sum(c.cwnd for c in connections) / count if count else math.nan,
            connections=count,
        )

    def connected(self) -> bool:
        """Whether a source origin still has a connection across the path."""
        return any(c.remote in self._remote for s in self._sockets for c in s.connections())

    def close(self) -> None:
        """Close every file and socket."""
        files: list[CounterFile | SocketDiagnostics] = [
            self._stat,
            self._near,
            self._far,
            *self._snmp,
            *(file for pairs in self._cpu.values() for file, _ in pairs),
            *self._sockets,
        ]
        for file in files:
            file.close()


def _usage(groups: tuple[Cgroup, ...]) -> list[tuple[CounterFile, float]]:
    return [(CounterFile(file), unit) for file, unit in (group.usage_file() for group in groups)]


def _seconds(files: list[tuple[CounterFile, float]]) -> tuple[float, ...]:
    return tuple(parse_usage(file.read()) * unit for file, unit in files)


@dataclass
class Site:
    """A deployment that is up."""

    prefix: str
    sides: dict[str, Side]
    link: Link
    clients: Mapping[Place, Client]
    """By where the tools run; that of `client` is always there."""
    counters: Counters
    arrivals: Arrivals
    commands: Commands
    provenance: dict[str, Any]
    rtt_idle: float
    """ms, measured on the path before any cell."""

    @property
    def client(self) -> Client:
        """The one outside of both sides."""
        return self.clients["client"]

    def client_of(self, tool: str) -> Client:
        """The one that is where a tool runs."""
        return self.clients[TOOLS[tool].place]

    @property
    def folders(self) -> tuple[str, str]:
        """Where the files of source and destination are."""
        source, destination = (str(self.sides[side].files) for side in topology.SIDES)
        return source, destination

    def pairs(self, endpoint: str) -> list[tuple[str, str]]:
        """(source, destination) base URLs, of the redirectors or of the origins one by one."""
        return list(zip(*(self.sides[side].base_urls(endpoint) for side in topology.SIDES), strict=True))

    def read(self) -> Reading:
        """All counters, now."""
        return self.counters.read(self.arrivals)

    def sampler(self, interval: float) -> Sampler:
        """Reads all counters every `interval` seconds while it is entered."""
        return Sampler(self.read, interval)

    def add_source(self, size: int, content: str, streams: int) -> str:
        """Make a source file of `size` bytes unless it is there; its name. Sparse files take no memory.

        From a disk each stream reads a file of its own, whose name has its number where the name here has `{stream}`:
        of one that all read, all but the first would find the bytes in memory.
        """
        source = self.sides["src"]
        if not source.disk:
            return add_source(source.files, size, content)
        for stream in range(streams):
            add_source(source.files, size, content, f".{stream}")
        forget(source.files)
        return f"{content}.{size}.{{stream}}"

    def totals(self) -> dict[str, int | None]:
        """Counters that are looked at only before and after a cell: packets dropped, periods, throttled periods."""
        found: dict[str, int | None] = {"path_drops": self.link.counters()["drops"]}
        for name, side in zip(("source", "destination"), topology.SIDES, strict=True):
            periods = [group.periods() for group in self.sides[side].groups]
            found[f"{name}_periods"] = sum(all_ for all_, _ in periods)
            found[f"{name}_throttled"] = sum(throttled for _, throttled in periods)
        return found

    def remove(self, name: str) -> None:
        """Remove a destination file whose transfer has ended, and have the next one read from the disk again."""
        self.arrivals.remove(name)
        if self.sides["src"].disk:
            forget(self.sides["src"].files)

    def settle(self) -> None:
        """After the client has stopped: end what the servers still copy and remove what arrived.

        A server notices only at its next marker, up to 5 s later, that its client has gone, and would load the
        next cell until then; cutting its data connections ends the copy at once. Raises SettleError.
        """
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            for origin in self.sides[side].origins:
                kill = ["ss", "--kill", "--tcp", "--no-header", "dst", topology.LAN[other]]
                self.commands.run(["nsenter", f"--net={state.NETNS / f'{self.prefix}-{origin.name}'}", *kill])
        give_up = time.monotonic() + SETTLE_SECONDS
        while self.counters.connected():
            if time.monotonic() > give_up:
                raise SettleError(f"connections across the path are still open after {SETTLE_SECONDS:g} s")
            time.sleep(0.01)
        self.arrivals.clear()
