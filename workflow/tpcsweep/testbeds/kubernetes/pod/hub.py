# SPDX-License-Identifier: Apache-2.0
"""The hub beside the client: joins the agents of all servers, the client, and the job that measures.

The job comes and goes through `relay` (an exec into this container). What it is to be told is numbered and kept until
it says that it has it, so that a connection that drops loses nothing; what it asks twice is done once. When nobody
has come for some time the hub ends, with it the deployment's Job, and with that everything that the Job owns.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.hub SECONDS-FOR-ALL-PODS-TO-START SECONDS-WITHOUT-ANYBODY [metrics]
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpcsweep.measure import provenance
from tpcsweep.measure.machine import Machine
from tpcsweep.testbeds.kubernetes.pod import contained, metrics
from tpcsweep.testbeds.kubernetes.pod.messages import LONGEST, answer, encoded, start
from tpcsweep.testbeds.kubernetes.pod.places import ENDED, HUB, Sample
from tpcsweep.testbeds.kubernetes.pod.watched import Contained, repeat
from tpcsweep.tools import Credentials
from tpcsweep.xrootd import probe

PINGS = 5
READY_SECONDS = 60.0
POLL = 0.02
CLIENT = "client"


class Agent:
    """The connection to the agent beside a server."""

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        say: Callable[..., None],
    ) -> None:
        self.behind = 0.0
        """Seconds that its clock is behind this one."""
        self._name = name
        self._writer = writer
        self._say = say
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._gone = False
        start(self._listen(reader))

    async def ask(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Its answer. Raises RuntimeError with its name, and its words or that it is gone."""
        if self._gone:
            raise self._error("it is gone")
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(encoded(id=number, do=verb, **{"with": arguments}))
        return await future

    async def synchronise(self) -> None:
        """Find how far its clock is behind: from the quickest of a few round trips, by its middle."""
        looks = []
        for _ in range(PINGS):
            began = time.monotonic()
            theirs = await self.ask("ping", {})
            ended = time.monotonic()
            looks.append((ended - began, (began + ended) / 2 - theirs))
        self.behind = min(looks)[1]

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "id" not in message:
                    self._pass_on(message)
                elif "error" in message:
                    self._waiting.pop(message["id"]).set_exception(self._error(message["error"]))
                else:
                    self._waiting.pop(message["id"]).set_result(message["ok"])
        except OSError:
            pass
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._error("it is gone"))
        self._say(gone=self._name)

    def _pass_on(self, message: dict[str, Any]) -> None:
        """What it says unasked, in this clock's time."""
        if "sample" in message:
            time_of_sample, *rest = message["sample"]
            self._say(sample=[time_of_sample + self.behind, *rest], of=self._name)
        else:
            copied, begin, end, *rest = message["copy"]
            self._say(copy=[copied, begin + self.behind, end + self.behind, *rest])

    def arrival(self, first_byte: float | None, size: int) -> tuple[float | None, int]:
        """What it says of a file, in this clock's time."""
        return None if first_byte is None else first_byte + self.behind, size

    def _error(self, words: str) -> RuntimeError:
        return RuntimeError(f"{self._name}: {words}")


class Outbox:
    """What the job is to be told: numbered, and kept until it has it."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._first = 0
        self.writer: asyncio.StreamWriter | None = None
        """To whoever listens."""

    def say(self, **fields: object) -> None:
        """Tell now if somebody listens, and whoever comes later."""
        number = self._first + len(self._lines)
        self._lines.append(encoded(number=number, **fields))
        if self.writer:
            self.writer.write(self._lines[-1])

    def attach(self, writer: asyncio.StreamWriter, number: int) -> None:
        """Somebody listens from now on, and has all before `number`."""
        self.forget(number)
        self.writer = writer
        writer.write(b"".join(self._lines))

    def forget(self, number: int) -> None:
        """All before `number` has arrived."""
        while self._lines and self._first < number:
            self._lines.popleft()
            self._first += 1


class Hub:
    """The state of the hub."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.running = metrics.Running()
        self.agents: dict[str, Agent] = {}
        """By the names of their servers."""
        self.seen = time.monotonic()
        """When somebody was last here."""
        self._done: set[int] = set()
        self._client: Contained | None = None
        self._destinations: list[str] = []
        self._sampling: asyncio.Task[None] | None = None
        setting_up = (self.connect, self.synchronise, self.tell, self.ready)
        measuring = (self.cell, self.client, self.watch, self.unwatch, self.totals, self.present)
        self._verbs: dict[str, Callable[..., Any]] = {
            "clock": time.monotonic,  # which all times are of
            **{method.__name__: method for method in (*setting_up, *measuring)},
        }

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One visit of the job. Its first line says what it has already."""
        try:
            self.outbox.attach(writer, json.loads(await reader.readline())["from"])
            while line := await reader.readline():
                self.seen = time.monotonic()
                message = json.loads(line)
                self.outbox.forget(message.get("from", 0))
                if "id" in message and message["id"] not in self._done:
                    self._done.add(message["id"])
                    start(self._obey(message))
        except (OSError, ValueError):
            pass
        finally:
            if self.outbox.writer is writer:  # else another has come
                self.outbox.writer = None
            writer.close()

    def _say(self, **fields: Any) -> None:
        """Tell the job what it has not asked for."""
        self.running.hear(fields)
        self.outbox.say(**fields)

    async def _obey(self, request: dict[str, Any]) -> None:
        self.outbox.say(**await answer(self._verbs, request))

    async def connect(
        self, servers: dict[str, str], destinations: list[str], tools: list[str]
    ) -> dict[str, Any]:
        """Wait for the credentials, the client and every agent; the machine of this pod, and its tools' versions."""
        credentials = Credentials(await asyncio.to_thread(contained.credentials))
        tls = ssl.create_default_context(cafile=str(credentials.authority))
        tls.load_cert_chain(credentials.certificate, credentials.key)
        self._tls = probe.context(credentials.folder)
        self._destinations = destinations
        await asyncio.gather(*(self._connect(name, address, tls) for name, address in servers.items()))
        self._client = await asyncio.to_thread(Contained, 2)
        start(self._listen_to_client())
        return {
            "machine": provenance.machine(),
            "software": await asyncio.to_thread(provenance.software, tools),
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        }

    async def _connect(self, name: str, place: str, tls: ssl.SSLContext) -> None:
        """Wait until the agent at an address and port answers. Raises TimeoutError."""
        address, _, port = place.partition(":")
        give_up = time.monotonic() + READY_SECONDS
        while name not in self.agents:
            try:
                streams = await asyncio.open_connection(
                    address, int(port), ssl=tls, server_hostname=address, limit=LONGEST
                )
                self.agents[name] = Agent(name, *streams, self._say)
            except OSError as error:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{name} at {place} does not answer: {error}") from None
                await asyncio.sleep(POLL)

    async def tell(self, to: list[str], verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask several agents at once; their answers. Raises RuntimeError that names who refused."""
        answers = await asyncio.gather(*(self.agents[name].ask(verb, arguments) for name in to))
        return dict(zip(to, answers, strict=True))

    async def synchronise(self) -> dict[str, float]:
        """Find how many seconds the agents' clocks are behind this one."""
        await asyncio.gather(*(agent.synchronise() for agent in self.agents.values()))
        return {name: agent.behind for name, agent in self.agents.items()}

    async def ready(self, redirector: str | None, origins: list[str]) -> None:
        """Until every origin delivers, and the redirector has sent somebody to each, all by address and port.

        Raises TimeoutError.
        """
        missing = set(origins)

        def delivers(status: int, _: str) -> bool:
            return status == 200

        def complete(_: int, place: str) -> bool:
            missing.discard(place)
            return not missing

        asked: list[tuple[str, Callable[[int, str], bool], str]]
        asked = [(origin, delivers, "an answer to GET") for origin in origins]
        if redirector:
            asked.append((redirector, complete, "a redirection to each of its origins"))
        give_up = time.monotonic() + READY_SECONDS
        for place, enough, awaited in asked:
            while not enough(*await asyncio.to_thread(probe.get, place, self._tls, socket.socket())):
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{place}: waited {READY_SECONDS:g} s for {awaited}")
                await asyncio.sleep(POLL)

    def cell(self, whose: dict[str, str], cell: dict[str, str]) -> None:
        """The labels of the cell that comes, for whoever scrapes this pod."""
        self.running.begin(whose, cell)

    async def client(self, line: str) -> None:
        assert self._client
        self._client.connections[0].sendall(line.encode())

    async def watch(self, to: list[str], interval: float) -> None:
        await self.synchronise()
        await self.tell(to, "watch", {"interval": interval})
        self._quiet()
        assert self._client
        self._sampling = asyncio.create_task(self._sample_client(self._client, interval))

    async def unwatch(self, to: list[str]) -> None:
        self._quiet()
        await self.tell(to, "unwatch", {})

    async def totals(self, to: list[str]) -> dict[str, Any]:
        """What agents count and is looked at only before and after a cell; of the client its scheduling periods."""
        assert self._client
        return {**await self.tell(to, "totals", {}), CLIENT: self._client.periods()}

    def _quiet(self) -> None:
        if self._sampling:
            self._sampling.cancel()

    async def _sample_client(self, client: Contained, interval: float) -> None:
        with contextlib.closing(Machine()) as machine:

            def look() -> None:
                now = time.monotonic()
                sample = Sample(time=now, received=0, sent=0, **client.readings(machine))
                self._say(sample=sample, of=CLIENT)

            look()
            await repeat(look, interval)

    async def present(self) -> dict[str, Any]:
        """What had arrived in the files of transfers that have not ended, by their names."""
        told = await self.tell(self._destinations, "present", {})
        return {
            file: self.agents[name].arrival(*arrival)
            for name, files in told.items()
            for file, arrival in files.items()
        }

    async def _listen_to_client(self) -> None:
        assert self._client
        reader, _ = await asyncio.open_unix_connection(sock=self._client.connections[1], limit=LONGEST)
        # Files go at once, and at a time: what has arrived must not fill the memory that the next transfers need.
        # Events are passed on in their order nevertheless.
        events: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue()
        start(self._pass_on(events))
        while line := await reader.readline():
            events.put_nowait(asyncio.create_task(self._completed(json.loads(line))))
        events.put_nowait(None)

    async def _pass_on(self, events: asyncio.Queue[asyncio.Task[dict[str, Any]] | None]) -> None:
        while task := await events.get():
            self._say(client=await task)
        self.outbox.say(gone=CLIENT)

    async def _completed(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event of the client, with what had arrived in the file of a transfer that has ended."""
        if event["event"] != "end":
            return event
        try:
            told = await self.tell(self._destinations, "remove", {"name": event["name"]})
        except RuntimeError:
            return event  # who is gone is said elsewhere
        # The file was at one of them; the others say that nothing arrived.
        name, arrival = max(told.items(), key=lambda item: item[1][1])
        return event | {"arrival": self.agents[name].arrival(*arrival)}


async def main(start: float, longest: float, *also: str) -> None:
    """Serve until nobody has come for `longest` seconds, at first for as many more as other pods may take to start."""
    contained.end_on_term()
    hub = Hub()
    hub.seen += start
    if "metrics" in also:
        metrics.serve(hub.running)
    # Not `async with`: since Python 3.12 its end waits for sessions that are open.
    listening = await asyncio.start_unix_server(hub.session, str(HUB), limit=LONGEST)
    while time.monotonic() - hub.seen < longest:
        await asyncio.sleep(1)
    listening.close()
    ENDED.touch()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
