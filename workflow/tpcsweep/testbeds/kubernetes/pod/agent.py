# SPDX-License-Identifier: Apache-2.0
"""The agent of a server: it starts the server, samples its pod and removes its files, as the hub asks over TLS.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.agent [FIRST-PORT-OF-ITS-SERVER]
"""

import asyncio
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tpcsweep.deploying.paths.tcp_probes import Probes
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.monitoring import clock, parse_datagram
from tpcsweep.measuring import provenance
from tpcsweep.testbeds.kubernetes.pod import network, server_container
from tpcsweep.testbeds.kubernetes.pod.messages import LONGEST, Channel, encoded, serve_requests
from tpcsweep.testbeds.kubernetes.pod.pod_files import block
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER, AgentSampling, Container, OriginPod

SERVER_VERBS = ("release", "start", "stop", "resume", "add_source")
"""Requests that the server container executes."""


async def serve(
    container: Container,
    channel: Channel,
    ports: xrootd.Ports,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Execute the hub's requests until its connection ends; `channel` leads to the server container."""

    def say(**fields: object) -> None:
        writer.write(encoded(**fields))

    def describe(target: str, peers: list[str], sysctls: list[str]) -> dict[str, Any]:
        """Describe machine and network towards the other side's origins, and watch connections to them.

        The server is a source or destination: a `target` of the sampler.
        """
        description = network.describe_network(peers, sysctls)
        pod = OriginPod(container, target, ports.server, description["interfaces"], peers)
        verbs["remove"] = pod.files.remove
        verbs["present"] = pod.files.present
        # Resumed servers are asked for the ready file again.
        verbs["clear"] = partial(pod.files.clear, keep=xrootd.READY_FILE)
        verbs["busy"] = pod.busy
        verbs["watch"] = partial(sampling.start, pod.target.read)
        return {"machine": provenance.machine(), "settings": provenance.settings(), **description}

    sampling = AgentSampling(say)
    verbs: dict[str, Callable[..., Any]] = {
        "ping": time.monotonic,
        "describe": describe,
        "own": network.own,
        "introduce": partial(network.introduce, ports.cmsd),
        "emulate": network.emulate,
        "unwatch": sampling.stop,
        **Probes(ports.probe).verbs,
        **{verb: partial(channel.ask, verb) for verb in SERVER_VERBS},
    }
    copies, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: CopyReports(say), (xrootd.LOOPBACK, ports.monitor)
    )
    try:
        await serve_requests(verbs, reader, writer)
    finally:
        sampling.cancel()
        copies.close()


class CopyReports(asyncio.DatagramProtocol):
    """The receiver of XRootD's monitoring, which passes on the copies that it reports."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say

    def datagram_received(self, data: bytes, _sender: object) -> None:
        for copy in parse_datagram(data, clock()):
            self._say(copy=copy)


async def main(first: int | None = None) -> None:
    server_container.end_on_term()
    credentials = server_container.credentials()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / xrootd.READY_FILE).write_bytes(b"\n")
    ports = block(first)
    container = Container()
    streams = await asyncio.open_unix_connection(sock=container.connections[0], limit=LONGEST)
    serve_hub = partial(serve, container, Channel("the server container", *streams), ports)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials / "ca.pem"))
    tls.load_cert_chain(credentials / "host.pem", credentials / "host.key")
    tls.verify_mode = ssl.CERT_REQUIRED
    obeying = await asyncio.start_server(serve_hub, None, ports.agent, ssl=tls, limit=LONGEST)
    async with obeying:
        await obeying.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
