"""The client: keeps `streams` transfers active, each a process of the tool, as the papers' clients do.

It runs in the client's own network namespace or pod, reads requests as lines of JSON from standard input and
writes events as lines of JSON to standard output. Standard library only, so that it starts quickly and small.

Requests                                         Events
  {"run": {tool, streams, pairs, file_name,        {"event": "prepared"} or {"event": "refused", "message": …}
           prefix, copy_mode, tcp_streams,         {"event": "end", "stream", "number", "name", "start", "end",
           folders}}                                         "failure": null | "…"}
  {"stop": {}}
                                                   {"event": "exhausted"}: every stream has given up
                                                   {"event": "stopped"}: no process is left
Times are of CLOCK_MONOTONIC, in seconds. `pairs` are (source, destination) base URLs; stream k uses pair k mod n.
`{stream}` in `file_name` stands for k. `folders` are where the files are on the servers of source and destination.
End of input stops what runs and ends the client, so that it never outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.tools import TOOLS, Credentials, Transfer

GIVE_UP_AFTER = 3
"""Failures in a row after which a stream ends: a mistake must not become a fork storm."""
PAUSE = 0.5
"""Seconds between a failure and the next try."""
GRACE = 2.0
"""Seconds that a tool has to end after SIGTERM."""


@dataclass(frozen=True)
class Run:
    """What one cell asks of the client."""

    tool: str
    streams: int
    pairs: list[list[str]]
    file_name: str
    prefix: str
    copy_mode: str
    tcp_streams: int
    folders: Sequence[str] = ("", "")

    def transfer(self, stream: int, number: int) -> Transfer:
        """The transfer `number` of a stream: its destination is a file of its own."""
        source, destination = self.pairs[stream % len(self.pairs)]
        names = self.file_name.format(stream=stream), self.destination_name(stream, number)
        return Transfer(
            f"{source}/{names[0]}",
            f"{destination}/{names[1]}",
            self.copy_mode,
            self.tcp_streams,
            source_file=f"{self.folders[0]}/{names[0]}",
            destination_file=f"{self.folders[1]}/{names[1]}",
            stream=stream,
        )

    def destination_name(self, stream: int, number: int) -> str:
        """File name at the destination."""
        return f"{self.prefix}.{stream}.{number}"


def emit(event: str, **fields: object) -> None:
    """Write one event."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Streams:
    """The streams of one run."""

    def __init__(self, run: Run, credentials: Credentials, folder: Path) -> None:
        self.run = run
        self.tool = TOOLS[run.tool]
        self.credentials = credentials
        self.folder = folder
        self.environment = self.tool.environment(credentials, folder)
        self.processes: set[asyncio.subprocess.Process] = set()
        self.stopping = asyncio.Event()
        self.task = asyncio.create_task(self._all())

    async def _all(self) -> None:
        try:
            self.tool.prepare(self.run.transfer(0, 0), self.credentials, self.folder)
        except RuntimeError as error:
            emit("refused", message=str(error))
            return
        emit("prepared")
        await asyncio.gather(*(self._stream(k) for k in range(self.run.streams)))
        if not self.stopping.is_set():
            emit("exhausted")

    async def _stream(self, stream: int) -> None:
        number = failures = 0
        while not self.stopping.is_set() and failures < GIVE_UP_AFTER:
            failures = 0 if await self._transfer(stream, number) else failures + 1
            number += 1
            if failures:
                await self._pause()

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self.stopping.wait(), PAUSE)
        except TimeoutError:
            pass

    async def _transfer(self, stream: int, number: int) -> bool:
        command = self.tool.command(self.run.transfer(stream, number), self.credentials, self.folder)
        start = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            self._ended(stream, number, start, f"{command[0]} cannot be started: {error.strerror}")
            return False
        self.processes.add(process)
        if self.stopping.is_set():  # a stop that came while the process was being made
            process.terminate()
        output = (await process.communicate())[0].decode(errors="replace")
        self.processes.discard(process)
        if self.stopping.is_set():
            return True  # cut short by us: neither a success nor a failure
        failure = self.tool.failure(process.returncode or 0, output)
        self._ended(stream, number, start, failure)
        return failure is None

    def _ended(self, stream: int, number: int, start: float, failure: str | None) -> None:
        name = self.run.destination_name(stream, number)
        times = {"start": start, "end": time.monotonic()}
        emit("end", stream=stream, number=number, name=name, **times, failure=failure)

    async def stop(self) -> None:
        """End every tool, by force after GRACE."""
        self.stopping.set()
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.task), GRACE)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.task
        emit("stopped")

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            try:
                process.send_signal(number)
            except ProcessLookupError:
                pass


async def serve(credentials: Credentials, folder: Path) -> None:
    """Obey the requests on standard input until it ends."""
    reader = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    streams: Streams | None = None
    emit("ready")
    while line := await reader.readline():
        request: dict[str, Any] = json.loads(line)
        if streams:
            await streams.stop()
        streams = Streams(Run(**request["run"]), credentials, folder) if "run" in request else None
    if streams:
        await streams.stop()


if __name__ == "__main__":
    asyncio.run(serve(Credentials(Path(sys.argv[1])), Path(sys.argv[2])))
