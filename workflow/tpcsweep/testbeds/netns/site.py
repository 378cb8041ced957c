# SPDX-License-Identifier: Apache-2.0
"""The site of a deployment in network namespaces: endpoints, client, files and counters."""

import contextlib
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tpcsweep import processes
from tpcsweep.client import Client, Event
from tpcsweep.errors import BrokenError
from tpcsweep.linux.cgroups import Cgroup
from tpcsweep.linux.counters import CounterFile
from tpcsweep.linux.namespaces import call_in_namespace, namespace_command, parse_net_dev
from tpcsweep.linux.sockets import ConnectionTotals
from tpcsweep.measure.files import Arrival, Arrivals, add_source, drop_page_cache
from tpcsweep.measure.machine import Machine, combine_busiest
from tpcsweep.measure.readings import Reading, Sampler
from tpcsweep.paths import Link, PathError
from tpcsweep.processes import Commands
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.servers import NamespaceServers
from tpcsweep.testbeds.node import ServerSite
from tpcsweep.testbeds.node.counters import OriginCounters, PathTotals, Programs, ProgramTotals, site_totals
from tpcsweep.tools import TOOLS, Place
from tpcsweep.xrootd.monitoring import Copy, Monitor
from tpcsweep.xrootd.servers import READY_FILE

SETTLE_SECONDS = 30.0
"""Seconds without a finished connection after a cell, after which a deployment is broken."""
MEASURED = ("source", "destination", "client")


class Counters:
    """Counters that are read ten times a second, opened once."""

    def __init__(self, prefix: str, sides: topology.Sides, groups: Mapping[str, Cgroup]) -> None:
        """Open all files and sockets of a deployment; `groups` contains the cgroups of all nodes and the path."""
        self._opened = opened = contextlib.ExitStack()
        self.close = opened.close
        self._machine = opened.enter_context(contextlib.closing(Machine()))
        net_dev = partial(CounterFile, "/proc/thread-self/net/dev")
        self._near, self._far = (
            opened.enter_context(contextlib.closing(call_in_namespace(f"{prefix}-{router}", net_dev)))
            for router in topology.ROUTER.values()
        )
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, proc)
        programs = {
            name: Programs(group.meter(opened), group.periods, proc, group.pids)
            for name, group in groups.items()
        }
        source, destination = sides.values()
        parts = {
            "source": source.names,
            "destination": destination.names,
            "client": ["client"],
            "path": ["path"],
            "redirectors": [side.redirector.name for side in sides.values() if side.redirector],
        }
        self._programs = {part: [programs[name] for name in names] for part, names in parts.items()}
        self._origins = {}
        for side, other in ((source, destination), (destination, source)):
            for origin in side.origins:
                watch = partial(OriginCounters, programs[origin.name], origin.ports.server, other.addresses)
                made = call_in_namespace(f"{prefix}-{origin.name}", watch)
                self._origins[origin.name] = opened.enter_context(contextlib.closing(made))
        self._sources = [self._origins[name] for name in source.names]
        self._ports = [f"tpc-{name}" for name in source.names]
        self._flows = ConnectionTotals()

    def read(self, arrivals: Arrivals) -> Reading:
        """Read all counters once. Raises OSError if a part of the deployment is gone.

        Files are read before the path: even if a busy machine delays the second read, all arrived bytes have crossed
        the path.
        """
        payload = arrivals.arrived()
        near, far = parse_net_dev(self._near.read().decode()), parse_net_dev(self._far.read().decode())
        now = time.monotonic()
        cpu = {part: tuple(each.cpu() for each in programs) for part, programs in self._programs.items()}
        ours = sum(map(sum, cpu.values())) + time.process_time()
        connections = [connection for source in self._sources for connection in source.connections()]
        flows = self._flows.update(connections)
        threads = {
            part: combine_busiest(each.threads() for each in self._programs[part]) for part in MEASURED
        }
        machine = self._machine.read()._asdict()  # last, because it sometimes takes half a millisecond
        machine["others"] = machine.pop("tasks") - ours
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
            retransmits=sum(source.retransmits() for source in self._sources),
            **flows | {f"{part}_thread": busiest.cores for part, busiest in threads.items()},
            source_waiting=threads["source"].waiting,
            destination_waiting=threads["destination"].waiting,
        )

    def totals(self) -> dict[str, list[ProgramTotals]]:
        return {part: [each.totals() for each in self._programs[part]] for part in MEASURED}

    def unfinished(self) -> dict[str, int]:
        counts = {name: origin.unfinished() for name, origin in self._origins.items()}
        return {name: count for name, count in counts.items() if count}

    def forget_reset(self) -> bool:
        """Ignore the reset connections of every origin; return whether no unfinished connection remains."""
        for origin in self._origins.values():
            origin.forget_reset()
        return not self.unfinished()


@dataclass(kw_only=True)
class NetnsSite(ServerSite):
    prefix: str
    link: Link
    clients: Mapping[Place, Client]  # clients by the place where their tools run; `client` always exists
    groups: Mapping[str, Cgroup]  # cgroups by node: servers, `client` and `path`
    counters: Counters
    arrivals: Arrivals
    monitor: Monitor
    commands: Commands
    servers: NamespaceServers
    reads_disk: bool  # whether the source's files are on a disk

    def client_of(self, tool: str) -> Client:
        return self.clients[TOOLS[tool].place]

    def read(self) -> Reading:
        return self.counters.read(self.arrivals)

    def sampler(self, interval: float) -> Sampler:
        return Sampler(self.read, interval)

    @processes.readable_umask()
    def add_source(self, size: int, content: str, streams: int) -> str:
        """Create a source file unless it exists, and return its name. Sparse files use no memory.

        On a disk each stream has its own file, whose number replaces `{stream}` in the name. Otherwise all streams but
        the first would read a common file from memory.
        """
        folder = self.sides["src"].files
        if not self.reads_disk:
            return add_source(folder, size, content)
        for stream in range(streams):
            add_source(folder, size, content, f".{stream}")
        drop_page_cache(folder)
        return f"{content}.{size}.{{stream}}"

    def totals(self) -> dict[str, int | None]:
        counted = self.link.counters()
        path: PathTotals = {"drops": counted["drops"], "queue_drops": counted["dropped_queue"]}
        return site_totals({"path": [path], **self.counters.totals()})

    def received(self, event: Event) -> Arrival:
        """Remove the destination file of an ended transfer, and return its arrival.

        Source files on a disk are dropped from memory, so that the next transfer reads from the disk again.
        """
        if self.reads_disk:
            drop_page_cache(self.sides["src"].files)
        return self.arrivals.remove(event["name"])

    def present(self) -> dict[str, Arrival]:
        return self.arrivals.present()

    def copies(self) -> list[Copy]:
        return self.monitor.copies()

    def settle(self) -> None:
        """End copies that continue after the client has stopped, and remove arrived files.

        A server notices a closed client only at its next marker, up to 5 s later, and would load the next cell until
        then. Cutting its connections ends the copy at once. A server that lacks CPU has unread requests: cut it
        repeatedly until it has processed them all. XRootD 5.5.3 sometimes never closes a connection that was reset. If
        the server answers, such connections are ignored after SETTLE_SECONDS. Raises BrokenError if no connection ends
        until then, and one is open or the servers do not answer.
        """
        least, give_up = math.inf, 0.0
        self._cut()
        while busy := self.counters.unfinished():
            if (left := sum(busy.values())) < least:
                least, give_up = left, time.monotonic() + SETTLE_SECONDS
            elif time.monotonic() > give_up:
                for name in busy:  # for the deployment's log
                    shown = self.commands.run(namespace_command(f"{self.prefix}-{name}", ["ss", "-tanpe"]))
                    self.commands.note(shown)
                with contextlib.suppress(BrokenError):
                    self.ready()
                    if self.counters.forget_reset():
                        break
                what = f"still busy with transfers: none has ended for {SETTLE_SECONDS:.0f} s"
                raise BrokenError(f"{', '.join(busy)}: {what}")
            time.sleep(0.01)
            self._cut()
        self.arrivals.clear(READY_FILE)

    def _cut(self) -> None:
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            for origin in self.sides[side].origins:
                across = f"dst {topology.LAN[other]} or dst {topology.CLIENT}"
                kill = ["ss", "--kill", "--tcp", "--no-header", across]
                self.commands.run(namespace_command(f"{self.prefix}-{origin.name}", kill))

    def check(self) -> None:
        """Raise BrokenError if a process of the deployment has ended. Takes microseconds."""
        if fault := self._fault():
            raise BrokenError(fault)

    def explain(self, error: BrokenError) -> str:
        return self._fault() or str(error)

    def _fault(self) -> str | None:
        return self.servers.processes.fault() or self.link.fault()

    def ready(self) -> None:
        """Raise BrokenError unless the path and then all servers answer; servers may wait for the path."""
        try:
            self.link.rtt()
        except PathError as error:
            ping = f"no ping of {self.link.path.mtu} bytes comes back from {self.link.far_address}"
            raise BrokenError(f"the path is down: {ping}") from error
        self.servers.answer()
