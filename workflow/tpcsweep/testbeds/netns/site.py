"""What a deployment hands over to whoever measures: endpoints, the client, files, counters."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tpcsweep.broken import BrokenError
from tpcsweep.client.handle import Client, Event
from tpcsweep.linux.cgroups import Cgroup, named, parse_usage
from tpcsweep.linux.commands import Commands
from tpcsweep.linux.counters import CounterFile, retransmits
from tpcsweep.linux.namespaces import entered, parse_net_dev
from tpcsweep.linux.sockets import Connection, SocketDiagnostics
from tpcsweep.measure.files import Arrival, Arrivals, add_source, forget
from tpcsweep.measure.flows import Followed, means
from tpcsweep.measure.machine import Machine, Threads, together
from tpcsweep.measure.readings import Reading, Sampler
from tpcsweep.paths import Link, PathError, measure_rtt
from tpcsweep.testbeds.netns import state, topology
from tpcsweep.tools import TOOLS, Place
from tpcsweep.xrootd.monitoring import Copy, Monitor
from tpcsweep.xrootd.servers import PORT, READY_FILE, Server

SETTLE_SECONDS = 10.0
SIDES = {"source": "src", "destination": "dst"}


class SettleError(BrokenError):
    """Transfers of the last cell do not end."""


class Health(Protocol):
    """Whether the processes of a deployment are as they should be."""

    def fault(self) -> str | None:
        """The first that has ended, and its last words; None while all run."""

    def answer(self) -> None:
        """Raise BrokenError unless every server answers now."""


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
        self._machine = Machine()
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
        known = {group.name for group in (client, path, *sides["src"].groups, *sides["dst"].groups)}
        # Redirectors, which are no side's, and no strangers either.
        redirectors = [group for group in named(client.tree, f"{prefix}-") if group.name not in known]
        self._cpu["redirectors"] = _usage(tuple(redirectors))
        self._snmp: list[CounterFile] = []
        self._sockets: list[SocketDiagnostics] = []
        for origin in sides["src"].origins:
            with entered(f"{prefix}-{origin.name}"):
                self._snmp.append(CounterFile("/proc/thread-self/net/snmp"))
                self._sockets.append(SocketDiagnostics())
        self._servers: dict[str, SocketDiagnostics] = {}
        for origin in (origin for side in sides.values() for origin in side.origins):
            with entered(f"{prefix}-{origin.name}"):
                self._servers[origin.name] = SocketDiagnostics()
        self._ports = [f"tpc-{origin.name}" for origin in sides["src"].origins]
        self._remote = {origin.address for origin in sides["dst"].origins}
        self._flows = Followed()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._threads = {
            "source": [Threads(self._proc, group.pids) for group in sides["src"].groups],
            "destination": [Threads(self._proc, group.pids) for group in sides["dst"].groups],
            "client": [Threads(self._proc, client.pids)],
        }

    def read(self, arrivals: Arrivals) -> Reading:
        """One reading. Raises OSError when something of the deployment has gone.

        Files first, then the path: however long a busy machine takes in between, what has arrived has crossed it.
        """
        payload = arrivals.arrived()
        near, far = parse_net_dev(self._near.read().decode()), parse_net_dev(self._far.read().decode())
        now = time.monotonic()
        cpu = {name: _seconds(counted) for name, counted in self._cpu.items()}
        ours = sum(map(sum, cpu.values())) + time.process_time()
        connections = self._connections()
        flows = self._flows.look(connections)
        rtt, cwnd = means(connections)
        threads = {name: together(each.look() for each in watched) for name, watched in self._threads.items()}
        machine = self._machine.look()  # last: it takes half a millisecond now and then
        return Reading(
            time=now,
            payload=payload,
            source_bytes=sum(near[port]["rx_bytes"] for port in self._ports),
            wire_bytes=far[topology.PATH_INTERFACE]["rx_bytes"],
            source_cpu=cpu["source"],
            destination_cpu=cpu["destination"],
            client_cpu=sum(cpu["client"]),
            path_cpu=sum(cpu["path"]),
            machine_busy=machine.busy,
            machine_steal=machine.steal,
            machine_total=machine.total,
            machine_others=machine.tasks - ours,
            machine_pressure=_known(machine.pressure),
            machine_work=machine.work,
            machine_slowed=_known(machine.slowed),
            retransmits=sum(retransmits(snmp.read()) for snmp in self._snmp),
            **vars(flows),
            rtt_loaded=rtt,
            cwnd=cwnd,
            connections=len(connections),
            source_thread=threads["source"].cores,
            destination_thread=threads["destination"].cores,
            client_thread=threads["client"].cores,
            source_waiting=threads["source"].waiting,
            destination_waiting=threads["destination"].waiting,
        )

    def unfinished(self) -> list[str]:
        """The origins that still have to do with a connection of a client or of another origin."""
        return [
            name
            for name, server in self._servers.items()
            # Of tools that bring their own servers there are connections across the path alone.
            if server.unfinished(PORT) or any(c.remote in self._remote for c in server.connections())
        ]

    def _connections(self) -> list[Connection]:
        """Those of source origins across the path."""
        return [
            c for diagnostics in self._sockets for c in diagnostics.connections() if c.remote in self._remote
        ]

    def close(self) -> None:
        """Close every file and socket."""
        files: list[CounterFile | Machine | SocketDiagnostics] = [
            self._machine,
            self._near,
            self._far,
            *self._snmp,
            *(file for pairs in self._cpu.values() for file, _ in pairs),
            *self._sockets,
            *self._servers.values(),
        ]
        for file in files:
            file.close()
        os.close(self._proc)


def _known(value: float | None) -> float:
    return math.nan if value is None else value


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
    client_group: Cgroup
    counters: Counters
    arrivals: Arrivals
    monitor: Monitor
    commands: Commands
    health: Health
    provenance: dict[str, Any]
    rtt_idle: float
    """ms, measured on the path before any cell."""
    bandwidth_found: float
    """Gbit/s, the smaller of both directions, measured then too."""
    path_slow: bool
    """Whether that is less than was asked."""

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
        path = self.link.counters()
        found: dict[str, int | None] = {
            "path_drops": path["drops"],
            "path_queue_drops": path["dropped_queue"],
        }
        groups = {name: self.sides[side].groups for name, side in SIDES.items()} | {
            "client": (self.client_group,)
        }
        for name, limited in groups.items():
            periods = [group.periods() for group in limited]
            found[f"{name}_periods"] = sum(all_ for all_, _ in periods)
            found[f"{name}_throttled"] = sum(throttled for _, throttled in periods)
        return found

    def received(self, event: Event) -> Arrival:
        """Remove the destination file of a transfer that has ended; what had arrived in it.

        The next transfer reads from the disk again.
        """
        if self.sides["src"].disk:
            forget(self.sides["src"].files)
        return self.arrivals.remove(event["name"])

    def present(self) -> dict[str, Arrival]:
        """What had arrived in the files of transfers that have not ended, when it was last sampled."""
        return self.arrivals.present()

    def copies(self) -> list[Copy]:
        """What XRootD's own monitoring has said since the last call."""
        return self.monitor.copies()

    def settle(self) -> None:
        """After the client has stopped: end what the servers still copy and remove what arrived.

        A server notices only at its next marker, up to 5 s later, that its client has gone, and would load the
        next cell until then; cutting its data connections ends the copy at once. One that lacks CPU has requests
        before it that it has not even read: it is cut off again and again until it has been through them all.
        Raises SettleError.
        """
        give_up = time.monotonic() + SETTLE_SECONDS
        self._cut()
        while busy := self.counters.unfinished():
            if time.monotonic() > give_up:
                raise SettleError(
                    f"{', '.join(busy)}: still busy with transfers {SETTLE_SECONDS:g} s after their end"
                )
            time.sleep(0.01)
            self._cut()
        self.arrivals.clear(READY_FILE)

    def _cut(self) -> None:
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            for origin in self.sides[side].origins:
                kill = ["ss", "--kill", "--tcp", "--no-header", "dst", topology.LAN[other]]
                self.commands.run(["nsenter", f"--net={state.NETNS / f'{self.prefix}-{origin.name}'}", *kill])

    def check(self) -> None:
        """Raise BrokenError where a process of the deployment has ended; costs microseconds."""
        if fault := self.health.fault() or self.link.fault():
            raise BrokenError(fault)

    def explain(self, error: BrokenError) -> str:
        """What has broken, where something else shows it."""
        return self.health.fault() or self.link.fault() or str(error)

    def ready(self) -> None:
        """Raise BrokenError unless every server and the path answer now."""
        self.health.answer()
        address, mtu = self.link.far_address, self.link.path.mtu
        try:
            measure_rtt(self.commands, self.link.near, address, mtu)
        except PathError as error:
            raise BrokenError(
                f"the path is down: no ping of {mtu} bytes comes back from {address}"
            ) from error
