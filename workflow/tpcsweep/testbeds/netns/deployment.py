"""Bring a deployment up, hand it over, take it down: the netns testbed from the first namespace to the last."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tpcsweep import credentials, xrootd
from tpcsweep.commands import Commands
from tpcsweep.namespaces import socket_inside
from tpcsweep.parameters import DeploymentParameters
from tpcsweep.paths import Link, connect, segmenting, verify
from tpcsweep.paths import Path as NetworkPath
from tpcsweep.testbeds.agent import ClientProcess
from tpcsweep.testbeds.netns import state, topology
from tpcsweep.testbeds.netns.cgroups import Cgroup, hierarchy
from tpcsweep.testbeds.netns.site import Counters, Side, Site
from tpcsweep.xrootd import Server

START_SECONDS = 30.0
POLL = 0.01
SERVER_USER = "xrootd"


class DeploymentError(Exception):
    """The deployment did not come up, and what the server or the system said."""


@contextlib.contextmanager
def deployed(wanted: DeploymentParameters, owner: state.Owner, memory: int) -> Iterator[Site]:
    """A deployment that is up, verified and ready, for the length of a `with`; the caller holds the machine's lock.

    `memory` bounds the files of each side, bytes. Raises DeploymentError, PathError or CommandError when it does
    not come up, and TeardownError when it does not go; nothing stays behind in either case.
    """
    folder = state.create(owner)
    deployment = _Deployment(folder, wanted, Path(owner.logs), memory)
    try:
        yield deployment.up()
    finally:
        try:
            state.ignore_signals()
            deployment.close()
        finally:
            state.teardown(folder, deployment.children)


class _Deployment:
    """The steps of coming up, and what they have started so far."""

    def __init__(self, folder: Path, wanted: DeploymentParameters, logs: Path, memory: int) -> None:
        self.folder = folder
        self.wanted = wanted
        self.logs = logs
        self.memory = memory
        self.prefix = state.prefix(folder.name)
        self.commands = Commands(logs / "commands.log")
        self.tree = hierarchy()
        self.user = pwd.getpwnam(SERVER_USER)
        self.children: list[subprocess.Popen[bytes]] = []
        self.link: Link | None = None
        self.counters: Counters | None = None

    def up(self) -> Site:
        """All steps in order. Half of them wait for nothing but the kernel; servers come last."""
        began = time.monotonic()
        sides = {side: self._side(side) for side in topology.SIDES}
        self._network([server for side in sides.values() for server in _servers(side)])
        path_group = Cgroup(self.tree, f"{self.prefix}-path").create()
        client_group = Cgroup(self.tree, f"{self.prefix}-client").create()
        self.link = self._path(path_group)
        self._routes(sides)
        measured = verify(self.link.path, self.link)
        verified = time.monotonic()
        self._credentials(sides)
        self._start_servers(sides)
        client = self._client(client_group)
        self._wait_until_served(sides)
        self.counters = Counters(self.prefix, sides, client_group, path_group)
        ready = time.monotonic()
        found = {
            "id": self.folder.name,
            "path": {"measured": measured.to_dict(), **self.link.describe()},
            "sysctls": self._sysctls(sides),
            "cgroup_version": self.tree.version,
            "seconds": {"path": round(verified - began, 3), "servers": round(ready - verified, 3)},
        }
        return Site(
            self.prefix, sides, self.link, client, self.counters, self.commands, found, measured.rtt.median
        )

    def close(self) -> None:
        """Release what this process holds; the rest goes by name."""
        if self.counters:
            self.counters.close()
        if self.link:
            self.link.close()

    def _side(self, side: str) -> Side:
        root = self.folder / "data" / side
        redirector, origins = xrootd.side(
            side,
            topology.ENTRY[side],
            topology.origin_addresses(side, self.wanted.origins),
            self.folder / "nodes",
            root,
        )
        groups = tuple(Cgroup(self.tree, f"{self.prefix}-{origin.name}") for origin in origins)
        return Side(redirector, origins, groups, root / xrootd.EXPORT.strip("/"))

    def _network(self, servers: Sequence[Server]) -> None:
        nodes = [topology.Node(server.name, server.name[:3], server.address) for server in servers]
        self.nodes = nodes
        names = topology.namespaces(self.prefix, nodes)
        self.commands.batch(["ip"], [f"netns add {name}" for name in names])
        for namespace, lines in topology.lan_commands(self.prefix, nodes, self.wanted.mtu):
            self.commands.batch(["ip", "-n", namespace], lines)
        for node in nodes:
            self._sysctl(f"{self.prefix}-{node.name}", topology.sysctls(self.wanted.tcp_buffer))
        for router in topology.ROUTER.values():
            self._sysctl(f"{self.prefix}-{router}", {"net.ipv4.ip_forward": "1"})

    def _sysctl(self, namespace: str, values: dict[str, str]) -> None:
        settings = [f"{key}={value}" for key, value in values.items()]
        self.commands.run([*_inside(namespace), "sysctl", "--quiet", "--write", *settings])

    def _path(self, group: Cgroup) -> Link:
        wanted = self.wanted
        ends = [
            (f"{self.prefix}-{topology.ROUTER[side]}", f"{topology.LINK[side]}/30") for side in topology.SIDES
        ]
        path = NetworkPath(wanted.rtt, wanted.bandwidth, wanted.loss, wanted.mtu)
        return connect(path, *ends, self.commands, self.folder, group.entry())

    def _routes(self, sides: dict[str, Side]) -> None:
        assert self.link
        for namespace, lines in topology.route_commands(self.prefix, self.nodes, self.wanted.congestion_control):
            self.commands.batch(["ip", "-n", namespace], lines)
        command = segmenting(self.link.path, self.link.emulator, topology.INTERFACE)
        for origin in (origin for side in sides.values() for origin in side.origins if command):
            self.commands.run([*_inside(f"{self.prefix}-{origin.name}"), *command])

    def _credentials(self, sides: dict[str, Side]) -> None:
        addresses = [server.address for side in sides.values() for server in _servers(side)]
        self.owner = (self.user.pw_uid, self.user.pw_gid)
        credentials.create(self.folder / "credentials", addresses, self.owner)

    def _start_servers(self, sides: dict[str, Side]) -> None:
        """In the order that spares the ten-second stall: redirector, cmsd of the origins, then their xrootd."""
        for side in sides.values():
            root = side.files.parent
            root.mkdir(parents=True)
            self.commands.run(["mount", "-t", "tmpfs", "-o", f"size={self.memory},mode=755", "tpcsweep", str(root)])
            side.files.mkdir()
            (side.files / xrootd.READY_FILE).write_bytes(b"\n")
            os.chown(side.files, *self.owner)
            for server in _servers(side):
                server.folder.mkdir(parents=True)
                os.chown(server.folder, *self.owner)
                text = xrootd.configuration(server, self.folder / "credentials")
                (server.folder / "xrootd.cfg").write_text(text)
            for group in side.groups:
                group.create(self.wanted.cores and self.wanted.cores / len(side.groups))
        redirectors = [side.redirector for side in sides.values() if side.redirector]
        for redirector in redirectors:
            Cgroup(self.tree, f"{self.prefix}-{redirector.name}").create()
            self._start(redirector, "cmsd")
        for redirector in redirectors:
            self._wait(lambda r=redirector: self._answers(r), f"cmsd of {redirector.name}", redirector)
            self._start(redirector, "xrootd")
        origins = [origin for side in sides.values() for origin in side.origins]
        for origin in origins:
            self._start(origin, origin.programs[0])
        for origin in origins:
            if "cmsd" in origin.programs:
                log = origin.folder / f"cmsd.{origin.name}.log"
                self._wait(lambda log=log: _says(log, xrootd.CMSD_LOGGED_IN), f"cmsd of {origin.name}", origin)
                self._start(origin, "xrootd")

    def _start(self, server: Server, program: str) -> None:
        folder = server.folder
        log = folder / f"{program}.{server.name}.log"
        # Should this process be killed, its servers go with it; reaping then finds only what does not run.
        user = ["setpriv", f"--reuid={SERVER_USER}", f"--regid={SERVER_USER}", "--clear-groups", "--pdeathsig", "KILL"]
        group = Cgroup(self.tree, f"{self.prefix}-{server.name}")
        command = [program, "-c", str(folder / "xrootd.cfg"), "-l", str(log)]
        self._spawn([*group.entry(), *_inside(f"{self.prefix}-{server.name}"), *user, *command], folder)

    def _spawn(self, command: list[str], folder: Path, **pipes: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        self.commands.note(" ".join(command) + " &")
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipes}
        with (folder / "stderr.log").open("ab") as errors:
            # A session of their own: Ctrl-C is for this process, which then ends them in its own order.
            child = subprocess.Popen(command, cwd=folder, stderr=errors, start_new_session=True, **pipes)
        self.children.append(child)
        return child

    def _client(self, group: Cgroup) -> ClientProcess:
        home = self.folder / "client"
        home.mkdir(mode=0o700)
        module = [sys.executable, "-m", "tpcsweep.client", str(self.folder / "credentials"), str(home)]
        command = [*group.entry(), *_inside(f"{self.prefix}-client"), *module]
        return ClientProcess(self._spawn(command, home, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def _answers(self, server: Server) -> bool:
        """Whether a redirector's cmsd accepts connections."""
        with socket_inside(f"{self.prefix}-{server.name}", socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            return probe.connect_ex((server.address, xrootd.CMSD_PORT)) == 0

    def _wait_until_served(self, sides: dict[str, Side]) -> None:
        """Until every origin has delivered a file, and every redirector has sent somebody to each of its origins."""
        folder = self.folder / "credentials"
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.load_cert_chain(folder / "user.pem", folder / "user.key")
        for side in sides.values():
            for origin in side.origins:
                self._wait(lambda o=origin: self._get(o, context)[0] == 200, f"origin {origin.name}", origin)
            if side.redirector:
                seen: set[str] = set()
                everyone = {origin.address for origin in side.origins}

                def complete(server: Server = side.redirector, seen: set[str] = seen, all_: set[str] = everyone) -> bool:
                    seen.add(self._get(server, context)[1])
                    return all_ <= seen

                self._wait(complete, f"redirector {side.redirector.name} to know its origins", side.redirector)

    def _get(self, server: Server, context: ssl.SSLContext) -> tuple[int, str]:
        """Status and host of the Location of a GET of the ready file, from the client's place; 0 without answer."""
        plain = socket_inside(f"{self.prefix}-client", socket.AF_INET, socket.SOCK_STREAM)
        plain.settimeout(2)
        connection = http.client.HTTPSConnection(server.address, xrootd.PORT)
        try:
            plain.connect((server.address, xrootd.PORT))
            connection.sock = context.wrap_socket(plain, server_hostname=server.address)
            connection.request("GET", f"{xrootd.EXPORT}/{xrootd.READY_FILE}")
            answer = connection.getresponse()
            host = answer.getheader("Location", "").partition("://")[2].partition("/")[0].partition(":")[0]
            return answer.status, host
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()
            plain.close()

    def _wait(self, ready: Callable[[], bool], what: str, server: Server) -> None:
        """Poll until ready. Raises DeploymentError with the end of the server's log when it is not in time or dead."""
        give_up = time.monotonic() + START_SECONDS
        while not ready():
            ended = [child.args for child in self.children if child.poll() is not None]
            if ended or time.monotonic() > give_up:
                why = f"a process ended: {ended}" if ended else f"not ready after {START_SECONDS:g} s"
                logs = sorted(server.folder.glob("*.log"))
                tail = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-8:]]
                raise DeploymentError(f"waiting for {what}: {why}\n" + state.SECRET.sub(r"\1[removed]", "\n".join(tail)))
            time.sleep(POLL)

    def _sysctls(self, sides: dict[str, Side]) -> dict[str, str]:
        """What the kernel says is in force at the first origin of each side."""
        found = {}
        keys = [*topology.sysctls(0), "net.core.rmem_max", "net.core.wmem_max"]
        for name, side in sides.items():
            namespace = f"{self.prefix}-{side.origins[0].name}"
            text = self.commands.run([*_inside(namespace), "sysctl", "--ignore", *keys])
            for line in text.splitlines():
                key, _, value = line.partition(" = ")
                found[f"{name}.{key}"] = " ".join(value.split())
            route = self.commands.run(["ip", "-n", namespace, "route", "get", topology.ENTRY[_other(name)]])
            words = route.split()
            control = words[words.index("congctl") + 1] if "congctl" in words else ""
            found[f"{name}.congestion_control"] = control
        return found


def _other(side: str) -> str:
    return topology.SIDES[1 - topology.SIDES.index(side)]


def _servers(side: Side) -> list[Server]:
    return [*side.origins, *([side.redirector] if side.redirector else [])]


def _inside(namespace: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def _says(log: Path, text: str) -> bool:
    try:
        return text in log.read_text(errors="replace")
    except FileNotFoundError:
        return False
