# SPDX-License-Identifier: Apache-2.0
"""The server container: it runs the XRootD programs of one server, as its agent asks.

A program that ends by itself ends the container.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.server_programs NAME ROLE RELEASE CMSD-PORT PROGRAM…
"""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from tpcsweep.common import processes
from tpcsweep.deploying.xrootd.releases import ReleaseError, in_image
from tpcsweep.deploying.xrootd.server_config import CMSD_LOGGED_IN, LOOPBACK, require_recent
from tpcsweep.measuring.transfer_files import add_source
from tpcsweep.testbeds.kubernetes.pod import server_container
from tpcsweep.testbeds.kubernetes.pod.messages import LONGEST, Verbs, serve_requests
from tpcsweep.testbeds.kubernetes.pod.pod_files import CONFIGURATION, STATE
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER
from tpcsweep.testbeds.node import serving

LOGIN_SECONDS = 30.0


class ServerPrograms:
    def __init__(self, name: str, role: str, release: str, port: int, programs: Sequence[str]) -> None:
        """`port` is the cmsd's."""
        self.role = role
        self.programs = programs
        self._name = name
        self._release = release
        self._port = port
        self._running: dict[str, subprocess.Popen[bytes]] = {}  # programs that must not end
        self._logged_in = False

    def release(self) -> dict[str, Any]:
        return describe_release(self._release)

    def start(self) -> None:
        serving.start_servers([self], ServerPrograms._run, ServerPrograms._wait_for_cmsd)

    def stop(self) -> None:
        """End xrootd with all connections and requests; cmsd continues, so that `resume` takes 0.2 s."""
        process = self._running.pop("xrootd")
        process.kill()
        process.wait()

    def resume(self) -> None:
        self._run("xrootd")

    def _run(self, program: str) -> None:
        command = [*in_image(self._release).command(program), "-c", str(CONFIGURATION)]
        how = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE if program == "cmsd" else None}
        process = processes.start(command, processes.full_environment(), cwd=STATE, **how)
        self._running[program] = process
        threading.Thread(target=self._watch, args=(program, process), daemon=True).start()

    def _wait_for_cmsd(self) -> None:
        accepts = lambda: serving.accepts(socket.socket(), LOOPBACK, self._port)  # noqa: E731
        serving.wait_for(
            serving.cmsd_probe(self._name, self.role, accepts, lambda: self._logged_in), LOGIN_SECONDS
        )

    def _watch(self, program: str, process: subprocess.Popen[bytes]) -> None:
        """Pass on the log of a cmsd; a program that ends by itself ends the container."""
        for line in process.stderr or ():
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            self._logged_in |= CMSD_LOGGED_IN.encode() in line
        code = process.wait()
        if self._running.get(program) is process:
            server_container.fail(f"{program} ended with exit code {code}")


def describe_release(name: str) -> dict[str, Any]:
    """Describe a release of the image, or say why it is `unusable`: the image lacks it, or it is too old."""
    try:
        release = in_image(name)
        require_recent(release)
        return release.describe()
    except ReleaseError as error:
        return {"unusable": str(error)}


async def main(name: str, role: str, release: str, port: str, *programs: str) -> None:
    server_container.end_on_term()
    server_container.credentials()
    servers = ServerPrograms(name, role, release, int(port), programs)
    methods = (servers.release, servers.start, servers.stop, servers.resume)
    verbs: Verbs = {
        **{method.__name__: method for method in methods},
        # Not in the agent, as memory counts against the container that wrote it.
        "add_source": partial(add_source, FOLDER),
    }
    [connection] = server_container.taken()
    await serve_requests(verbs, *await asyncio.open_unix_connection(sock=connection, limit=LONGEST))
    server_container.fail("the agent is gone")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
