# SPDX-License-Identifier: Apache-2.0
"""A cell in pods ends in time and in order, whether its job is in reach or not."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT, Hub
from tpcsweep.testbeds.kubernetes.pod.messages import encoded

RUN = json.dumps({"run": {}}) + "\n"
STOP = json.dumps({"stop": {}}) + "\n"
STOPPED = {"client": {"event": "stopped"}}


class Played:
    """A hub with a destination's agent, and the other end of its client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hub: Hub) -> None:
        self.hub, self._reader, self._writer = hub, reader, writer
        self.done: list[str] = []  # requests of the agent and of the client, in their order
        self.said: list[dict[str, Any]] = []  # messages to the job
        self.broken = False
        hub.outbox.say = lambda **message: self.said.append(message)  # type: ignore[method-assign]
        hub.agents = {"dst1": self._agent}
        hub._destinations = ["dst1"]

    async def _agent(self, verb: str, /, **_: Any) -> Any:
        self.done.append(verb)
        if self.broken:
            raise RuntimeError("dst1: it is gone")
        return {"c0.0.3": [None, len(self.done)]}

    async def serve(self) -> None:
        """Answer a stop as the client does, after a moment."""
        while line := await self._reader.readline():
            [request] = json.loads(line)
            self.done.append(request)
            if request == "stop":
                await asyncio.sleep(0.05)
                self.event("stopped")

    async def run(self) -> None:
        """Begin a cell."""
        self.hub.ending.begin(time.monotonic() + 60)
        await self.hub.client(RUN)
        while self.done[-1:] != ["run"]:
            await asyncio.sleep(0.01)

    def event(self, name: str, **fields: Any) -> None:
        self._writer.write(encoded(event=name, **fields))


@contextlib.asynccontextmanager
async def played() -> AsyncIterator[Played]:
    requests, listener, events, hub_end = *socket.socketpair(), *socket.socketpair()
    hub = Hub()
    hub._client = mock.Mock(connections=[requests, hub_end])
    reader, kept = await asyncio.open_unix_connection(sock=listener)
    _, writer = await asyncio.open_unix_connection(sock=events)
    made = Played(reader, writer, hub)
    tasks = [asyncio.create_task(each) for each in (made.serve(), hub._listen_to_client())]
    await made.run()
    yield made
    for end in (requests, writer, kept):
        end.close()
    await asyncio.gather(*tasks)


ORDER = ["run", "unwatch", "stop", "present"]


async def by_the_clock(cell: Played) -> None:
    cell.hub.ending.begin(time.monotonic() + 0.1)


async def by_the_client(cell: Played) -> None:
    cell.event("finished")


async def by_the_job(cell: Played) -> None:
    await cell.hub._verbs["unwatch"]()


@pytest.mark.parametrize("ended", [by_the_clock, by_the_client, by_the_job])
def test_a_cell_ends_once_and_in_order(ended: Any) -> None:
    """A job that comes late finds what was there at the end."""

    async def converse() -> None:
        async with played() as cell:
            await ended(cell)
            await asyncio.sleep(0.5)
            assert cell.done == ORDER
            assert STOPPED not in cell.said  # it would be taken for an event of the cell
            await cell.hub._verbs["unwatch"]()
            await cell.hub.client(STOP)
            assert cell.said[-1] == STOPPED
            assert await cell.hub._verbs["present"]() == {"dst1": {"c0.0.3": [None, 4]}}
            assert cell.done == ORDER
            await cell.run()
            await cell.hub.client(STOP)
            assert cell.done == [*ORDER, *ORDER[:-1]]

    asyncio.run(asyncio.wait_for(converse(), 60))


def test_a_pod_that_is_gone_is_named_and_the_client_ends_all_the_same() -> None:
    async def converse() -> None:
        async with played() as cell:
            cell.broken = True
            for verb in ("unwatch", "present"):
                with pytest.raises(RuntimeError, match="dst1: it is gone"):
                    await cell.hub._verbs[verb]()
            await cell.hub.client(STOP)
            assert cell.done == ORDER

    asyncio.run(asyncio.wait_for(converse(), 60))


def test_a_client_that_is_gone_keeps_nobody_waiting() -> None:
    async def converse() -> None:
        async with played() as cell:
            cell._writer.close()
            await asyncio.sleep(0.1)
            assert {"gone": CLIENT} in cell.said
            await cell.hub.client(STOP)

    asyncio.run(asyncio.wait_for(converse(), 60))
