# SPDX-License-Identifier: Apache-2.0
"""A way to an API server that can be made to stall: what is sent meanwhile arrives afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.cluster.local.keeper import pump


class Relay:
    """A port of this machine that leads to the server of a kubeconfig, for the length of a `with`."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """`folder` is for the kubeconfig of those who are to go this way."""
        content = yaml.safe_load(kubeconfig.read_text())
        known = content["clusters"][0]["cluster"]
        server = urlsplit(known["server"])
        listening = socket.create_server(("127.0.0.1", 0))
        known["server"] = f"https://127.0.0.1:{listening.getsockname()[1]}"
        self.kubeconfig = folder / "relayed.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(content))
        # A process of its own, which can be stopped.
        way = listening, server.hostname, server.port
        self._process = multiprocessing.get_context("spawn").Process(target=_relay, args=way, daemon=True)

    def __enter__(self) -> Relay:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let nothing pass, either way, for the length of a `with`."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)


def _relay(listening: socket.socket, host: str, port: int) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            back, there = await asyncio.open_connection(host, port)
            with contextlib.closing(there):
                await asyncio.gather(pump(reader, there), pump(back, writer))

    async def serve() -> None:
        async with await asyncio.start_server(carry, sock=listening) as server:
            await server.serve_forever()

    asyncio.run(serve())
