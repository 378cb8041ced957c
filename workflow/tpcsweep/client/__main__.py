"""The client: keeps `streams` transfers active with the tool, as the papers' clients do.

It runs in the client's own network namespace or pod, reads requests as lines of JSON from standard input and
writes events as lines of JSON to standard output. Standard library only, so that it starts quickly and small.

Requests                                         Events
  {"run": {tool, streams, pairs, file_name,        {"event": "prepared"} or {"event": "refused", "message": …}
           prefix, copy_mode, tcp_streams,         {"event": "end", "stream", "number", "name", "start", "end",
           files: null | n, folders}}                        "failure": null | "…"}
  {"stop": {}}                                     {"event": "exhausted"}: every stream has given up
                                                   {"event": "finished"}: every other stream has its `files`
                                                   {"event": "stopped"}: no process is left
Times are of CLOCK_MONOTONIC, in seconds. `pairs` are (source, destination) base URLs; stream k uses pair k mod n.
`{stream}` in `file_name` stands for k. `folders` are where the files are on the servers of source and destination.
End of input stops what runs and ends the client, so that it never outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.client.copying import Copy, Processes, RefusedError, copying
from tpcsweep.tools import TOOLS, Credentials, Transfer

GIVE_UP_AFTER = 3
"""Failures in a row after which a stream ends: a mistake must not become a fork storm."""
PAUSE = 0.5
"""Seconds between a failure and the next try."""
GRACE = 2.0
"""Seconds that a tool has to end after SIGTERM."""


@dataclass(frozen=True)
class Run:
    """What one cell asks of the client; the module's text explains the fields."""

    tool: str
    streams: int
    pairs: list[list[str]]
    file_name: str
    prefix: str
    copy_mode: str
    tcp_streams: int
    files: int | None = None
    """How many files each stream transfers; None: any number until it is stopped."""
    folders: Sequence[str] = ("", "")

    def transfer(self, stream: int, number: int) -> Transfer:
        """Give a transfer of a stream; each has a destination file of its own."""
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
        """Give the file name at the destination."""
        return f"{self.prefix}.{stream}.{number}"


def emit(event: str, **fields: object) -> None:
    """Write an event to standard output."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Streams:
    """The streams of one run."""

    def __init__(self, run: Run, credentials: Credentials, folder: Path) -> None:
        self.run = run
        self.tool = TOOLS[run.tool]
        self.credentials = credentials
        self.folder = folder
        self.processes = Processes(self.tool.environment(credentials, folder))
        self.stopping = asyncio.Event()
        self.task = asyncio.create_task(self._all())

    async def _all(self) -> None:
        first = self.run.transfer(0, 0)
        try:
            async with copying(self.tool, self.credentials, self.folder, self.processes, first) as copy:
                emit("prepared")
                finished = await asyncio.gather(*(self._stream(k, copy) for k in range(self.run.streams)))
        except RefusedError as error:
            emit("refused", message=str(error))
            return
        if not self.stopping.is_set():
            emit("finished" if any(finished) else "exhausted")

    async def _stream(self, stream: int, copy: Copy) -> bool:
        """Transfer until all files are there, or stopped, or it fails again and again; say whether all files are."""
        number = failures = done = 0
        while not self.stopping.is_set() and failures < GIVE_UP_AFTER and done != self.run.files:
            if await self._transfer(stream, number, copy):
                failures, done = 0, done + 1
            else:
                failures += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.stopping.wait(), PAUSE)
            number += 1
        return done == self.run.files

    async def _transfer(self, stream: int, number: int, copy: Copy) -> bool:
        start = time.monotonic()
        failure = await copy(self.run.transfer(stream, number))
        end = time.monotonic()
        if self.stopping.is_set():
            return True  # cut short by us: neither a success nor a failure
        name = self.run.destination_name(stream, number)
        emit("end", stream=stream, number=number, name=name, start=start, end=end, failure=failure)
        return failure is None

    async def stop(self) -> None:
        """End every process of the tool, by force after GRACE."""
        self.stopping.set()
        self.processes.tell(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.task), GRACE)
        except TimeoutError:
            self.processes.tell(signal.SIGKILL)
            await self.task
        emit("stopped")


async def serve(credentials: Credentials, folder: Path) -> None:
    """Obey the requests on standard input until they end."""
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
