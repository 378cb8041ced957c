# SPDX-License-Identifier: Apache-2.0
"""What a deployment hands over to whoever measures: endpoints, the client, files, counters."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tpcsweep.client.handle import Client, Event
from tpcsweep.flags import BrokenError
from tpcsweep.linux.cgroups import Cgroup, Meter, named
from tpcsweep.linux.commands import Commands
from tpcsweep.linux.counters import CounterFile, retransmits
from tpcsweep.linux.namespaces import inside, parse_net_dev, within
from tpcsweep.linux.sockets import Followed, SocketDiagnostics, means, tcp_sockets
from tpcsweep.measure.files import Arrival, Arrivals, add_source, forget
from tpcsweep.measure.machine import Machine, Threads, together
from tpcsweep.measure.readings import Reading, Sampler
from tpcsweep.paths import Link, PathError
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.servers import Servers, Side
from tpcsweep.tools import TOOLS, Place
from tpcsweep.xrootd.monitoring import Copy, Monitor
from tpcsweep.xrootd.servers import PORT, READY_FILE

SETTLE_SECONDS = 10.0
"""A deployment is broken if its servers finish no connection for so long after a cell."""

Opened = TypeVar("Opened", CounterFile, Machine, Meter, SocketDiagnostics)


class Counters:
    """Everything that is read ten times a second, opened once."""

    def __init__(self, prefix: str, sides: dict[str, Side], client: Cgroup, path: Cgroup) -> None:
        """Open all files and sockets of a deployment; `path` is the group of the delay line."""
        self._prefix = prefix
        self._opened = contextlib.ExitStack()
        self.close = self._opened.close
        self._machine = self._open(Machine)
        net_dev, snmp = (partial(CounterFile, f"/proc/thread-self/net/{name}") for name in ("dev", "snmp"))
        self._near, self._far = (self._open(net_dev, router) for router in ("near", "far"))
        groups = {
            "source": sides["src"].groups,
            "destination": sides["dst"].groups,
            "client": (client,),
            "path": (path,),
        }
        known = {group.name for counted in groups.values() for group in counted}
        # Redirectors, which are no side's, and no strangers either.
        others = tuple(group for group in named(client.tree, f"{prefix}-") if group.name not in known)
        self._cpu = {
            name: [self._open(group.meter) for group in counted]
            for name, counted in {**groups, "redirectors": others}.items()
        }
        sources = [origin.name for origin in sides["src"].origins]
        self._snmp = [self._open(snmp, name) for name in sources]
        self._sockets = [self._open(SocketDiagnostics, name) for name in sources]
        origins = [pair for side in sides.values() for pair in zip(side.origins, side.groups, strict=True)]
        self._servers = [
            (origin.name, group, self._open(SocketDiagnostics, origin.name)) for origin, group in origins
        ]
        self._origins = {origin.address for origin, _ in origins}
        self._ports = [f"tpc-{name}" for name in sources]
        self._remote = {origin.address for origin in sides["dst"].origins}
        self._flows = Followed()
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._opened.callback(os.close, proc)
        self._threads = {
            name: [Threads(proc, group.pids) for group in groups[name]]
            for name in ("source", "destination", "client")
        }

    def _open(self, make: Callable[[], Opened], node: str = "") -> Opened:
        """Open something until `close`, in the network of a node if one is given."""
        opened = within(f"{self._prefix}-{node}", make) if node else make()
        return self._opened.enter_context(contextlib.closing(opened))

    def read(self, arrivals: Arrivals) -> Reading:
        """Read everything once; raises OSError when something of the deployment has gone.

        Files come first, then the path: however long a busy machine takes in between, what has arrived has crossed it.
        """
        payload = arrivals.arrived()
        near, far = parse_net_dev(self._near.read().decode()), parse_net_dev(self._far.read().decode())
        now = time.monotonic()
        cpu = {name: tuple(meter.read() for meter in meters) for name, meters in self._cpu.items()}
        ours = sum(map(sum, cpu.values())) + time.process_time()
        connections = [
            c for sockets in self._sockets for c in sockets.connections() if c.remote in self._remote
        ]
        flows = self._flows.look(connections)
        rtt, cwnd = means(connections)
        threads = {name: together(each.look() for each in watched) for name, watched in self._threads.items()}
        machine = self._machine.look()._asdict()  # last: it takes half a millisecond now and then
        others = machine.pop("tasks") - ours
        return Reading(
            time=now,
            payload=payload,
            source_bytes=sum(near[port]["rx_bytes"] for port in self._ports),
            wire_bytes=far[topology.PATH_INTERFACE]["rx_bytes"],
            source_cpu=cpu["source"],
            destination_cpu=cpu["destination"],
            client_cpu=sum(cpu["client"]),
            path_cpu=sum(cpu["path"]),
            **{f"machine_{name}": value for name, value in machine.items()},
            machine_others=others,
            retransmits=sum(retransmits(snmp.read()) for snmp in self._snmp),
            **flows,
            rtt_loaded=rtt,
            cwnd=cwnd,
            connections=len(connections),
            source_thread=threads["source"].cores,
            destination_thread=threads["destination"].cores,
            client_thread=threads["client"].cores,
            source_waiting=threads["source"].waiting,
            destination_waiting=threads["destination"].waiting,
        )

    def unfinished(self) -> dict[str, int]:
        """Count the connections of clients and of other origins that each origin has yet to accept, serve or close.

        Origins without such connections are left out.
        """
        counts = {
            # Tools with servers of their own do not use this port: their connections are those across the path.
            name: server.unfinished(PORT, tcp_sockets("/proc", group.pids()))
            + sum(connection.remote in self._origins for connection in server.connections())
            for name, group, server in self._servers
        }
        return {name: count for name, count in counts.items() if count}


@dataclass
class Site:
    """A deployment that is up; see `measure.cell.Site`."""

    prefix: str
    sides: dict[str, Side]
    link: Link
    clients: Mapping[Place, Client]
    """By where their tools run; that of `client` is always there."""
    client_group: Cgroup
    counters: Counters
    arrivals: Arrivals
    monitor: Monitor
    commands: Commands
    servers: Servers
    provenance: dict[str, Any]
    rtt_idle: float
    """RTT of the empty path in ms, measured before any cell."""
    bandwidth_found: float
    """Gbit/s of the slower direction, measured before any cell."""
    path_slow: bool
    """Whether that is less than was asked."""

    def client_of(self, tool: str) -> Client:
        return self.clients[TOOLS[tool].place]

    @property
    def folders(self) -> tuple[str, str]:
        source, destination = (str(self.sides[side].files) for side in topology.SIDES)
        return source, destination

    def pairs(self, endpoint: str) -> list[tuple[str, str]]:
        return list(zip(*(self.sides[side].base_urls(endpoint) for side in topology.SIDES), strict=True))

    def read(self) -> Reading:
        return self.counters.read(self.arrivals)

    def sampler(self, interval: float) -> Sampler:
        return Sampler(self.read, interval)

    def add_source(self, size: int, content: str, streams: int) -> str:
        """Make a source file of some bytes unless it is there, and give its name. Sparse files take no memory.

        From a disk each stream reads a file of its own, whose name has its number where the name here has `{stream}`:
        if all read the same one, all but the first would find the bytes in memory.
        """
        source = self.sides["src"]
        if not source.disk:
            return add_source(source.files, size, content)
        for stream in range(streams):
            add_source(source.files, size, content, f".{stream}")
        forget(source.files)
        return f"{content}.{size}.{{stream}}"

    def totals(self) -> dict[str, int | None]:
        """Read what is read only before and after a cell: packets dropped, periods, throttled periods."""
        path = self.link.counters()
        totals: dict[str, int | None] = {
            "path_drops": path["drops"],
            "path_queue_drops": path["dropped_queue"],
        }
        sides = {"source": self.sides["src"].groups, "destination": self.sides["dst"].groups}
        for name, groups in {**sides, "client": (self.client_group,)}.items():
            periods, throttled = zip(*(group.periods() for group in groups), strict=True)
            totals |= {f"{name}_periods": sum(periods), f"{name}_throttled": sum(throttled)}
        return totals

    def received(self, event: Event) -> Arrival:
        """Remove the destination file of a transfer that has ended, and give what had arrived in it.

        Source files on a disk are dropped from memory, so that the next transfer reads from the disk again.
        """
        if self.sides["src"].disk:
            forget(self.sides["src"].files)
        return self.arrivals.remove(event["name"])

    def present(self) -> dict[str, Arrival]:
        return self.arrivals.present()

    def copies(self) -> list[Copy]:
        return self.monitor.copies()

    def settle(self) -> None:
        """End what the servers still copy after the client has stopped, and remove what arrived.

        A server notices only at its next marker, up to 5 s later, that its client has gone, and would load the
        next cell until then; cutting its connections ends the copy at once. A server that lacks CPU has requests
        that it has not even read: it is cut off again and again until it has been through them all, however many.

        Raises:
            BrokenError: if no connection ends for SETTLE_SECONDS.
        """
        least, give_up = math.inf, 0.0
        self._cut()
        while busy := self.counters.unfinished():
            if (left := sum(busy.values())) < least:
                least, give_up = left, time.monotonic() + SETTLE_SECONDS
            elif time.monotonic() > give_up:
                raise BrokenError(
                    f"{', '.join(busy)}: still busy with transfers: none has ended for {SETTLE_SECONDS:g} s"
                )
            time.sleep(0.01)
            self._cut()
        self.arrivals.clear(READY_FILE)

    def _cut(self) -> None:
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            for origin in self.sides[side].origins:
                across = f"dst {topology.LAN[other]} or dst {topology.CLIENT}"
                kill = ["ss", "--kill", "--tcp", "--no-header", across]
                self.commands.run(inside(f"{self.prefix}-{origin.name}", kill))

    def check(self) -> None:
        """Raise BrokenError if a process of the deployment has ended; costs microseconds."""
        if fault := self._fault():
            raise BrokenError(fault)

    def explain(self, error: BrokenError) -> str:
        """Say what has broken, if anything shows it better than the error."""
        return self._fault() or str(error)

    def _fault(self) -> str | None:
        return self.servers.processes.fault() or self.link.fault()

    def ready(self) -> None:
        """Raise BrokenError unless the path and every server answer now; servers may wait for a path that is down."""
        try:
            self.link.rtt()
        except PathError as error:
            ping = f"no ping of {self.link.path.mtu} bytes comes back from {self.link.far_address}"
            raise BrokenError(f"the path is down: {ping}") from error
        self.servers.answer()
