# SPDX-License-Identifier: Apache-2.0
"""The netns testbed: one deployment at a time on this machine, from the first namespace to the last."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from tpcsweep.client.handle import Client, ClientError, of_process
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.linux import signals
from tpcsweep.linux.cgroups import Cgroup, CgroupError, hierarchy
from tpcsweep.linux.commands import CommandError, Commands
from tpcsweep.linux.namespaces import MAKER, inside, socket_inside, within
from tpcsweep.linux.sockets import SocketDiagnostics
from tpcsweep.measure import provenance
from tpcsweep.measure.cell import measure as measure
from tpcsweep.measure.files import (
    Arrivals,
    DestinationFiles,
    FirstBytes,
    ReceivedBytes,
    hold,
    write_through,
)
from tpcsweep.paths import Link, Measured, PathError, connect, verify
from tpcsweep.paths import Path as NetworkPath
from tpcsweep.paths.plan import segmenting
from tpcsweep.testbeds import Request, TeardownError
from tpcsweep.testbeds.netns import machine, servers, state, topology
from tpcsweep.testbeds.netns.servers import DeploymentError, Processes, Servers, Side
from tpcsweep.testbeds.netns.site import Counters, Site
from tpcsweep.tools import TOOLS, Place
from tpcsweep.xrootd import credentials
from tpcsweep.xrootd import servers as xrootd
from tpcsweep.xrootd.monitoring import Monitor
from tpcsweep.xrootd.obtaining import obtain
from tpcsweep.xrootd.releases import ReleaseError

EXPECTED = (
    machine.MachineError,
    CommandError,
    CgroupError,
    DeploymentError,
    PathError,
    ClientError,
    TeardownError,
    state.BusyError,
    ReleaseError,
)
ON_DISK = {"memory_to_disk": ("dst",), "disk_to_disk": topology.SIDES}
"""The sides whose files are on a disk, by layer."""
PLACES: dict[Place, str] = {"client": "client", "source": "src1", "destination": "dst1"}
"""The node of each place where tools run."""
MOST_HELD = 2 << 30
"""Bytes of memory that are kept for files that arrive, a second or two of work; beyond that, files of cells mostly take
what others have left."""


@contextlib.contextmanager
def deployed(settings: Netns, request: Request) -> Iterator[Site]:
    """Wait for the machine, remove what dead owners left, deploy; raises what is in EXPECTED."""
    machine.require(request.tools)
    owner = state.Owner(request.sweep, request.deployment, os.getpid(), str(request.logs))
    with state.exclusive(owner, waiting=lambda holder: request.stage(f"waiting for {holder}")):
        for leftover in state.leftovers():
            request.stage(f"removing what is left of {state.describe(leftover)}")
            state.teardown(leftover)
        request.stage(f"deploying {request.deployment}")
        with brought_up(settings, request, owner) as site:
            yield site


def require(_settings: Netns) -> None:
    """Raise MachineError with everything that keeps deployments from coming up on this machine."""
    machine.require()


def reap(_settings: Netns) -> list[str]:
    """Remove what dead owners have left on this machine, and say what it was.

    Raises:
        MachineError: for whoever is not root: the kernel has removed what was his.
        BusyError: while a deployment is up.
        TeardownError: where something remains.
    """
    if os.geteuid() != 0:
        raise machine.MachineError(
            "what is left on this machine is root's, as the kernel removes what other users' deployments leave: "
            "run `tpcsweep reap` as root"
        )
    removed = []
    with state.exclusive("tpcsweep reap"):
        for leftover in state.leftovers():
            removed.append(state.describe(leftover))
            state.teardown(leftover)
    return removed


@contextlib.contextmanager
def brought_up(settings: Netns, request: Request, owner: state.Owner) -> Iterator[Site]:
    """Give a deployment that is up, verified and ready, for the length of a `with`.

    The caller holds the machine's lock. Nothing stays behind, whatever is raised of what is in EXPECTED.
    """
    with contextlib.ExitStack() as undo:  # the last registered is the first to be done
        folder = state.create(owner)
        children: list[subprocess.Popen[bytes]] = []
        undo.callback(state.teardown, folder, children)
        deployment = _Deployment(settings, request, folder, children)
        undo.callback(deployment.opened.close)
        undo.callback(signals.ignore)
        yield deployment.up()


class _Deployment:
    """The steps of coming up, and what they have opened so far."""

    def __init__(
        self, settings: Netns, request: Request, folder: Path, children: list[subprocess.Popen[bytes]]
    ) -> None:
        self.settings = settings
        self.request = request
        self.wanted = request.parameters
        self.memory = settings.memory or psutil.virtual_memory().available // 2
        self.folder = folder
        self.prefix = state.prefix(folder.name)
        self.tree = hierarchy()
        self.commands = Commands(request.logs / "commands.log")
        self.processes = Processes(self.prefix, self.tree, self.commands, children)
        self.opened = contextlib.ExitStack()
        """Closes what this process holds open of the deployment; the rest goes by name."""
        # With the machine's lock, as building takes all CPUs: nothing is measured meanwhile.
        self.release = obtain(self.wanted.xrootd, settings.own_releases, request.stage)
        xrootd.require(self.release)
        self.owner = servers.owner()

    def up(self) -> Site:
        """Do all steps in order: network, path, then servers and client."""
        began = time.monotonic()
        sides = {side: self._side(side) for side in topology.SIDES}
        nodes = [
            topology.Node(server.name, name, server.address)
            for name in sides
            for server in sides[name].servers
        ]
        groups = self._groups(sides)
        self._network(nodes)
        link = self._path(groups["path"])
        self.opened.callback(link.close)
        self._routes(nodes, link)
        measured = verify(link.path, link, strict=self.settings.path == "strict")
        verified = time.monotonic()
        secrets = self.folder / "credentials"
        tools = [TOOLS[tool] for tool in self.request.tools]
        root = any(tool.protocol == "root" for tool in tools)
        credentials.create(secrets, [node.address for node in nodes], self.owner, root)
        for side in sides.values():
            self._storage(side)
        monitor, arrivals = self._monitor(sides), self._arrivals(sides)
        started = Servers(
            self.prefix,
            list(sides.values()),
            secrets,
            self.release,
            self.processes,
            tools,
            self.request.streams,
            self.wanted.authorization,
        )
        started.start()
        if not sides["dst"].disk and self.request.arriving:  # while the servers come up
            hold(sides["dst"].files.parent / "held", min(self.request.arriving, self.memory, MOST_HELD))
        places = dict.fromkeys(("client", *(tool.place for tool in tools)))
        clients = {place: self._client(PLACES[place], secrets) for place in places}
        started.wait()
        counters = Counters(self.prefix, sides, groups["client"], groups["path"])
        self.opened.callback(counters.close)
        seconds = {"path": verified - began, "servers": time.monotonic() - verified}
        return Site(
            prefix=self.prefix,
            sides=sides,
            link=link,
            clients=clients,
            client_group=groups["client"],
            counters=counters,
            arrivals=arrivals,
            monitor=monitor,
            commands=self.commands,
            servers=started,
            provenance=self._provenance(nodes, sides, link, measured, seconds),
            rtt_idle=measured.rtt.median,
            bandwidth_found=measured.bandwidth,
            path_slow=measured.slow,
        )

    def _side(self, name: str) -> Side:
        root = self.folder / "data" / name
        addresses = topology.origin_addresses(name, self.wanted.origins)
        redirector, origins = xrootd.side(name, topology.ENTRY[name], addresses, self.folder / "nodes", root)
        groups = tuple(self.tree.group(f"{self.prefix}-{origin.name}") for origin in origins)
        disk = name in ON_DISK.get(self.wanted.layer, ())
        return Side(redirector, origins, groups, root / xrootd.EXPORT.strip("/"), disk)

    def _groups(self, sides: dict[str, Side]) -> dict[str, Cgroup]:
        """Make all cgroups. Only origins have a quota: redirectors, client and path are not what is measured."""
        for side in sides.values():
            for group in side.groups:
                group.create(self.wanted.cores and self.wanted.cores / len(side.groups))
        others = [side.redirector.name for side in sides.values() if side.redirector]
        # A delay line that waits for a CPU is a longer path: it must be free to be real-time.
        return {
            name: self.tree.group(f"{self.prefix}-{name}", accounting_only=name == "path").create()
            for name in ("path", "client", *others)
        }

    def _network(self, nodes: list[topology.Node]) -> None:
        names = topology.namespaces(self.prefix, nodes)
        self.commands.batch(MAKER, [f"netns add {name}" for name in names])
        for namespace, lines in topology.lan_commands(self.prefix, nodes, self.wanted.mtu):
            self.commands.batch(["ip", "-n", namespace], lines)
        for node in nodes:
            self._sysctl(f"{self.prefix}-{node.name}", topology.sysctls(self.wanted.tcp_buffer))
        self._sysctl(f"{self.prefix}-client", topology.NOTHING_INHERITED)
        for router in topology.ROUTER.values():
            self._sysctl(f"{self.prefix}-{router}", {"net.ipv4.ip_forward": "1"})

    def _sysctl(self, namespace: str, values: dict[str, str]) -> None:
        settings = [f"{key}={value}" for key, value in values.items()]
        self.commands.run(inside(namespace, ["sysctl", "--quiet", "--write", *settings]))

    def _path(self, group: Cgroup) -> Link:
        wanted = self.wanted
        near, far = (
            (f"{self.prefix}-{topology.ROUTER[side]}", f"{topology.LINK[side]}/30") for side in topology.SIDES
        )
        path = NetworkPath(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu, wanted.queue_limit)
        return connect(path, near, far, self.commands, self.folder, group.entry())

    def _routes(self, nodes: list[topology.Node], link: Link) -> None:
        routes = topology.route_commands(self.prefix, nodes, self.wanted.congestion_control)
        for namespace, lines in routes:
            self.commands.batch(["ip", "-n", namespace], lines)
        if command := segmenting(link.path, link.emulator, topology.INTERFACE):
            for name in [*(node.name for node in nodes), "client"]:
                self.commands.run(inside(f"{self.prefix}-{name}", command))

    def _storage(self, side: Side) -> None:
        root = side.files.parent
        if side.disk:
            self._on_disk(root)
        else:
            root.mkdir(parents=True)
            size = self.memory + MOST_HELD // 256  # a page in each MiB is held
            options = f"size={size},mode=755"
            self.commands.run(["mount", "-t", "tmpfs", "-o", options, "tpcsweep", str(root)])
        side.files.mkdir()
        (side.files / xrootd.READY_FILE).write_bytes(b"\n")
        os.chown(side.files, *self.owner)

    def _on_disk(self, root: Path) -> None:
        """Make a folder on the disk and a link that leads there; the link first, so that teardown finds the folder."""
        folder = Path(self.settings.disk) / f"{self.folder.name}-{root.name}"
        root.parent.mkdir(exist_ok=True)
        root.symlink_to(folder)
        folder.mkdir(parents=True, mode=0o755)
        try:
            write_through(folder)
        except OSError as error:
            raise DeploymentError(
                f"{self.settings.disk}: its file system cannot write through its cache ({error.strerror}); "
                "`disk` of the testbed must be a folder on one that can, such as ext4, xfs or btrfs"
            ) from error

    def _monitor(self, sides: dict[str, Side]) -> Monitor:
        """Hear XRootD's monitoring before the servers start: what is sent while nobody hears it is lost."""
        names = [f"{self.prefix}-{origin.name}" for side in sides.values() for origin in side.origins]
        monitor = Monitor(socket_inside(name, socket.AF_INET, socket.SOCK_DGRAM) for name in names)
        self.opened.callback(monitor.close)
        return monitor

    def _client(self, node: str, secrets: Path) -> Client:
        elsewhere = node != "client"
        home = self.folder / "nodes" / (f"client.{node}" if elsewhere else node)
        home.mkdir(mode=0o700)
        command = [sys.executable, "-m", "tpcsweep.client", str(secrets), str(home)]
        return of_process(self.processes.start(node, command, home, subprocess.PIPE, "client" * elsewhere))

    def _arrivals(self, sides: dict[str, Side]) -> Arrivals:
        """Count what arrives in files, or where there are none what the destination's connections receive."""
        if self.wanted.layer != "network":
            first = FirstBytes(sides["dst"].files)
            self.opened.callback(first.close)
            return DestinationFiles(sides["dst"].files, first)
        diagnostics = within(f"{self.prefix}-{PLACES['destination']}", SocketDiagnostics)
        received = ReceivedBytes(diagnostics, [origin.address for origin in sides["src"].origins])
        self.opened.callback(received.close)
        return received

    def _provenance(
        self,
        nodes: list[topology.Node],
        sides: dict[str, Side],
        link: Link,
        measured: Measured,
        seconds: dict[str, float],
    ) -> dict[str, Any]:
        machine = provenance.machine()
        return {
            **machine,
            "nodes": {"source": machine["host"], "destination": machine["host"]},
            "software": provenance.software(self.request.tools),
            "xrootd": self.release.describe(),
            "deployment": self.folder.name,
            "path": {"measured": asdict(measured), **link.describe()},
            "sysctls": self._sysctls(nodes),
            "cgroup_version": self.tree.version,
            "quotas": {name: _quota(side.groups) for name, side in sides.items()},
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
        }

    def _sysctls(self, nodes: list[topology.Node]) -> dict[str, str]:
        """Give what the kernel says is in force at the first origin of each side."""
        values = {}
        keys = [*topology.sysctls(0), "net.core.rmem_max", "net.core.wmem_max"]
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            namespace = f"{self.prefix}-{next(node.name for node in nodes if node.side == side)}"
            for line in self.commands.run(inside(namespace, ["sysctl", "--ignore", *keys])).splitlines():
                key, _, value = line.partition(" = ")
                values[f"{side}.{key}"] = " ".join(value.split())
            route = self.commands.run(["ip", "-n", namespace, "route", "get", topology.ENTRY[other]]).split()
            values[f"{side}.congestion_control"] = (
                route[route.index("congctl") + 1] if "congctl" in route else ""
            )
        return values


def _quota(groups: Iterable[Cgroup]) -> dict[str, float] | None:
    """Give the CPU cores that a side's origins have together by what the kernel says, and their period in ms."""
    quotas = [quota for group in groups if (quota := group.quota())]
    if not quotas:
        return None
    cores = sum(quota.cores for quota in quotas)
    return {"cores": round(cores, 6), "period": quotas[0].period / 1000}
