# SPDX-License-Identifier: Apache-2.0
"""The site of a deployment in network namespaces: endpoints, client, files and counters."""

import contextlib
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tpcsweep.common import processes
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.cgroups import Cgroup
from tpcsweep.deploying.linux.namespaces import call_in_namespace, namespace_command
from tpcsweep.deploying.paths.link import Link
from tpcsweep.deploying.paths.network_path import PathError
from tpcsweep.deploying.xrootd.flows import Flows
from tpcsweep.deploying.xrootd.monitoring import Copy, Monitor
from tpcsweep.deploying.xrootd.server_config import EXPORT, READY_FILE
from tpcsweep.measuring.client.client_process import Client, Event
from tpcsweep.measuring.machine import Machine
from tpcsweep.measuring.sampler import LocalTargets, Sampler
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Place
from tpcsweep.measuring.transfer_files import Arrival, Arrivals, add_source, drop_page_cache
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.namespace_servers import NamespaceServers, owner
from tpcsweep.testbeds.node import serving
from tpcsweep.testbeds.node.program_counters import Files, Interfaces, Network, PathDrops, Programs, Target
from tpcsweep.testbeds.node.server_site import ServerSite

SETTLE_SECONDS = 30.0
"""Seconds without a finished connection after a cell, after which a deployment is broken."""
Closed = TypeVar("Closed", Interfaces, Network)


class Counters:
    """Targets of a deployment, whose files and sockets are opened once: this process reads all namespaces."""

    def __init__(
        self,
        prefix: str,
        sides: topology.Sides,
        groups: Mapping[str, Cgroup],
        arrivals: Arrivals,
        drops: PathDrops,
    ) -> None:
        """`groups` are the cgroups of all nodes and the path."""
        self._opened = opened = contextlib.ExitStack()
        self.close = opened.close
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, proc)

        def inside(node: str, make: Callable[[], Closed]) -> Closed:
            return opened.enter_context(contextlib.closing(call_in_namespace(f"{prefix}-{node}", make)))

        def programs(target: str, node: str) -> Programs:
            return Programs(target, groups[node].counters(opened), proc, groups[node].pids)

        source, destination = sides.values()
        near, far = topology.ROUTER.values()
        ports = [f"tpc-{name}" for name in source.names]
        emulator, client = programs("path", "path"), programs("client", "client")
        redirectors = [
            programs("redirector", side.redirector.name) for side in sides.values() if side.redirector
        ]
        self.targets = {
            "path": Target(
                Files(arrivals),
                # The routers count what the source has sent, and what has left the path.
                inside(far, lambda: Interfaces("destination", [topology.PATH_INTERFACE], "rx_bytes")),
                inside(near, lambda: Interfaces("source", ports, "rx_bytes")),
                emulator,
                drops,
            )
        }
        self._origins, self._servers = dict[str, Network](), list[Programs]()
        measured = [emulator, client, *redirectors]
        for target, side, other in (("source", source, destination), ("destination", destination, source)):
            for origin in side.origins:
                server = programs(target, origin.name)
                watch = partial(Network, target, server, origin.ports.server, other.addresses)
                self._origins[origin.name] = network = inside(origin.name, watch)
                self.targets[origin.name] = Target(server, network)
                self._servers.append(server)
        measured += self._servers
        self.targets["client"] = Target(client, *redirectors)
        # Last, because it sometimes takes half a millisecond.
        ours = lambda: sum(each.used for each in measured) + time.process_time()  # noqa: E731
        self.targets["machine"] = Target(opened.enter_context(contextlib.closing(Machine(ours))))

    def unfinished(self) -> dict[str, int]:
        counts = {name: origin.unfinished() for name, origin in self._origins.items()}
        return {name: count for name, count in counts.items() if count}

    def end_copies(self) -> None:
        """Kill the programs of copies by the root protocol."""
        for copy in itertools.chain.from_iterable(server.copies() for server in self._servers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(copy, signal.SIGKILL)

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
    flows: Flows | None  # if servers announce flows
    commands: Commands
    servers: NamespaceServers
    reads_disk: bool  # whether the source's files are on a disk
    mirage: bool  # whether the source's server invents the content of files

    def client_of(self, tool: str) -> Client:
        return self.clients[TOOLS[tool].place]

    def sampler(self, how: Measurement) -> Sampler:
        readers = {name: target.read for name, target in self.counters.targets.items()}
        return Sampler([LocalTargets(readers)], how.interval)

    @processes.readable_umask()
    def add_source(self, size: int, content: str, streams: int) -> str:
        """Create a source file unless it exists, and return its name. Sparse files use no memory.

        On a disk each stream has its own file, whose number replaces `{stream}` in the name. Otherwise all streams but
        the first would read a common file from memory.
        """
        folder = self.sides["src"].files
        if self.mirage:
            return self._invent_source(size)
        if not self.reads_disk:
            return self._add_source(folder, size, content)
        for stream in range(streams):
            self._add_source(folder, size, content, f".{stream}")
        drop_page_cache(folder)
        return f"{content}.{size}.{{stream}}"

    def _invent_source(self, size: int) -> str:
        """Create an empty file on the source's server and set its size, by the root protocol."""
        [origin] = self.sides["src"].origins
        name, server = f"mirage.{size}", f"root://{origin.place}"
        path = f"{EXPORT}/{name}"
        created = ["xrdcp", "--force", "--silent", "-", f"{server}/{path}"]
        for command in (created, ["xrdfs", server, "truncate", path, f"{size}"]):
            self.commands.run(namespace_command(f"{self.prefix}-{origin.name}", command))
        return name

    def _add_source(self, folder: Path, size: int, content: str, suffix: str = "") -> str:
        name = add_source(folder, size, content, suffix)
        os.chown(folder / name, *owner())  # a server keeps checksums in attributes of its own files
        return name

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

    def flow_tags(self) -> Counter[int]:
        return self.flows.tags() if self.flows else Counter()

    def settle(self) -> None:
        """End copies that continue after the client has stopped, and remove arrived files.

        Cutting a server's connections ends its copies by HTTP at once. Raises BrokenError if none ends for
        SETTLE_SECONDS, and one is open or the servers do not answer.
        """
        serving.settle(self.counters.unfinished, SETTLE_SECONDS, self._forget_reset, self._cut)
        self.arrivals.clear(READY_FILE)

    def _forget_reset(self, busy: Mapping[str, int]) -> None:
        """Ignore reset connections, which XRootD 5.5.3 sometimes never closes, if the servers answer."""
        for name in busy:  # for the deployment's log
            shown = self.commands.run(namespace_command(f"{self.prefix}-{name}", ["ss", "-tanpe"]))
            self.commands.note(shown)
        with contextlib.suppress(BrokenError):
            self.ready()
            if self.counters.forget_reset():
                return
        what = f"still busy with transfers: none has ended for {SETTLE_SECONDS:.0f} s"
        raise BrokenError(f"{', '.join(busy)}: {what}")

    def _cut(self) -> None:
        """Cut connections across the path, and end copies by the root protocol.

        XRootD ends most of these itself when their client is gone. One that is about to connect then goes on, and waits
        for the next of its connection windows, up to 120 s (XRD_CONNECTIONWINDOW in xrdcp(1)).
        """
        self.counters.end_copies()
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
