# SPDX-License-Identifier: Apache-2.0
"""How an origin that shares its node's network gets known to its redirector by an address of its own.

A redirector sends clients to the address from which an origin's cmsd has come to it (XrdCmsNode.cc, `setName`). The
kernel chooses that address by the way to the redirector, and XRootD cannot: origins of one node would all have the
same, whatever they are to be asked for by. So cmsd comes to the agent beside it, which passes everything on from that
address.
"""

from __future__ import annotations

import asyncio
import contextlib

from tpcsweep.testbeds.kubernetes.pod.messages import start
from tpcsweep.xrootd.servers import LOOPBACK

BLOCK = 1 << 16


async def introduce(port: int, address: str, redirector: str) -> None:
    """Pass on what comes to a port of the loopback to the redirector's address and port, from an address of this node.

    Raises OSError where the port is taken.
    """
    host, _, its_port = redirector.partition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(host, int(its_port), local_addr=(address, 0))
            start(_pass_on(reader, there[1]))
            await _pass_on(there[0], writer)
        writer.close()

    await asyncio.start_server(serve, LOOPBACK, port)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either end is closed; then the other one is too."""
    with contextlib.suppress(OSError):
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
    writer.close()
