# SPDX-License-Identifier: Apache-2.0
"""The server container: runs the XRootD programs of one server, and ends and starts xrootd when told to.

Obeys lines of JSON from the agent beside it, answered with `ok` or `error`. A program that ends by itself ends the
container. Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.servers NAME ROLE RELEASE CMSD-PORT PROGRAM…
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tpcsweep.measure.files import add_source
from tpcsweep.testbeds.kubernetes.pod import contained
from tpcsweep.testbeds.kubernetes.pod.places import CONFIGURATION, STATE
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER
from tpcsweep.xrootd.releases import ReleaseError, in_image
from tpcsweep.xrootd.servers import CMSD_LOGGED_IN, require

LOGIN_SECONDS = 30.0


class Servers:
    """The programs of one server."""

    def __init__(self, name: str, role: str, release: str, port: int, programs: list[str]) -> None:
        self._name = name
        self._manager = role == "manager"
        self._release = release
        self._port = port
        """Its cmsd's."""
        self._programs = programs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._expected: set[int] = set()
        """Processes that were told to end."""

    def release(self) -> dict[str, Any]:
        """What runs here, by what its program says.

        Raises:
            ReleaseError: The image has none of that name, or it cannot do what servers are asked for.
        """
        release = in_image(self._release)
        require(release)
        return release.describe()

    def start(self) -> None:
        """Start all, cmsd first: an xrootd that finds no cmsd looks for it again ten seconds later."""
        if "cmsd" in self._programs:
            ready = threading.Event()
            process = self._run("cmsd", stderr=subprocess.PIPE)
            threading.Thread(target=_pass_on, args=(process, ready), daemon=True).start()
            waited = _accepts(self._port) if self._manager else ready.wait(LOGIN_SECONDS)
            if not waited:
                raise RuntimeError(f"its cmsd was not ready after {LOGIN_SECONDS:g} s")
        self._run("xrootd")

    def stop(self) -> None:
        """End xrootd, with every connection and request that it has; cmsd runs on, so that `resume` takes 0.2 s."""
        process = self._running["xrootd"]
        self._expected.add(process.pid)
        process.kill()
        process.wait()

    def resume(self) -> None:
        """Start xrootd again after `stop`."""
        self._run("xrootd")

    def _run(self, program: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
        command = [*in_image(self._release).command(program), "-c", str(CONFIGURATION / f"{self._name}.cfg")]
        process = subprocess.Popen(command, cwd=STATE, stdin=subprocess.DEVNULL, stderr=stderr)
        self._running[program] = process
        threading.Thread(target=self._watch, args=(program, process), daemon=True).start()
        return process

    def _watch(self, program: str, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if process.pid not in self._expected:
            contained.fail(f"{program} ended with exit code {code}")


def _accepts(port: int) -> bool:
    """Whether the cmsd of a redirector accepts connections in time."""
    give_up = time.monotonic() + LOGIN_SECONDS
    while time.monotonic() < give_up:
        with socket.socket() as plain:
            if plain.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(contained.POLL)
    return False


def _pass_on(process: subprocess.Popen[bytes], ready: threading.Event) -> None:
    """Into the container's log, until its own end."""
    assert process.stderr
    for line in process.stderr:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
        if CMSD_LOGGED_IN.encode() in line:
            ready.set()


def main(name: str, role: str, release: str, port: int, programs: list[str]) -> None:
    """Run until the agent is gone."""
    contained.end_on_term()
    contained.credentials()
    servers = Servers(name, role, release, port, programs)
    [connection] = contained.taken()
    verbs: dict[str, Callable[..., object]] = {
        "release": servers.release,
        "start": servers.start,
        "stop": servers.stop,
        "resume": servers.resume,
        # Here, not in the agent: what is kept in memory counts against the container that wrote it.
        "add_source": partial(add_source, FOLDER),
    }
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            request = json.loads(line)
            try:
                answer = {"ok": verbs[request["do"]](**request["with"])}
            except (OSError, RuntimeError, ReleaseError) as error:
                answer = {"error": str(error)}
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
    contained.fail("the agent is gone")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
