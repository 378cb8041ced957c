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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from tpcsweep.broken import BrokenError
from tpcsweep.linux.cgroups import Cgroup, Hierarchy
from tpcsweep.linux.commands import Commands
from tpcsweep.linux.namespaces import listening, socket_inside
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.site import Side
from tpcsweep.tools import Place, Service, Tool
from tpcsweep.xrootd import probe
from tpcsweep.xrootd import servers as xrootd
from tpcsweep.xrootd.servers import Server

USER = "xrootd"
# Should the job be killed, its servers go with it; reaping then finds only what does not run.
IDENTITY = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--pdeathsig", "KILL"]
PLACES: tuple[Place, ...] = ("source", "destination")
START_SECONDS = 30.0
ANSWER_SECONDS = 10.0
"""A server that was ready before, and idles, has so long to answer."""
POLL = 0.01
LOG_TAIL = 8
"""Lines of each of a server's logs that an error quotes."""
LONGEST = 300
"""Characters of a server's last words."""


class DeploymentError(Exception):
    """A server did not come up, and what it said."""


class Process(NamedTuple):
    """A process that lives as long as its deployment."""

    name: str
    child: subprocess.Popen[bytes]
    logs: tuple[Path, ...]
    """Where it may have said something; the first that is not empty counts."""
    again: Callable[[], object] | None = None
    """Starts it once more; None for what has been."""

    def end(self) -> str | None:
        """How it has ended, and its last words; None while it runs."""
        code = self.child.poll()
        if code is None:
            return None
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        words = next((line for log in self.logs for line in _last_lines(log, 1)), "")
        said = f"; its last words: {xrootd.without_secrets(words)[:LONGEST]}" if words else ""
        return f"{self.name} {how}{said}"


class Processes:
    """The long-lived processes of a deployment, each in a namespace and a cgroup of its own."""

    def __init__(
        self, prefix: str, tree: Hierarchy, commands: Commands, children: list[subprocess.Popen[bytes]]
    ) -> None:
        self._children = children
        """Those started, for whoever must wait for them in the end."""
        self._running: list[Process] = []
        self._prefix = prefix
        self._tree = tree
        self._commands = commands

    def start(
        self,
        node: str,
        command: list[str],
        folder: Path,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        program: str = "",
    ) -> subprocess.Popen[bytes]:
        """Start a command; standard output can be read where standard input can be written.

        `program` says which of the node's it is, where there are several.
        """
        group = Cgroup(self._tree, f"{self._prefix}-{node}")
        whole = [*group.entry(), "nsenter", f"--net={state.NETNS / f'{self._prefix}-{node}'}", *command]
        self._commands.note(" ".join(whole) + " &")
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
        self._children.append(child)
        own = folder / f"{program}.{node}.log"
        name = f"{node}: {program}" if program else node
        again = partial(self.start, node, command, folder, program=program) if program else None
        self._running.append(Process(name, child, (own, stderr), again))
        return child

    def revive(self) -> None:
        """Start again, once, the programs that have crashed: XRootD 5.5.3 does now and then as it comes up."""
        for process in list(self._running):
            if process.again and process.child.poll() == -signal.SIGSEGV:
                self._commands.note(f"# {process.end()}; started again")
                self._running.remove(process)
                process.again()
                self._running[-1] = self._running[-1]._replace(again=None)

    def fault(self) -> str | None:
        """The first that has ended although it should not have, and its last words; None while all run."""
        return next((end for process in self._running if (end := process.end())), None)


class Servers:
    """The XRootD servers of both sides."""

    def __init__(
        self,
        prefix: str,
        sides: Iterable[Side],
        credentials: Path,
        processes: Processes,
        tools: Iterable[Tool],
        streams: int,
    ) -> None:
        self._prefix = prefix
        self._sides = list(sides)
        self._credentials = credentials
        self._processes = processes
        self._tools = list(tools)
        self._streams = streams
        self._up = False
        """Whether all have been found to answer: who crashes from then on is a fault."""

    def start(self) -> None:
        """Redirectors first, then the origins' cmsd, then their xrootd: any other order stalls for ten seconds.

        Raises DeploymentError.
        """
        redirectors = [side.redirector for side in self._sides if side.redirector]
        origins = [origin for side in self._sides for origin in side.origins]
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
            command = [*self._named(), *IDENTITY, *service.command]
            self._processes.start(origin.name, command, origin.folder, program=service.name)

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Until every origin has delivered a file, and every redirector has sent somebody to each of its origins.

        Raises DeploymentError.
        """
        for origin, service in self._services():
            listening = partial(self._listens, origin, service.port)
            self._wait(listening, f"{service.name} to listen on port {service.port}", origin, seconds)
        context = probe.context(self._credentials)
        for side in self._sides:
            for origin in side.origins:
                self._wait(partial(self._delivers, origin, context), "an answer to GET", origin, seconds)
            if side.redirector:
                missing = {origin.address for origin in side.origins}
                complete = partial(self._redirects, side.redirector, context, missing)
                self._wait(complete, "a redirection to each of its origins", side.redirector, seconds)
        self._up = True

    def fault(self) -> str | None:
        """What of the deployment's processes has ended, and its last words; None while all run."""
        return self._processes.fault()

    def answer(self) -> None:
        """Raise BrokenError unless all are still as `wait` has found them."""
        try:
            self.wait(ANSWER_SECONDS)
        except DeploymentError as error:
            raise BrokenError(str(error).partition("\n")[0]) from error

    def _services(self) -> Iterator[tuple[Server, Service]]:
        """What the tools need beside XRootD, each at its origin."""
        for side, place in zip(self._sides, PLACES, strict=True):
            for origin in side.origins:
                for tool in self._tools:
                    for service in tool.services(place, origin.address, self._streams):
                        yield origin, service

    def _named(self) -> list[str]:
        """A prefix for a command that looks up the names of its own addresses, which no resolver here has."""
        hosts = self._credentials.parent / "hosts"
        origins = (origin for side in self._sides for origin in side.origins)
        hosts.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{origin.address} {origin.name}\n" for origin in origins)
        )
        bind = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", bind, str(hosts)]

    def _listens(self, server: Server, port: int) -> bool:
        return port in listening(f"{self._prefix}-{server.name}")

    def _configure(self, server: Server) -> None:
        user = pwd.getpwnam(USER)
        server.folder.mkdir(parents=True)
        os.chown(server.folder, user.pw_uid, user.pw_gid)
        root = any(tool.protocol == "root" for tool in self._tools)
        (server.folder / "xrootd.cfg").write_text(xrootd.configuration(server, self._credentials, root))

    def _run(self, server: Server, program: str) -> None:
        files = ["-c", str(server.folder / "xrootd.cfg"), "-l", str(_log(server, program))]
        self._processes.start(server.name, [*IDENTITY, program, *files], server.folder, program=program)

    def _accepts(self, server: Server) -> bool:
        with socket_inside(f"{self._prefix}-{server.name}", socket.AF_INET, socket.SOCK_STREAM) as plain:
            plain.settimeout(1)
            return plain.connect_ex((server.address, xrootd.CMSD_PORT)) == 0

    def _delivers(self, server: Server, context: ssl.SSLContext) -> bool:
        return self._get(server, context)[0] == http.client.OK

    def _redirects(self, server: Server, context: ssl.SSLContext, missing: set[str]) -> bool:
        missing.discard(self._get(server, context)[1])
        return not missing

    def _get(self, server: Server, context: ssl.SSLContext) -> tuple[int, str]:
        """Status and host of the Location of a GET of the ready file, from the client's place; 0 without answer."""
        plain = socket_inside(f"{self._prefix}-client", socket.AF_INET, socket.SOCK_STREAM)
        return probe.get(server.address, context, plain)

    def _wait(
        self, ready: Callable[[], bool], what: str, server: Server, seconds: float = START_SECONDS
    ) -> None:
        give_up = time.monotonic() + seconds
        try:
            while not ready():
                if not self._up:
                    self._processes.revive()
                why = self.fault() or (f"nothing after {seconds:g} s" if time.monotonic() > give_up else None)
                if why:
                    raise DeploymentError(f"{server.name}: waited for {what}: {why}\n{_tail(server)}")
                time.sleep(POLL)
        except ssl.SSLCertVerificationError as error:
            raise DeploymentError(f"{server.name}: waited for {what}: {error}") from None


def _log(server: Server, program: str) -> Path:
    return server.folder / f"{program}.{server.name}.log"


def _says(server: Server) -> bool:
    """Whether an origin's cmsd is ready for its xrootd."""
    try:
        return xrootd.CMSD_LOGGED_IN in _log(server, "cmsd").read_text(errors="replace")
    except FileNotFoundError:
        return False


def _tail(server: Server) -> str:
    """The ends of a server's logs, without secrets."""
    logs = sorted(server.folder.glob("*.log"))
    lines = [line for log in logs for line in _last_lines(log, LOG_TAIL)]
    return xrootd.without_secrets("\n".join(lines))


def _last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a log that say something; none of a log that is not there."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line.strip()][-count:]
