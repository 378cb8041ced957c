# SPDX-License-Identifier: Apache-2.0
"""The agent of a server: it starts the server, samples its pod and removes its files, as the hub asks over TLS.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.agent [FIRST-PORT-OF-ITS-SERVER]
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tpcsweep.measure import provenance
from tpcsweep.testbeds.kubernetes.pod import network, server_container
from tpcsweep.testbeds.kubernetes.pod.messages import LONGEST, detach, encoded, perform
from tpcsweep.testbeds.kubernetes.pod.places import block
from tpcsweep.testbeds.kubernetes.pod.probes import Probes
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER, ContainerPrograms, Watched, repeat
from tpcsweep.xrootd import servers as xrootd
from tpcsweep.xrootd.monitoring import Monitor


class Agent:
    """The agent of one server; it serves one hub."""

    def __init__(self, servers: ContainerPrograms, ports: xrootd.Ports) -> None:
        self._servers = servers
        self._ports = ports
        self._lines = servers.connections[0].makefile("rw")
        self._lock = asyncio.Lock()
        self._probes = Probes(ports.probe)
        self._watched: Watched | None = None
        self._sampling: asyncio.Task[None] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the connection ends."""
        passed_on = ("release", "start", "stop", "resume", "add_source")
        verbs: dict[str, Callable[..., Any]] = {
            "ping": time.monotonic,
            "describe": self.describe,
            "own": network.own,
            "introduce": partial(network.introduce, self._ports.cmsd),
            "emulate": lambda **asked: asyncio.to_thread(network.emulate, **asked),
            **self._probes.verbs,
            **{verb: partial(self.servers, verb) for verb in passed_on},
            "remove": lambda name: self._look().files.remove(name),
            "present": lambda: self._look().files.present(),
            # Resumed servers are asked for the ready file again.
            "clear": lambda: self._look().files.clear(keep=xrootd.READY_FILE),
            "totals": self.totals,
            "busy": lambda: self._look().busy(),
            "watch": partial(self.watch, writer),
            "unwatch": self.unwatch,
        }

        async def obey(request: dict[str, Any]) -> None:
            writer.write(encoded(**await perform(verbs, request)))

        try:
            with telling_copies(writer, self._ports.monitor):
                while line := await reader.readline():
                    detach(obey(json.loads(line)))
        except OSError:
            pass
        finally:
            await self.unwatch()
            writer.close()

    async def describe(self, peers: list[str]) -> dict[str, Any]:
        """Describe the machine and its network towards the other side's origins, and watch connections to them."""
        description = await asyncio.to_thread(network.describe_network, peers)
        self._watched = Watched(self._servers, self._ports.server, description["interfaces"], peers)
        return {
            "machine": provenance.machine(),
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            **description,
        }

    async def servers(self, verb: str, **arguments: object) -> Any:
        """Pass a request on to the server container; raises RuntimeError with its error."""

        def tell() -> dict[str, Any]:
            self._lines.write(json.dumps({"do": verb, "with": arguments}) + "\n")
            self._lines.flush()
            return dict(json.loads(self._lines.readline() or '{"error": "the server container is gone"}'))

        async with self._lock:
            said = await asyncio.to_thread(tell)
        if "error" in said:
            raise RuntimeError(said["error"])
        return said["ok"]

    async def totals(self) -> list[int | None]:
        """Return scheduling periods, throttled ones, dropped packets, and those dropped by a full queue."""
        return [*self._servers.periods(), *await asyncio.to_thread(network.drops)]

    async def watch(self, writer: asyncio.StreamWriter, interval: float) -> None:
        """Send a sample now and then every `interval` seconds."""
        await self.unwatch()
        watched = self._look()

        def look() -> None:
            writer.write(encoded(sample=watched.sample()))

        look()
        self._sampling = asyncio.create_task(repeat(look, interval))

    async def unwatch(self) -> None:
        if self._sampling:
            self._sampling.cancel()
            self._sampling = None

    def _look(self) -> Watched:
        if self._watched is None:
            raise RuntimeError("not described yet")
        return self._watched


@contextmanager
def telling_copies(writer: asyncio.StreamWriter, port: int) -> Iterator[None]:
    """Pass on the copies that XRootD's monitoring reports."""
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    monitor = Monitor([plain], port)

    def tell() -> None:
        for copy in monitor.copies():
            writer.write(encoded(copy=copy))

    asyncio.get_running_loop().add_reader(plain, tell)
    try:
        yield
    finally:
        asyncio.get_running_loop().remove_reader(plain)
        monitor.close()


async def main(first: int | None = None) -> None:
    server_container.end_on_term()
    credentials = await asyncio.to_thread(server_container.credentials)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / xrootd.READY_FILE).write_bytes(b"\n")
    ports = block(first)
    agent = Agent(await asyncio.to_thread(ContainerPrograms), ports)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials / "ca.pem"))
    tls.load_cert_chain(credentials / "host.pem", credentials / "host.key")
    tls.verify_mode = ssl.CERT_REQUIRED
    obeying = await asyncio.start_server(agent.serve, None, ports.agent, ssl=tls, limit=LONGEST)
    async with obeying:
        await obeying.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
