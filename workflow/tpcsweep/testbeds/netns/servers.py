# SPDX-License-Identifier: Apache-2.0
"""Start the servers of a deployment in an order that works, and wait until each has answered a real request."""

from __future__ import annotations

import http.client
import os
import pwd
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from tpcsweep.flags import BrokenError
from tpcsweep.linux.cgroups import Cgroup, Hierarchy
from tpcsweep.linux.commands import Commands
from tpcsweep.linux.namespaces import inside, listening, socket_inside
from tpcsweep.linux.rootless import is_alone
from tpcsweep.testbeds.netns import topology
from tpcsweep.tools import Place, Service, Tool
from tpcsweep.xrootd import probe
from tpcsweep.xrootd import servers as xrootd
from tpcsweep.xrootd.releases import Release
from tpcsweep.xrootd.servers import Server

USER = "xrootd"
PLACES: tuple[Place, ...] = ("source", "destination")
START_SECONDS = 30.0
ANSWER_SECONDS = 10.0
"""A server that was ready before, and idles, has so long to answer."""
POLL = 0.01
LOG_TAIL = 8
"""Lines of each of a server's logs that an error quotes."""
LONGEST = 300
"""Characters of a server's last words."""


def owner() -> tuple[int, int]:
    """Give the user and group to whom the servers' files belong, as this process sees them."""
    user = pwd.getpwnam(USER)
    return (0, 0) if is_alone() else (user.pw_uid, user.pw_gid)


def identity() -> list[str]:
    """Give a prefix for a command line that runs the command as USER, as XRootD does not run as root.

    An ordinary user who is root of a user namespace has one more below it, where he goes by that name. Should the job
    be killed, its servers go with it; reaping then finds only what does not run.
    """
    end = ["--pdeathsig", "KILL"]
    if is_alone():
        return ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "setpriv", *end]
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *end]


class DeploymentError(Exception):
    """A server did not come up; the message says which, and what it said."""


@dataclass(frozen=True)
class Side:
    """The servers of one side, their groups, and the folder of their files."""

    redirector: Server | None
    origins: tuple[Server, ...]
    groups: tuple[Cgroup, ...]
    """One for each origin."""
    files: Path
    disk: bool = False
    """Whether the files are on a disk, and not in memory."""

    @property
    def servers(self) -> list[Server]:
        """All servers, origins first."""
        return [*self.origins, *([self.redirector] if self.redirector else [])]

    def base_urls(self, endpoint: str) -> list[str]:
        """Give the URLs to which the client sends its requests: the redirector's alone, or those of all origins."""
        if endpoint == "redirector" and self.redirector:
            return [self.redirector.url]
        return [origin.url for origin in self.origins]


class Process(NamedTuple):
    """A process that lives as long as its deployment."""

    name: str
    child: subprocess.Popen[bytes]
    logs: tuple[Path, ...]
    """Where its last words may be; the first log that is not empty counts."""
    again: Callable[[], object] | None = None
    """Starts it once more; None if it must not be."""

    def end(self) -> str | None:
        """Say how it has ended, with its last words; None while it runs."""
        code = self.child.poll()
        if code is None:
            return None
        outcome = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        )
        words = next((line for log in self.logs for line in _last_lines(log, 1)), "")
        said = f"; its last words: {xrootd.without_secrets(words)[:LONGEST]}" if words else ""
        return f"{self.name} {outcome}{said}"


@dataclass
class Processes:
    """The long-lived processes of a deployment, each in a namespace and a cgroup of its own."""

    prefix: str
    tree: Hierarchy
    commands: Commands
    children: list[subprocess.Popen[bytes]]
    """Those started, for whoever must wait for them in the end."""
    _running: list[Process] = field(default_factory=list)

    def start(
        self,
        node: str,
        command: list[str],
        folder: Path,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        program: str = "",
    ) -> subprocess.Popen[bytes]:
        """Start a command in a folder that gets its logs; its standard output is a pipe if its standard input is.

        A node that has several has a name for each program; only those are started again by `revive`.
        """
        name = f"{self.prefix}-{node}"
        whole = [*self.tree.group(name).entry(), *inside(name, command)]
        self.commands.note(" ".join(whole) + " &")
        stderr = folder / f"stderr.{node}.log"
        with stderr.open("ab") as errors:
            child = subprocess.Popen(
                whole,
                cwd=folder,
                stdin=stdin,
                stdout=subprocess.PIPE if stdin == subprocess.PIPE else subprocess.DEVNULL,
                stderr=errors,
                # A session of its own: Ctrl-C is for the job, which then ends them in its own order.
                start_new_session=True,
            )
        self.children.append(child)
        logs = (folder / f"{program}.{node}.log", stderr)
        again = partial(self.start, node, command, folder, program=program) if program else None
        self._running.append(Process(f"{node}: {program}" if program else node, child, logs, again))
        return child

    def revive(self) -> None:
        """Start crashed programs again, each once: XRootD 5.5.3 crashes now and then as it comes up."""
        for process in list(self._running):
            if process.again and process.child.poll() == -signal.SIGSEGV:
                self.commands.note(f"# {process.end()}; started again")
                self._running.remove(process)
                process.again()
                self._running[-1] = self._running[-1]._replace(again=None)

    def fault(self) -> str | None:
        """Say how the first one that is not running has ended; None while all run."""
        return next((end for process in self._running if (end := process.end())), None)


@dataclass
class Servers:
    """The XRootD servers of both sides."""

    prefix: str
    sides: Sequence[Side]
    credentials: Path
    release: Release
    processes: Processes
    tools: Sequence[Tool]
    streams: int
    """The most that a cell has."""
    authorization: str
    _up: bool = False
    """Whether all have been seen to answer: who crashes from then on is a fault."""

    def start(self) -> None:
        """Start redirectors, then the origins' cmsd, then their xrootd: any other order stalls for ten seconds.

        Raises:
            DeploymentError: if one does not come up.
        """
        redirectors = [side.redirector for side in self.sides if side.redirector]
        origins = [origin for side in self.sides for origin in side.origins]
        for server in [*redirectors, *origins]:
            self._configure(server)
        for server in redirectors:
            self._run(server, "cmsd")
        for server in redirectors:
            self._wait(partial(self._accepts, server), "its cmsd to accept connections", server)
            self._run(server, "xrootd")
        for server in origins:
            self._run(server, server.programs[0])
        for server in (origin for origin in origins if "cmsd" in origin.programs):
            self._wait(partial(_says, server), "its cmsd", server)
            self._run(server, "xrootd")
        for origin, service in self._services():
            command = [*self._named(), *identity(), *service.command]
            self.processes.start(origin.name, command, origin.folder, program=service.name)

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Wait until every origin has delivered a file, and every redirector has redirected to each of its origins.

        Raises:
            DeploymentError: if one has not after some seconds.
        """
        for origin, service in self._services():
            ready = partial(self._listens, origin, service.port)
            self._wait(ready, f"{service.name} to listen on port {service.port}", origin, seconds)
        context = probe.context(self.credentials)
        for side in self.sides:
            for origin in side.origins:
                self._wait(partial(self._delivers, origin, context), "an answer to GET", origin, seconds)
            if side.redirector:
                missing = {origin.place for origin in side.origins}
                complete = partial(self._redirects, side.redirector, context, missing)
                self._wait(complete, "a redirection to each of its origins", side.redirector, seconds)
        self._up = True

    def answer(self) -> None:
        """Raise BrokenError unless all do what `wait` waits for."""
        try:
            self.wait(ANSWER_SECONDS)
        except DeploymentError as error:
            raise BrokenError(str(error).partition("\n")[0]) from error

    def _services(self) -> Iterator[tuple[Server, Service]]:
        """Give what the tools need beside XRootD, each with its origin."""
        for side, place in zip(self.sides, PLACES, strict=True):
            for origin in side.origins:
                for tool in self.tools:
                    yield from ((origin, each) for each in tool.services(place, origin.address, self.streams))

    def _named(self) -> list[str]:
        """Give a prefix for a command that looks up the names of its own addresses, which no resolver here has."""
        hosts = self.credentials.parent / "hosts"
        origins = (origin for side in self.sides for origin in side.origins)
        hosts.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{origin.address} {origin.name}\n" for origin in origins)
        )
        bind = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", bind, str(hosts)]

    def _listens(self, server: Server, port: int) -> bool:
        return port in listening(f"{self.prefix}-{server.name}")

    def _configure(self, server: Server) -> None:
        server.folder.mkdir(parents=True)
        os.chown(server.folder, *owner())
        root = any(tool.protocol == "root" for tool in self.tools)
        pull = self.release.command("xrdcp") if root else None
        text = xrootd.configuration(server, self.credentials, pull, authorization=self.authorization)
        (server.folder / "xrootd.cfg").write_text(text)

    def _run(self, server: Server, program: str) -> None:
        # Beside the file of its pid it writes another one, which older releases leave in /tmp otherwise.
        pid = server.folder / f"{program}.{server.name}.pid"
        files = ["-c", str(server.folder / "xrootd.cfg"), "-l", str(_log(server, program)), "-s", str(pid)]
        self.processes.start(
            server.name, [*identity(), *self.release.command(program), *files], server.folder, program=program
        )

    def _accepts(self, server: Server) -> bool:
        with socket_inside(f"{self.prefix}-{server.name}", socket.AF_INET, socket.SOCK_STREAM) as plain:
            plain.settimeout(1)
            return plain.connect_ex((server.address, xrootd.CMSD_PORT)) == 0

    def _delivers(self, server: Server, context: ssl.SSLContext) -> bool:
        return self._get(server, context)[0] == http.client.OK

    def _redirects(self, server: Server, context: ssl.SSLContext, missing: set[str]) -> bool:
        missing.discard(self._get(server, context)[1])
        return not missing

    def _get(self, server: Server, context: ssl.SSLContext) -> tuple[int, str]:
        """Get the ready file from its side's router, so that a long path takes no time; see `probe.get`."""
        router = topology.ROUTER[server.name[:3]]
        plain = socket_inside(f"{self.prefix}-{router}", socket.AF_INET, socket.SOCK_STREAM)
        return probe.get(server.place, context, plain)

    def _wait(
        self, ready: Callable[[], bool], awaited: str, server: Server, seconds: float = START_SECONDS
    ) -> None:
        give_up = time.monotonic() + seconds
        try:
            while not ready():
                if not self._up:
                    self.processes.revive()
                why = self.processes.fault()
                if time.monotonic() > give_up:
                    why = why or f"nothing after {seconds:g} s"
                if why:
                    raise DeploymentError(f"{server.name}: waited for {awaited}: {why}\n{_tail(server)}")
                time.sleep(POLL)
        except ssl.SSLCertVerificationError as error:
            raise DeploymentError(f"{server.name}: waited for {awaited}: {error}") from None


def _log(server: Server, program: str) -> Path:
    return server.folder / f"{program}.{server.name}.log"


def _says(server: Server) -> bool:
    """Say whether an origin's cmsd is ready for its xrootd."""
    log = _log(server, "cmsd")
    return log.exists() and xrootd.CMSD_LOGGED_IN in log.read_text(errors="replace")


def _tail(server: Server) -> str:
    """Give the ends of a server's logs, without secrets."""
    logs = sorted(server.folder.glob("*.log"))
    lines = [line for log in logs for line in _last_lines(log, LOG_TAIL)]
    return xrootd.without_secrets("\n".join(lines))


def _last_lines(log: Path, count: int) -> list[str]:
    """Give the last lines of a log that are not empty; none of a log that is not there."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.strip()][-count:]
