# SPDX-License-Identifier: Apache-2.0
"""The hub in the client's pod: it connects the agents of all servers, the client, and the job that measures.

The job connects through `relay` (an exec into this container). The hub numbers its messages and keeps them until the
job confirms them, so a dropped connection loses nothing; it executes a repeated request once. Without a job for some
time the hub ends, and with it the deployment's Job and all objects that the Job owns. It ends a cell at its `max_time`
or when its files are done, whether the job is in reach or not.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.hub SECONDS-FOR-ALL-PODS-TO-START SECONDS-WITHOUT-ANYBODY
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tpcsweep.deploying.linux.namespaces import boot_id
from tpcsweep.deploying.xrootd.server_config import parts_of
from tpcsweep.measuring import provenance
from tpcsweep.measuring.machine import Machine
from tpcsweep.testbeds.kubernetes.pod import server_container
from tpcsweep.testbeds.kubernetes.pod.ending import Ending
from tpcsweep.testbeds.kubernetes.pod.messages import (
    LONGEST,
    Ask,
    Channel,
    Verbs,
    answer_request,
    detach,
    encoded,
    execute,
)
from tpcsweep.testbeds.kubernetes.pod.pod_files import ENDED, HUB
from tpcsweep.testbeds.kubernetes.pod.watched import AgentSampling, Container
from tpcsweep.testbeds.node import serving
from tpcsweep.testbeds.node.program_counters import Target

PINGS = 5
READY_SECONDS = 60.0
POLL = 0.02
CLIENT = "client"
LAST = ("finished", "exhausted")
"""Events of the client after which no transfer begins."""


def client_agent(client: Target, say: Callable[..., None]) -> Ask:
    """Return the `ask` of the client container's agent, which is the hub itself."""
    sampling = AgentSampling(partial(say, of=CLIENT))
    verbs: Verbs = {
        "ping": time.monotonic,
        "watch": partial(sampling.start, client.read),
        "unwatch": sampling.stop,
    }

    async def ask(verb: str, /, **arguments: Any) -> Any:
        return await execute(verbs, verb, arguments)

    return ask


class Outbox:
    """Numbered messages to the job, kept until it confirms them."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._first = 0
        self.writer: asyncio.StreamWriter | None = None  # the job's connection, if it has one

    def say(self, **fields: object) -> None:
        number = self._first + len(self._lines)
        self._lines.append(encoded(number=number, **fields))
        if self.writer:
            self.writer.write(self._lines[-1])

    def attach(self, writer: asyncio.StreamWriter, number: int) -> None:
        """Send to this connection from `number` on, as the job has all earlier messages."""
        self.forget(number)
        self.writer = writer
        writer.write(b"".join(self._lines))

    def forget(self, number: int) -> None:
        """Delete all messages before `number`."""
        while self._lines and self._first < number:
            self._lines.popleft()
            self._first += 1


class Hub:
    def __init__(self) -> None:
        self.outbox = Outbox()
        self.agents: dict[str, Ask] = {}  # the `ask` of the agent of each server, and of the client's
        self.seen = time.monotonic()  # the time of the job's last message
        self._done: set[int] = set()
        self._client: Container
        self._destinations: list[str] = []
        self._idle = asyncio.Event()  # whether the client has no streams
        self._idle.set()
        self.ending = Ending(self._unwatch, self._stop_client, self._present)
        self._verbs: Verbs = {
            "begin": self.ending.begin,
            "unwatch": partial(self.ending.step, 0),
            "present": partial(self.ending.step, 2),
            "clock": time.monotonic,
            "connect": self.connect,
            "synchronise": self.synchronise,
            "tell": self.tell,
            "ready": self.ready,
            "client": self.client,
        }

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of the job; its first line names the first message that it lacks."""
        try:
            self.outbox.attach(writer, json.loads(await reader.readline())["from"])
            while line := await reader.readline():
                self.seen = time.monotonic()
                message = json.loads(line)
                self.outbox.forget(message.get("from", 0))
                if "log" in message:
                    print(message["log"], flush=True)  # noqa: T201, for `kubectl logs`
                if "id" in message and message["id"] not in self._done:
                    self._done.add(message["id"])
                    detach(self._answer(message))
        except (OSError, ValueError):
            pass
        finally:
            if self.outbox.writer is writer:  # no newer connection
                self.outbox.writer = None
            writer.close()

    async def _answer(self, request: dict[str, Any]) -> None:
        self.outbox.say(**await answer_request(self._verbs, request))

    async def connect(
        self, servers: dict[str, str], destinations: list[str], tools: list[str]
    ) -> dict[str, Any]:
        """Wait for credentials, client and agents; return the machine of this pod and the versions of its tools."""
        self._tls = serving.user_context(await asyncio.to_thread(server_container.credentials))
        self._destinations = destinations
        await asyncio.gather(*(self._connect(name, address) for name, address in servers.items()))
        self._client = await asyncio.to_thread(Container, 2)
        client = Target(self._client.programs(CLIENT), Machine())
        self.agents[CLIENT] = client_agent(client, self.outbox.say)
        detach(self._listen_to_client())
        return {
            "machine": provenance.machine(),
            "settings": await asyncio.to_thread(provenance.settings),
            "software": await asyncio.to_thread(provenance.software, tools),
            "boot": boot_id(),
        }

    async def _connect(self, name: str, place: str) -> None:
        address, port = parts_of(place)
        give_up = time.monotonic() + READY_SECONDS
        while name not in self.agents:
            try:
                streams = await asyncio.open_connection(
                    address, port, ssl=self._tls, server_hostname=address, limit=LONGEST
                )
                self.agents[name] = Channel(name, *streams, partial(self.outbox.say, of=name)).ask
            except OSError as error:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{name} at {place} does not answer: {error}") from None
                await asyncio.sleep(POLL)

    async def tell(self, to: list[str], verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask several agents at once, and return their answers; raises RuntimeError."""
        answers = await asyncio.gather(*(self.agents[name](verb, **arguments) for name in to))
        return dict(zip(to, answers, strict=True))

    async def synchronise(self) -> dict[str, float]:
        """Return the seconds by which the agents' clocks are behind this one."""
        behind = await asyncio.gather(*map(_behind, self.agents.values()))
        return dict(zip(self.agents, behind, strict=True))

    async def ready(self, redirector: str | None, origins: list[str]) -> None:
        """Wait until the servers of a side, given by address and port, are ready; raises NotReadyError."""

        def get(place: str) -> tuple[int, str]:
            family = socket.AF_INET6 if place.startswith("[") else socket.AF_INET
            return serving.get(place, self._tls, socket.socket(family))

        for probe in serving.probes(redirector, origins, get):
            await asyncio.to_thread(serving.wait_for, probe, READY_SECONDS)

    async def client(self, line: str) -> None:
        """Pass on a request to the client; a stop ends the cell, and is answered when no transfer runs."""
        request = json.loads(line)
        if "stop" in request:
            await self.ending.step(1)
            self.outbox.say(client={"event": "stopped"})
            return
        if "run" in request:
            self._idle.clear()
        self._send(request)

    def _send(self, request: dict[str, Any]) -> None:
        self._client.connections[0].sendall(json.dumps(request).encode() + b"\n")

    async def _unwatch(self) -> float:
        """Have every agent look a last time, whose samples come before its answer; return the time before."""
        before = time.monotonic()
        await self.tell(list(self.agents), "unwatch", {})
        return before

    async def _stop_client(self) -> None:
        if not self._idle.is_set():
            self._send({"stop": {}})
        await self._idle.wait()

    async def _present(self) -> dict[str, Any]:
        return await self.tell(self._destinations, "present", {})

    async def _listen_to_client(self) -> None:
        reader, _ = await asyncio.open_unix_connection(sock=self._client.connections[1], limit=LONGEST)
        last: asyncio.Task[None] | None = None
        while line := await reader.readline():
            last = asyncio.create_task(self._pass_on(json.loads(line), last))
        if last:
            await last
        self._idle.set()
        self.outbox.say(gone=CLIENT)

    async def _pass_on(self, event: dict[str, Any], before: asyncio.Task[None] | None) -> None:
        """Pass on an event after the one `before`; its file is removed at once, as next transfers need the memory."""
        if event["event"] == "end":
            with contextlib.suppress(RuntimeError):  # its channel reports an agent that is gone
                arrivals = await self.tell(self._destinations, "remove", {"name": event["name"]})
                # One destination had the file; the others report size 0.
                name, arrival = max(arrivals.items(), key=lambda item: item[1][1])
                event["arrival"] = [name, *arrival]
        if before:
            await before
        if event["event"] == "stopped":
            self._idle.set()
            return
        self.outbox.say(client=event)
        if event["event"] in LAST:
            self.ending.end()


async def _behind(ask: Ask) -> float:
    """Return the seconds by which a clock is behind, from the middle of the quickest of a few round trips."""
    looks = []
    for _ in range(PINGS):
        began = time.monotonic()
        theirs = await ask("ping")
        ended = time.monotonic()
        looks.append((ended - began, (began + ended) / 2 - theirs))
    return float(min(looks)[1])


async def main(start: float, longest: float) -> None:
    """Serve until no job has connected for `longest` seconds, and at first `start` seconds more for pods to start."""
    server_container.end_on_term()
    hub = Hub()
    hub.seen += start
    # `async with` would wait for open sessions since Python 3.12.
    listening = await asyncio.start_unix_server(hub.session, str(HUB), limit=LONGEST)
    while time.monotonic() - hub.seen < longest:
        await asyncio.sleep(1)
    print(f"ends: no job has connected for {longest:.0f} s", flush=True)  # noqa: T201, for `kubectl logs`
    listening.close()
    ENDED.touch()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2])))
