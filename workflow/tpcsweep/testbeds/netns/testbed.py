# SPDX-License-Identifier: Apache-2.0
"""The netns testbed: one deployment at a time in network namespaces of this machine."""

import contextlib
import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tpcsweep.common import processes, signals
from tpcsweep.common.processes import CommandError, Commands
from tpcsweep.deploying.linux.cgroups import Cgroup, CgroupError, hierarchy
from tpcsweep.deploying.linux.namespaces import MAKER, call_in_namespace, namespace_command, socket_inside
from tpcsweep.deploying.linux.sockets import SocketDiagnostics
from tpcsweep.deploying.linux.sysctls import in_force, mismatches
from tpcsweep.deploying.paths.link import Link, connect
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError, segmentation_command
from tpcsweep.deploying.paths.udp_looks import verify_link
from tpcsweep.deploying.paths.verification import FoundPath
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.flows import Flows
from tpcsweep.deploying.xrootd.monitoring import Monitor
from tpcsweep.deploying.xrootd.obtaining import obtain, obtain_client
from tpcsweep.deploying.xrootd.releases import ReleaseError
from tpcsweep.measuring import provenance
from tpcsweep.measuring.cell import measure as measure
from tpcsweep.measuring.client.client_process import Client, ClientError, process_client
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Place
from tpcsweep.measuring.tools.xrdcp_http import link_client
from tpcsweep.measuring.transfer_files import (
    Arrivals,
    DestinationFiles,
    FirstBytes,
    ReceivedBytes,
    reserve_memory,
    write_through,
)
from tpcsweep.sweeps.parameters import WITHOUT_FILES, parameters_by_sysctl
from tpcsweep.testbeds.interface import Request, TeardownError
from tpcsweep.testbeds.netns import namespace_servers, ownership, requirements, topology
from tpcsweep.testbeds.netns.namespace_servers import DeploymentError, DeploymentProcesses, NamespaceServers
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.site import Counters, NetnsSite
from tpcsweep.testbeds.netns.topology import Sides
from tpcsweep.testbeds.node.program_counters import DROPS_INTERVAL, PathDrops

EXPECTED = (
    requirements.MachineError,
    CommandError,
    CgroupError,
    DeploymentError,
    PathError,
    ClientError,
    TeardownError,
    ownership.MachineBusyError,
    ReleaseError,
)
ON_DISK = {"memory_to_disk": ("dst",), "disk_to_disk": topology.SIDES}
"""The sides with files on a disk, by layer."""
PLACES: dict[Place, str] = {"client": "client", "source": "src1", "destination": "dst1"}
"""The node of each place where tools run."""
LARGEST_SOCKET_BUFFERS = ("net.core.rmem_max", "net.core.wmem_max")  # recorded
MOST_RESERVED_MEMORY = 2 << 30
"""Limit in bytes on memory reserved for arriving files, for one or two seconds of transfers.

Further files of cells mostly use memory that is already free.
"""


@contextlib.contextmanager
def deployed(settings: Netns, request: Request) -> Iterator[NetnsSite]:
    """Wait for the machine, remove leftovers, and deploy. Raises an error of EXPECTED."""
    requirements.require_machine(request.tools)
    owner = ownership.Owner(request.sweep, request.deployment, os.getpid(), str(request.logs))
    with ownership.exclusive(owner, waiting=lambda holder: request.stage(f"waiting for {holder}")):
        for leftover in ownership.leftovers():
            request.stage(f"removing what is left of {ownership.describe_leftover(leftover)}")
            ownership.teardown(leftover)
        request.stage(f"deploying {request.deployment}")
        with brought_up(settings, request, owner) as site:
            yield site


def require(_settings: Netns) -> None:
    """Raise MachineError with everything that prevents deployments on this machine."""
    requirements.require_machine()


def reap(_settings: Netns) -> list[str]:
    """Remove leftovers of dead processes on this machine, and return their descriptions.

    Users other than root have none, because the kernel removes their deployments. Raises MachineBusyError while a
    deployment is running, and TeardownError.
    """
    if os.geteuid() != 0:
        return []
    removed = []
    with ownership.exclusive("tpcsweep reap"):
        for leftover in ownership.leftovers():
            removed.append(ownership.describe_leftover(leftover))
            ownership.teardown(leftover)
    return removed


@contextlib.contextmanager
def brought_up(settings: Netns, request: Request, owner: ownership.Owner) -> Iterator[NetnsSite]:
    """Yield a verified and ready deployment, and remove it completely at the end of the `with` block.

    The caller holds the machine's lock. Raises an error of EXPECTED.
    """
    with contextlib.ExitStack() as undo:  # callbacks run in reverse order
        folder = ownership.create_deployment(owner)
        children: list[subprocess.Popen[bytes]] = []
        undo.callback(ownership.teardown, folder, children)
        deployment = _Deployment(settings, request, folder, children)
        undo.callback(deployment.opened.close)
        undo.callback(signals.ignore_signals)
        yield deployment.up()


def _drops(link: Link) -> dict[str, int]:
    counted = link.counters()
    return {"drops": counted["drops"], "queue_drops": counted["dropped_queue"]}


class _Deployment:
    def __init__(
        self, settings: Netns, request: Request, folder: Path, children: list[subprocess.Popen[bytes]]
    ) -> None:
        self.settings = settings
        self.request = request
        self.wanted = request.parameters
        self.memory = settings.memory or psutil.virtual_memory().available // 2
        self.folder = folder
        self.prefix = ownership.prefix(folder.name)
        self.tree = hierarchy()
        self.commands = Commands(request.logs / "commands.log")
        self.processes = DeploymentProcesses(folder, self.tree, self.commands, children)
        self.opened = contextlib.ExitStack()
        """Closes objects that this process keeps open; `ownership.teardown` finds the rest by name."""
        # Under the machine's lock, because a build uses all CPUs and would disturb measurements.
        self.release = obtain(self.wanted.xrootd, settings.own_releases, request.stage)
        xrootd.require_recent(self.release)
        needed = any(TOOLS[tool].own_release for tool in request.tools)
        self.client_release = obtain_client(request.stage) if needed else None
        self.owner = namespace_servers.owner()

    @processes.readable_umask()
    def up(self) -> NetnsSite:
        began = time.monotonic()
        sides = topology.sides(self.folder, self.wanted.origins)
        groups = self._groups(sides)
        link = self._network(sides, groups["path"])
        measured = verify_link(link.path, link, strict=self.settings.path == "strict")
        verified = time.monotonic()
        secrets = self.folder / "credentials"
        tools = [TOOLS[tool] for tool in self.request.tools]
        mirage = self.wanted.layer == "mirage"
        root = mirage or any(tool.protocol == "root" for tool in tools)
        addresses = [server.address for side in sides.values() for server in side.servers]
        credentials.create_credentials(secrets, addresses, self.owner, root)
        on_disk = ON_DISK.get(self.wanted.layer, ())
        for name, side in sides.items():
            self._storage(side.files, disk=name in on_disk)
        monitor, arrivals = self._monitor(sides), self._arrivals(sides)
        marking = self.wanted.scitag is not None
        streams, authorization = self.request.streams, self.wanted.authorization
        started = NamespaceServers(
            self.processes, sides, secrets, self.release, tools, streams, authorization, mirage, marking
        )
        started.start()
        if "dst" not in on_disk and self.request.arriving:  # while the servers start
            reserve_memory(
                sides["dst"].files.parent / "held",
                min(self.request.arriving, self.memory, MOST_RESERVED_MEMORY),
            )
        places = dict.fromkeys(("client", *(tool.place for tool in tools)))
        clients = {place: self._client(PLACES[place], secrets) for place in places}
        started.wait()
        drops = PathDrops(lambda: _drops(link), 0.0 if link.line else DROPS_INTERVAL)
        counters = Counters(self.prefix, sides, groups, arrivals, drops)
        self.opened.callback(counters.close)
        seconds = {"path": verified - began, "servers": time.monotonic() - verified}
        return NetnsSite(
            prefix=self.prefix,
            sides=sides,
            link=link,
            clients=clients,
            groups=groups,
            counters=counters,
            arrivals=arrivals,
            monitor=monitor,
            flows=self._flows(sides) if marking else None,
            commands=self.commands,
            servers=started,
            reads_disk="src" in on_disk,
            mirage=mirage,
            provenance=self._provenance(sides, groups, link, measured, seconds),
            rtt_idle=measured.rtt.median,
            bandwidth_found=measured.bandwidth,
            path_slow=measured.slow,
        )

    def _groups(self, sides: Sides) -> dict[str, Cgroup]:
        """Create all cgroups. Only origins have a quota: redirectors, client and path are not under test."""
        cores = self.wanted.cores and self.wanted.cores / self.wanted.origins
        groups = {"client": self.tree.group(self.processes.name("client")).create()}
        for server in (server for side in sides.values() for server in side.servers):
            group = self.tree.group(self.processes.name(server.name))
            groups[server.name] = group.create(cores if server.role == "server" else None)
        # Waiting for a CPU would lengthen the path: a delay line must be free to be real-time.
        path = self.tree.group(self.processes.name("path"), accounting_only=True)
        return {**groups, "path": path.create()}

    def _network(self, sides: Sides, group: Cgroup) -> Link:
        wanted = self.wanted
        names = topology.namespaces(self.prefix, sides)
        self.commands.batch(MAKER, [f"netns add {name}" for name in names])
        for namespace, lines in topology.lan_commands(self.prefix, sides, wanted.mtu):
            self.commands.batch(["ip", "-n", namespace], lines)
        for node, values in topology.sysctls_of_nodes(sides, wanted).items():
            settings = [f"{key}={value}" for key, value in values.items()]
            command = ["sysctl", "--quiet", "--write", *settings]
            name = self.processes.name(node)
            self.commands.run(namespace_command(name, command))
            actual = call_in_namespace(name, partial(in_force, values))
            if wrong := [why for _, why in mismatches(values, actual)]:
                raise DeploymentError(f"{node}: {'; '.join(wrong)}: this kernel does not keep the value")
        near, far = (
            (self.processes.name(router), f"{topology.LINK[side]}/30")
            for side, router in topology.ROUTER.items()
        )
        path = NetworkPath(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu, wanted.queue_limit)
        link = connect(path, near, far, self.commands, self.folder, group.entry())
        self.opened.callback(link.close)
        for namespace, lines in topology.route_commands(self.prefix, sides, wanted):
            self.commands.batch(["ip", "-n", namespace], lines)
        if command := segmentation_command(link.path, link.emulator, topology.INTERFACE):
            for name in topology.hosts(self.prefix, sides):
                self.commands.run(namespace_command(name, command))
        return link

    def _storage(self, files: Path, *, disk: bool) -> None:
        root = files.parent
        root.parent.mkdir(exist_ok=True)
        if disk:
            folder = Path(self.settings.disk) / f"{self.folder.name}-{root.name}"
            root.symlink_to(folder)  # before the folder, so that teardown finds it
            folder.mkdir(parents=True, mode=0o755)
            try:
                write_through(folder)
            except OSError as error:
                unable = error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL)
                fix = "must be a folder on a file system that can, such as ext4, xfs or btrfs"
                why = f"cannot be written through its cache ({error.strerror})"
                raise DeploymentError(
                    f"{self.settings.disk}: {why}{f'; `disk` of the testbed {fix}' if unable else ''}"
                ) from error
        else:
            root.mkdir()
            size = self.memory + MOST_RESERVED_MEMORY // 256  # reserves a page in each MiB
            options = f"size={size},mode=755"
            self.commands.run(["mount", "-t", "tmpfs", "-o", options, "tpcsweep", str(root)])
        files.mkdir()
        (files / xrootd.READY_FILE).write_bytes(b"\n")
        os.chown(files, *self.owner)

    def _monitor(self, sides: Sides) -> Monitor:
        """Listen to XRootD's monitoring before the servers start, because unreceived records are lost."""
        names = [self.processes.name(name) for side in sides.values() for name in side.names]
        monitor = Monitor(socket_inside(name, socket.AF_INET, socket.SOCK_DGRAM) for name in names)
        self.opened.callback(monitor.close)
        return monitor

    def _flows(self, sides: Sides) -> Flows:
        names = [self.processes.name(name) for side in sides.values() for name in side.names]
        flows = Flows(socket_inside(name, socket.AF_INET, socket.SOCK_DGRAM) for name in names)
        self.opened.callback(flows.close)
        return flows

    def _client(self, node: str, secrets: Path) -> Client:
        elsewhere = node != "client"
        home = self.folder / "nodes" / (f"client.{node}" if elsewhere else node)
        home.mkdir(mode=0o700)
        if self.client_release:
            link_client(home, self.client_release)
        command = [sys.executable, "-m", "tpcsweep.measuring.client", str(secrets), str(home)]
        return process_client(
            self.processes.start(node, command, home, subprocess.PIPE, "client" * elsewhere)
        )

    def _arrivals(self, sides: Sides) -> Arrivals:
        """Count bytes of arrived files, or without files those of the destination's connections."""
        if self.wanted.layer not in WITHOUT_FILES:
            first = FirstBytes(sides["dst"].files)
            self.opened.callback(first.close)
            return DestinationFiles(sides["dst"].files, first)
        diagnostics = call_in_namespace(self.processes.name(PLACES["destination"]), SocketDiagnostics)
        received = ReceivedBytes(diagnostics, sides["src"].addresses)
        self.opened.callback(received.close)
        return received

    def _provenance(
        self,
        sides: Sides,
        groups: dict[str, Cgroup],
        link: Link,
        measured: FoundPath,
        seconds: dict[str, float],
    ) -> dict[str, Any]:
        machine = provenance.machine()
        software = provenance.software(self.request.tools)
        software |= {"xrdcp": self.client_release.client_version()} if self.client_release else {}
        quotas: dict[str, dict[str, float] | None] = {}
        for name, side in sides.items():
            limited = [quota for origin in side.names if (quota := groups[origin].quota())]
            cores = round(sum(quota.cores for quota in limited), 6)
            quotas[name] = {"cores": cores, "period": limited[0].period / 1000} if limited else None
        return {
            **machine,
            "hosts": {"local": provenance.settings()},
            "nodes": {"source": machine["host"], "destination": machine["host"]},
            "software": software,
            "xrootd": self.release.describe(),
            "deployment": self.folder.name,
            "path": {"measured": measured.to_dict(), **link.describe()},
            "sysctls": self._sysctls(sides),
            "cgroup_version": self.tree.version,
            "quotas": quotas,
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
        }

    def _sysctls(self, sides: Sides) -> dict[str, str]:
        values: dict[str, str] = {}
        keys = [*parameters_by_sysctl("netns"), *topology.NOTHING_INHERITED, *LARGEST_SOCKET_BUFFERS]
        for side, other in (topology.SIDES, topology.SIDES[::-1]):
            namespace = self.processes.name(sides[side].names[0])
            actual = call_in_namespace(namespace, partial(in_force, keys))
            values |= {f"{side}.{key}": value for key, value in actual.items()}
            route = self.commands.run(["ip", "-n", namespace, "route", "get", topology.ENTRY[other]]).split()
            control = route[route.index("congctl") + 1] if "congctl" in route else ""
            values[f"{side}.congestion_control"] = control
        return values
