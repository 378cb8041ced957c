# SPDX-License-Identifier: Apache-2.0
"""The port by which agents look at a path: open while they do, and to them alone."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from tpcsweep.paths.probes import Probes

HOST = "127.0.0.1"
WORD = "0123456789abcdef" * 2


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@contextlib.asynccontextmanager
async def opened(port: int) -> AsyncIterator[Probes]:
    made = Probes(port)
    await made.verbs["open_probes"](word=WORD)
    yield made
    await made.verbs["close_probes"]()


def test_agents_that_were_told_the_word_look_at_a_path(port: int) -> None:
    async def look() -> None:
        async with opened(port) as made:
            ask, where = made.verbs, {"address": HOST, "port": port}
            rtts, mtu = await ask["round_trips"](**where, count=3)
            assert [0 <= rtt < 1000 for rtt in rtts] == [True] * 3
            assert mtu > 1000
            assert (await ask["pour"](**where, connections=2, seconds=0.3))["looks"]
            assert await ask["emptied"](**where, rtt=1e4, seconds=60.0)

    asyncio.run(look())


@pytest.mark.parametrize(
    ("pieces", "known"),
    [
        *((pieces, True) for pieces in ([WORD], [WORD[:7], WORD[7:]], [WORD, "more"], [""])),
        *(([word], False) for word in ("x" * len(WORD), "x" * 5000, WORD[:-1] + "x")),
    ],
)
def test_who_knows_the_word_is_heard_to_the_end_and_others_are_cut_off(
    port: int, pieces: list[str], known: bool
) -> None:
    async def tell() -> None:
        async with opened(port):
            reader, writer = await asyncio.open_connection(HOST, port)
            for piece in pieces:
                writer.write(piece.encode())
                await writer.drain()
                await asyncio.sleep(0.05)  # so that it comes by itself
            if known:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.1)
                writer.write_eof()
            with contextlib.suppress(ConnectionResetError):  # though it has not been told all
                assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()

    asyncio.run(tell())


def test_the_port_is_open_while_a_path_is_looked_at_and_no_longer(port: int) -> None:
    async def connect() -> None:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()

    async def before_and_after() -> None:
        with pytest.raises(ConnectionRefusedError):
            await connect()
        async with opened(port):
            await connect()
        with pytest.raises(ConnectionRefusedError):
            await connect()

    asyncio.run(before_and_after())
