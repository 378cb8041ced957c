# SPDX-License-Identifier: Apache-2.0
"""The hub beside the client: it connects the agents of all servers, the client, and the job that measures.

The job connects through `relay` (an exec into this container). The hub numbers its messages and keeps them until the
job confirms them, so a dropped connection loses nothing; it executes a repeated request once. Without a job for some
time the hub ends, and with it the deployment's Job and all objects that the Job owns.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.hub SECONDS-FOR-ALL-PODS-TO-START SECONDS-WITHOUT-ANYBODY [metrics]
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpcsweep.measure import provenance
from tpcsweep.measure.machine import Machine
from tpcsweep.testbeds.kubernetes.pod import metrics, server_container
from tpcsweep.testbeds.kubernetes.pod.messages import LONGEST, detach, encoded, perform
from tpcsweep.testbeds.kubernetes.pod.places import ENDED, HUB, Sample
from tpcsweep.testbeds.kubernetes.pod.watched import ContainerPrograms, repeat
from tpcsweep.testbeds.node import starting
from tpcsweep.xrootd.servers import parts_of

PINGS = 5
READY_SECONDS = 60.0
POLL = 0.02
CLIENT = "client"


class AgentLink:
    """The connection to the agent of a server."""

    def __init__(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, say: Callable[..., None]
    ) -> None:
        self.behind = 0.0
        """Seconds by which its clock is behind this one."""
        self._name = name
        self._writer = writer
        self._say = say
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._gone = False
        detach(self._listen(reader))

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Return the agent's answer; raises RuntimeError with its error, or if it is gone."""
        if self._gone:
            raise self._error("it is gone")
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(encoded(id=number, do=verb, **{"with": arguments}))
        return await future

    async def synchronise(self) -> None:
        """Measure `behind`, from the middle of the quickest of a few round trips."""
        looks = []
        for _ in range(PINGS):
            began = time.monotonic()
            theirs = await self.ask("ping", {})
            ended = time.monotonic()
            looks.append((ended - began, (began + ended) / 2 - theirs))
        self.behind = min(looks)[1]

    def arrival(self, first_byte: float | None, size: int) -> tuple[float | None, int]:
        """Return the arrival of a file by this clock."""
        return None if first_byte is None else first_byte + self.behind, size

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                message = json.loads(line)
                if "id" not in message:
                    self._pass_on(message)
                elif "error" in message:
                    self._waiting.pop(message["id"]).set_exception(self._error(message["error"]))
                else:
                    self._waiting.pop(message["id"]).set_result(message["ok"])
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._error("it is gone"))
        self._say(gone=self._name)

    def _pass_on(self, message: dict[str, Any]) -> None:
        if "sample" in message:
            time_of_sample, *rest = message["sample"]
            self._say(sample=[time_of_sample + self.behind, *rest], of=self._name)
        else:
            copied, begin, end, *rest = message["copy"]
            self._say(copy=[copied, begin + self.behind, end + self.behind, *rest])

    def _error(self, words: str) -> RuntimeError:
        return RuntimeError(f"{self._name}: {words}")


class Outbox:
    """Numbered messages to the job, kept until it confirms them."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._first = 0
        self.writer: asyncio.StreamWriter | None = None
        """The job's connection, if it has one."""

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
        self.running = metrics.CellMetrics()
        self.agents: dict[str, AgentLink] = {}
        """Agents by server."""
        self.seen = time.monotonic()
        """The time of the job's last message."""
        self._done: set[int] = set()
        self._client: ContainerPrograms
        self._destinations: list[str] = []
        self._sampling: asyncio.Task[None] | None = None
        setting_up = (self.connect, self.synchronise, self.tell, self.ready)
        measuring = (self.client, self.watch, self.unwatch, self.totals, self.present)
        self._verbs: dict[str, Callable[..., Any]] = {
            "clock": time.monotonic,
            "cell": self.running.begin,
            **{method.__name__: method for method in (*setting_up, *measuring)},
        }

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of the job; its first line names the first message that it lacks."""
        try:
            self.outbox.attach(writer, json.loads(await reader.readline())["from"])
            while line := await reader.readline():
                self.seen = time.monotonic()
                message = json.loads(line)
                self.outbox.forget(message.get("from", 0))
                if "id" in message and message["id"] not in self._done:
                    self._done.add(message["id"])
                    detach(self._obey(message))
        except (OSError, ValueError):
            pass
        finally:
            if self.outbox.writer is writer:  # no newer connection
                self.outbox.writer = None
            writer.close()

    def _say(self, **fields: Any) -> None:
        self.running.update(fields)
        self.outbox.say(**fields)

    async def _obey(self, request: dict[str, Any]) -> None:
        self.outbox.say(**await perform(self._verbs, request))

    async def connect(
        self, servers: dict[str, str], destinations: list[str], tools: list[str]
    ) -> dict[str, Any]:
        """Wait for credentials, client and agents; return the machine of this pod and the versions of its tools."""
        self._tls = starting.user_context(await asyncio.to_thread(server_container.credentials))
        self._destinations = destinations
        await asyncio.gather(*(self._connect(name, address) for name, address in servers.items()))
        self._client = await asyncio.to_thread(ContainerPrograms, 2)
        detach(self._listen_to_client())
        return {
            "machine": provenance.machine(),
            "software": await asyncio.to_thread(provenance.software, tools),
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        }

    async def _connect(self, name: str, place: str) -> None:
        address, port = parts_of(place)
        give_up = time.monotonic() + READY_SECONDS
        while name not in self.agents:
            try:
                streams = await asyncio.open_connection(
                    address, port, ssl=self._tls, server_hostname=address, limit=LONGEST
                )
                self.agents[name] = AgentLink(name, *streams, self._say)
            except OSError as error:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{name} at {place} does not answer: {error}") from None
                await asyncio.sleep(POLL)

    async def tell(self, to: list[str], verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask several agents at once, and return their answers; raises RuntimeError."""
        answers = await asyncio.gather(*(self.agents[name].ask(verb, arguments) for name in to))
        return dict(zip(to, answers, strict=True))

    async def synchronise(self) -> dict[str, float]:
        """Return the seconds by which the agents' clocks are behind this one."""
        await asyncio.gather(*(agent.synchronise() for agent in self.agents.values()))
        return {name: agent.behind for name, agent in self.agents.items()}

    async def ready(self, redirector: str | None, origins: list[str]) -> None:
        """Wait until the servers of a side, given by address and port, are ready; raises TimeoutError."""

        def get(place: str) -> tuple[int, str]:
            family = socket.AF_INET6 if place.startswith("[") else socket.AF_INET
            return starting.get(place, self._tls, socket.socket(family))

        give_up = time.monotonic() + READY_SECONDS
        for each in starting.probes(redirector, origins, get):
            while not await asyncio.to_thread(each.ready):
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{each.place}: waited {READY_SECONDS:.0f} s for {each.awaited}")
                await asyncio.sleep(POLL)

    async def client(self, line: str) -> None:
        self._client.connections[0].sendall(line.encode())

    async def watch(self, to: list[str], interval: float) -> None:
        """Have agents send samples, and sample the client container."""
        await self.synchronise()
        await self.tell(to, "watch", {"interval": interval})
        if self._sampling:
            self._sampling.cancel()
        self._sampling = asyncio.create_task(self._sample_client(interval))

    async def unwatch(self, to: list[str]) -> None:
        if self._sampling:
            self._sampling.cancel()
        await self.tell(to, "unwatch", {})

    async def totals(self, to: list[str]) -> dict[str, Any]:
        """Return the counters that are read before and after a cell: those of agents, and the client's periods."""
        return {**await self.tell(to, "totals", {}), CLIENT: self._client.periods()}

    async def _sample_client(self, interval: float) -> None:
        with contextlib.closing(Machine()) as machine:

            def look() -> None:
                now = time.monotonic()
                sample = Sample(time=now, received=0, sent=0, **self._client.readings(machine))
                self._say(sample=sample, of=CLIENT)

            look()
            await repeat(look, interval)

    async def present(self) -> dict[str, Any]:
        """Return the arrivals of transfers that have not ended, by file."""
        told = await self.tell(self._destinations, "present", {})
        return {
            file: self.agents[name].arrival(*arrival)
            for name, files in told.items()
            for file, arrival in files.items()
        }

    async def _listen_to_client(self) -> None:
        reader, _ = await asyncio.open_unix_connection(sock=self._client.connections[1], limit=LONGEST)
        # Files are removed at once, as the next transfers need the memory; events keep their order.
        events: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue()
        detach(self._pass_on(events))
        while line := await reader.readline():
            events.put_nowait(asyncio.create_task(self._completed(json.loads(line))))
        events.put_nowait(None)

    async def _pass_on(self, events: asyncio.Queue[asyncio.Task[dict[str, Any]] | None]) -> None:
        while task := await events.get():
            self._say(client=await task)
        self.outbox.say(gone=CLIENT)

    async def _completed(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["event"] != "end":
            return event
        try:
            told = await self.tell(self._destinations, "remove", {"name": event["name"]})
        except RuntimeError:
            return event  # the link reports an agent that is gone
        # One destination had the file; the others report size 0.
        name, arrival = max(told.items(), key=lambda item: item[1][1])
        return event | {"arrival": self.agents[name].arrival(*arrival)}


async def main(start: float, longest: float, *also: str) -> None:
    """Serve until no job has connected for `longest` seconds, and at first `start` seconds more for pods to start."""
    server_container.end_on_term()
    hub = Hub()
    hub.seen += start
    if "metrics" in also:
        metrics.serve_metrics(hub.running)
    # `async with` would wait for open sessions since Python 3.12.
    listening = await asyncio.start_unix_server(hub.session, str(HUB), limit=LONGEST)
    while time.monotonic() - hub.seen < longest:
        await asyncio.sleep(1)
    listening.close()
    ENDED.touch()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
