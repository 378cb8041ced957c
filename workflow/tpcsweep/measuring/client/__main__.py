# SPDX-License-Identifier: Apache-2.0
"""Client: keeps `streams` transfers active with the tool, like the papers' clients.

It runs in its own network namespace or pod, reads requests as lines of JSON from standard input and
writes events as lines of JSON to standard output. Standard library only, for a fast and small start.

Requests                                 Events
  {"run": {…}}: fields of `ClientRun`      {"event": "prepared"} or {"event": "refused", "message": …}
  {"stop": {}}                             {"event": "end", "stream", "number", "name", "start", "end",
                                                     "failure": null | "…"}
                                           {"event": "waited", "start", "end"}: of a stream, as a door
                                                     asked for a pause
                                           {"event": "marker", "stream", "name", "start", "time", "bytes"}:
                                                     progress of a transfer under way
  {"pause": {"door": …, "seconds": …}}: no {"event": "exhausted"}: every stream has given up
    transfer begins at host and port
                                           {"event": "finished"}: every other stream has its `files`
                                           {"event": "stopped"}: all processes have ended
Times are seconds of CLOCK_MONOTONIC. End of input stops all transfers and ends the client, so that it never outlives
its starter.
"""

import asyncio
import contextlib
import itertools
import json
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tpcsweep.common.urls import door_of
from tpcsweep.measuring.client.busy import BUSY, Pauses
from tpcsweep.measuring.client.client_process import ClientRun, ToolRefusedError
from tpcsweep.measuring.tools.http_tpc import Progress, wished_pause
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import (
    READY,
    Credentials,
    OnMarker,
    Program,
    Tool,
    Transfer,
    Worker,
    transfer_line,
)

GIVE_UP_AFTER = 3  # consecutive failures after which a stream ends, so that a mistake causes no fork storm
PAUSE = 0.5  # s between a failure and the next try
LONGEST_PAUSE = 30.0
GRACE = 2.0  # s for a tool to end after SIGTERM
MakeCopy = Callable[[Transfer, OnMarker], Awaitable[str | None]]
"""Function that makes a transfer, and returns the reason of its failure or None."""


def emit(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class ToolProcesses:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._running: set[Process] = set()
        self._signal: signal.Signals | None = None

    @contextlib.asynccontextmanager
    async def started(
        self, command: list[str], stdin: int, stderr: int | IO[bytes]
    ) -> AsyncIterator[Process]:
        """Start a process that ends within the `with`; its standard output is a pipe. Raises ToolRefusedError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=self._environment, stdin=stdin, stdout=PIPE, stderr=stderr
            )
        except OSError as error:
            raise ToolRefusedError(f"{command[0]} cannot be started: {error.strerror}") from None
        self._running.add(process)
        if self._signal:  # the order arrived while the process was starting
            process.send_signal(self._signal)
        try:
            yield process
        finally:
            self._running.discard(process)

    def signal_all(self, number: signal.Signals) -> None:
        """Signal all running processes, and later ones."""
        self._signal = number
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


@contextlib.asynccontextmanager
async def copying(
    tool: Tool, credentials: Credentials, folder: Path, processes: ToolProcesses, first: Transfer
) -> AsyncIterator[MakeCopy]:
    """Yield a function that makes transfers. Raises ToolRefusedError if the tool cannot start."""
    if isinstance(tool, Worker):
        log = folder / "worker.log"
        with log.open("wb") as stderr:
            async with processes.started(tool.worker(credentials), PIPE, stderr) as process:
                worker = _Worker(process, tool.name, log)
                async with worker.listening():
                    yield worker.copy
    elif isinstance(tool, Program):
        try:
            tool.prepare(first, credentials, folder)
        except RuntimeError as error:
            raise ToolRefusedError(str(error)) from None

        async def copy(transfer: Transfer, on_marker: OnMarker) -> str | None:
            command = tool.command(transfer, credentials, folder)
            progress, output = Progress(), b""
            try:
                async with processes.started(command, DEVNULL, STDOUT) as process:
                    assert process.stdout
                    while piece := await process.stdout.read(1 << 16):
                        output += piece
                        if progress.feed(piece):
                            on_marker(progress.bytes)
                    await process.wait()
            except ToolRefusedError as error:
                return str(error)
            return tool.failure(process.returncode or 0, output.decode(errors="replace"))

        yield copy


class _Worker:
    def __init__(self, process: Process, name: str, log: Path) -> None:
        assert process.stdin and process.stdout
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._name, self._log = name, log
        self._numbers = itertools.count()
        self._running: dict[int, tuple[asyncio.Future[str | None], OnMarker]] = {}
        self._ended: str | None = None  # reason why it no longer copies

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Wait until it is ready, or raise ToolRefusedError with its last line. End it after the `with`."""
        line = await self._stdout.readline()
        if not line or json.loads(line) != READY:
            raise ToolRefusedError(await self._last_words())
        listening = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            self._stdin.close()
            await listening

    async def copy(self, transfer: Transfer, on_marker: OnMarker) -> str | None:
        if self._ended:
            return self._ended
        number = next(self._numbers)
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._running[number] = ended, on_marker
        self._stdin.write(transfer_line(number, transfer))
        return await ended

    async def _listen(self) -> None:
        try:
            async for line in self._stdout:
                answer = json.loads(line)
                if "bytes" in answer:
                    self._running[answer["number"]][1](answer["bytes"])
                else:
                    self._running.pop(answer["number"])[0].set_result(answer["failure"])
        finally:
            self._ended = await self._last_words()
            for ended, _ in self._running.values():
                ended.set_result(self._ended)

    async def _last_words(self) -> str:
        code = await self._process.wait()
        last_line = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return f"{self._name} ended with exit code {code}: {last_line[-300:] or 'no word'}"


class Streams:
    def __init__(self, run: ClientRun, secrets: Path, folder: Path) -> None:
        self.run = run
        self.tool = TOOLS[run.tool]
        self.credentials = Credentials(secrets, run.authorization, run.macaroon_hours)
        self.folder = folder
        self.processes = ToolProcesses(self.tool.environment(self.credentials, folder))
        self.stopping = asyncio.Event()
        self.pauses = Pauses(self.credentials)
        self.task = asyncio.create_task(self._all())

    async def _all(self) -> None:
        first = self.run.transfer(0, 0)
        try:
            if self.run.unencrypted and self.credentials.needed:
                where = f"{self.run.unencrypted[0]}: a credential would be readable on its way"
                raise ToolRefusedError(f"{where}. Fix: use https:// or davs://")
            async with copying(self.tool, self.credentials, self.folder, self.processes, first) as copy:
                emit("prepared")
                finished = await asyncio.gather(*(self._stream(k, copy) for k in range(self.run.streams)))
        except ToolRefusedError as error:
            emit("refused", message=str(error))
            return
        if not self.stopping.is_set():
            emit("finished" if any(finished) else "exhausted")

    async def _stream(self, stream: int, copy: MakeCopy) -> bool:
        """Transfer until all files are done, or it is stopped or gives up; return whether all are done."""
        number = failures = done = 0
        pause = PAUSE
        between = self.run.transfer(stream, 0)
        while failures < GIVE_UP_AFTER and done != self.run.files:
            if not await self._paused(between):
                return False
            if self.stopping.is_set():
                break
            failure = await self._transfer(stream, number, copy)
            if failure is None:
                failures, done, pause = 0, done + 1, PAUSE
            else:
                failures += 1
                pause = min(4 * pause, LONGEST_PAUSE) if BUSY.search(failure) else PAUSE
                if (wished := wished_pause(failure)) is not None:
                    self.pauses.note(door_of(between.asked[1]), max(wished, PAUSE))
                elif failures < GIVE_UP_AFTER and await self._stopped_within(pause):
                    break
            number += 1
        return done == self.run.files

    async def _paused(self, between: Transfer) -> bool:
        """Wait while a door asks for a pause; return whether the stream goes on."""
        start = time.monotonic()
        # Meanwhile the door may ask another stream for a longer pause.
        while (left := self.pauses.left(between)) > 0:
            stops = left > self.run.longest_pause or await self._stopped_within(left)
            emit("waited", start=start, end=time.monotonic())
            if stops:
                return False
            start = time.monotonic()
        return True

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
        return self.stopping.is_set()

    async def _transfer(self, stream: int, number: int, copy: MakeCopy) -> str | None:
        start, name = time.monotonic(), self.run.destination_name(stream, number)

        def on_marker(size: int) -> None:
            # Markers of several connections may count bytes that were only asked for (xrootd/xrootd#2874).
            if self.run.tcp_streams == 1:
                emit("marker", stream=stream, name=name, start=start, time=time.monotonic(), bytes=size)

        transfer = self.run.transfer(stream, number)
        failure, end = await copy(transfer, on_marker), time.monotonic()
        if failure and not self.stopping.is_set():
            failure = await self.pauses.explained(failure, transfer)
        if self.stopping.is_set():
            return None  # stopped by the client: neither a success nor a failure
        emit("end", stream=stream, number=number, name=name, start=start, end=end, failure=failure)
        return failure

    async def stop(self) -> None:
        """End every process of the tool, by force after GRACE."""
        self.stopping.set()
        self.processes.signal_all(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.task), GRACE)
        except TimeoutError:
            self.processes.signal_all(signal.SIGKILL)
            await self.task
        emit("stopped")


async def serve(secrets: Path, folder: Path) -> None:
    reader, loop = asyncio.StreamReader(limit=1 << 22), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    streams: Streams | None = None
    emit("ready")
    while line := await reader.readline():
        request: dict[str, Any] = json.loads(line)
        if "pause" in request:
            if streams:
                streams.pauses.note(**request["pause"])
            continue
        if streams:
            await streams.stop()
        streams = Streams(ClientRun(**request["run"]), secrets, folder) if "run" in request else None
    if streams:
        await streams.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
