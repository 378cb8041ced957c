# SPDX-License-Identifier: Apache-2.0
"""Start the processes of a deployment in namespaces, and wait until every server answers a request."""

import os
import pwd
import shlex
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tpcsweep.common import processes
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.processes import Commands
from tpcsweep.deploying.linux.cgroups import Hierarchy
from tpcsweep.deploying.linux.namespaces import listening, namespace_command, socket_inside
from tpcsweep.deploying.linux.rootless import has_single_uid
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.releases import Release
from tpcsweep.deploying.xrootd.server_config import Server
from tpcsweep.measuring.tools.tool import Place, Service, Tool
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.ownership import prefix
from tpcsweep.testbeds.node import serving
from tpcsweep.testbeds.node.serving import ReadinessProbe

USER = "xrootd"
PLACES: tuple[Place, ...] = ("source", "destination")
START_SECONDS = 30.0
ANSWER_SECONDS = 10.0  # time limit for the answer of an idle server that was ready before, s
LOG_TAIL = 8  # lines of each server log in error messages
LONGEST = 300  # limit in characters on the last log line in messages
_WITH_HOSTS = '[ ! -e /etc/hosts ] || mount --bind "$0" /etc/hosts && exec "$@"'


def owner() -> tuple[int, int]:
    """Return the user and group of the servers' files, as seen by this process."""
    user = pwd.getpwnam(USER)
    return (0, 0) if has_single_uid() else (user.pw_uid, user.pw_gid)


def user_prefix() -> list[str]:
    """Return a command prefix that runs a command as USER, because XRootD refuses to run as root.

    The root of a user namespace becomes USER in a nested user namespace. The command ends with the job, even if the job
    is killed.
    """
    end = ["--pdeathsig", "KILL"]
    if has_single_uid():
        return ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "setpriv", *end]
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *end]


class DeploymentError(Exception):
    """A server did not start; the message names it and quotes its logs."""


class DeploymentProcess(NamedTuple):
    name: str
    child: subprocess.Popen[bytes]
    logs: tuple[Path, ...]  # log files for the last log line, in order of preference
    restart: Callable[[], object] | None = None  # starts the process again, or None if it must not restart

    def end(self) -> str | None:
        """Describe how the process ended, with its last log line, or return None while it runs."""
        code = self.child.poll()
        if code is None:
            return None
        outcome = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        )
        words = next((line for log in self.logs for line in _last_lines(log, 1)), "")
        last_words = f"; its last words: {xrootd.without_secrets(words)[:LONGEST]}" if words else ""
        return f"{self.name} {outcome}{last_words}"


@dataclass
class DeploymentProcesses:
    """The long-lived processes of a deployment, each in its own namespace and cgroup."""

    folder: Path  # the deployment's folder
    tree: Hierarchy
    commands: Commands
    children: list[subprocess.Popen[bytes]]  # all started processes; the caller must wait for them
    _running: list[DeploymentProcess] = field(default_factory=list)

    def name(self, node: str) -> str:
        return f"{prefix(self.folder.name)}-{node}"

    def start(
        self, node: str, command: list[str], folder: Path, stdin: int = subprocess.DEVNULL, program: str = ""
    ) -> subprocess.Popen[bytes]:
        """Start a command whose logs go to `folder`; standard output is a pipe if standard input is one.

        A node with several commands names each `program`. `revive` restarts only commands with a program.
        """
        name = self.name(node)
        # If the machine shares its mounts, disks that it mounts later are mounted for the servers too.
        own_mounts = ["unshare", "--mount", "--propagation", "slave"]
        named = [*own_mounts, "sh", "-c", _WITH_HOSTS, str(self.folder / "hosts"), *command]
        whole = [*self.tree.group(name).entry(), *namespace_command(name, named)]
        self.commands.note(f"{shlex.join(whole)} &")
        stderr = folder / f"stderr.{folder.name}.log"
        with stderr.open("ab") as errors:
            child = processes.start(
                whole,
                processes.measured_environment(folder)
                if stdin == subprocess.DEVNULL
                else processes.python(folder),
                cwd=folder,
                stdin=stdin,
                stdout=stdin,
                stderr=errors,
                # In a separate session Ctrl-C reaches only the job, which ends the processes in order.
                start_new_session=True,
            )
        self.children.append(child)
        logs = (folder / f"{program}.{node}.log", stderr)
        again = partial(self.start, node, command, folder, program=program) if program else None
        self._running.append(DeploymentProcess(f"{node}: {program}" if program else node, child, logs, again))
        return child

    def revive(self) -> None:
        """Restart crashed programs, each once: XRootD 5.5.3 sometimes crashes during its start."""
        for process in list(self._running):
            if process.restart and process.child.poll() == -signal.SIGSEGV:
                self.commands.note(f"# {process.end()}; started again")
                self._running.remove(process)
                process.restart()
                self._running[-1] = self._running[-1]._replace(restart=None)

    def fault(self) -> str | None:
        return next((end for process in self._running if (end := process.end())), None)


@dataclass
class NamespaceServers:
    processes: DeploymentProcesses
    sides: topology.Sides
    credentials: Path
    release: Release
    tools: Sequence[Tool]
    streams: int  # the largest number of streams of a cell
    authorization: str
    mirage: bool = False  # whether files have no content
    marking: bool = False  # whether servers announce flows by their SciTags
    _up: bool = False  # whether all have answered: a server that crashes from then on is a fault

    def start(self) -> None:
        servers = [server for side in self.sides.values() for server in side.servers]
        names = [f"127.0.0.1 localhost {socket.gethostname()}", *(f"{s.address} {s.name}" for s in servers)]
        (self.processes.folder / "hosts").write_text("".join(f"{line}\n" for line in names))
        for server in servers:
            self._configure(server)
        serving.start_servers(servers, self._run, self._wait_for_cmsd)
        for origin, service in self._services():
            command = [*user_prefix(), *service.command]
            self.processes.start(origin.name, command, origin.folder, program=service.name)

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Wait until all servers are ready; raises DeploymentError if one is not after some seconds."""
        for origin, service in self._services():
            ready = partial(self._listens, origin, service.port)
            awaited = f"{service.name} to listen on port {service.port}"
            self._wait(ReadinessProbe(origin.name, awaited, ready), origin, seconds)
        context = serving.user_context(self.credentials)
        for name, side in self.sides.items():
            servers = {server.place: server for server in side.servers}
            redirector = side.redirector.place if side.redirector else None
            origins = [origin.place for origin in side.origins]
            for probe in serving.probes(redirector, origins, partial(self._get, name, context), self.mirage):
                self._wait(probe, servers[probe.place], seconds)
        self._up = True

    def answer(self) -> None:
        """Raise BrokenError unless all servers are ready now."""
        try:
            self.wait(ANSWER_SECONDS)
        except DeploymentError as error:
            raise BrokenError(str(error).partition("\n")[0]) from error

    def _services(self) -> Iterator[tuple[Server, Service]]:
        for side, place in zip(self.sides.values(), PLACES, strict=True):
            for origin in side.origins:
                for tool in self.tools:
                    yield from ((origin, each) for each in tool.services(place, origin.address, self.streams))

    def _configure(self, server: Server) -> None:
        server.folder.mkdir(parents=True)
        os.chown(server.folder, *owner())
        root = any(tool.protocol == "root" for tool in self.tools)
        pull = self.release.command("xrdcp") if root else None
        text = xrootd.configuration(
            server,
            self.credentials,
            pull,
            authorization=self.authorization,
            mirage=self.mirage,
            marking=self.marking,
        )
        (server.folder / "xrootd.cfg").write_text(text)

    def _run(self, server: Server, program: str) -> None:
        # cmsd writes another file next to its pid file; older releases leave that one in /tmp otherwise.
        pid = server.folder / f"{program}.{server.name}.pid"
        files = ["-c", str(server.folder / "xrootd.cfg"), "-l", str(_log(server, program)), "-s", str(pid)]
        command = [*user_prefix(), *self.release.command(program), *files]
        self.processes.start(server.name, command, server.folder, program=program)

    def _wait_for_cmsd(self, server: Server) -> None:
        def accepts() -> bool:
            return serving.accepts(self._socket(server.name), server.address, server.ports.cmsd)

        def logged_in() -> bool:
            log = _log(server, "cmsd")
            return log.exists() and xrootd.CMSD_LOGGED_IN in log.read_text(errors="replace")

        self._wait(serving.cmsd_probe(server.name, server.role, accepts, logged_in), server)

    def _listens(self, server: Server, port: int) -> bool:
        return port in listening(self.processes.name(server.name))

    def _get(self, side: str, context: ssl.SSLContext, place: str) -> tuple[int, str]:
        """Get the ready file from the router of a side, to avoid a long path; see `serving.get`."""
        return serving.get(place, context, self._socket(topology.ROUTER[side]))

    def _socket(self, node: str) -> socket.socket:
        return socket_inside(self.processes.name(node), socket.AF_INET, socket.SOCK_STREAM)

    def _wait(self, probe: ReadinessProbe, server: Server, seconds: float = START_SECONDS) -> None:
        try:
            serving.wait_for(probe._replace(place=server.name), seconds, self._fault)
        except serving.NotReadyError as error:
            raise DeploymentError(f"{error}\n{_tail(server)}") from None

    def _fault(self) -> str | None:
        if not self._up:
            self.processes.revive()
        return self.processes.fault()


def _log(server: Server, program: str) -> Path:
    return server.folder / f"{program}.{server.name}.log"


def _tail(server: Server) -> str:
    logs = sorted(server.folder.glob("*.log"))
    lines = [line for log in logs for line in _last_lines(log, LOG_TAIL)]
    return xrootd.without_secrets("\n".join(lines))


def _last_lines(log: Path, count: int) -> list[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.strip()][-count:]
