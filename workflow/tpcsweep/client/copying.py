"""How the transfers of a run are made: each by a process of its own, or all by one process, as the tool has it.

Standard library only, as the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO

from tpcsweep.tools import Credentials, Program, Tool, Transfer, Worker
from tpcsweep.tools.lines import READY, order

Copy = Callable[[Transfer], Awaitable[str | None]]
"""Makes a transfer; why it failed, None where it did not."""


class RefusedError(Exception):
    """The tool cannot begin; the message is its own."""


class Processes:
    """The tool's processes that run."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._running: set[Process] = set()
        self._told: signal.Signals | None = None

    @contextlib.asynccontextmanager
    async def started(
        self, command: list[str], stdin: int, stderr: int | IO[bytes]
    ) -> AsyncIterator[Process]:
        """A process, within `with`, which has to end in there; its standard output is a pipe. Raises RefusedError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=self._environment, stdin=stdin, stdout=PIPE, stderr=stderr
            )
        except OSError as error:
            raise RefusedError(f"{command[0]} cannot be started: {error.strerror}") from None
        self._running.add(process)
        if self._told:  # the order came while the process was being made
            process.send_signal(self._told)
        try:
            yield process
        finally:
            self._running.discard(process)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to all that run, and to those that come later."""
        self._told = number
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


@contextlib.asynccontextmanager
async def copying(
    tool: Tool, credentials: Credentials, folder: Path, processes: Processes, first: Transfer
) -> AsyncIterator[Copy]:
    """What makes transfers, within `with`; `first` is the first of them. Raises RefusedError."""
    if isinstance(tool, Worker):
        async with _by_one(tool, credentials, folder, processes) as copy:
            yield copy
    elif isinstance(tool, Program):
        try:
            tool.prepare(first, credentials, folder)
        except RuntimeError as error:
            raise RefusedError(str(error)) from None
        yield _by_many(tool, credentials, folder, processes)


def _by_many(tool: Program, credentials: Credentials, folder: Path, processes: Processes) -> Copy:
    """A process for each transfer."""

    async def copy(transfer: Transfer) -> str | None:
        command = tool.command(transfer, credentials, folder)
        try:
            async with processes.started(command, DEVNULL, STDOUT) as process:
                output = (await process.communicate())[0].decode(errors="replace")
        except RefusedError as error:
            return str(error)
        return tool.failure(process.returncode or 0, output)

    return copy


@contextlib.asynccontextmanager
async def _by_one(
    tool: Worker, credentials: Credentials, folder: Path, processes: Processes
) -> AsyncIterator[Copy]:
    """One process for all transfers; it ends with the `with`."""
    log = folder / "worker.log"
    with log.open("wb") as stderr:
        async with processes.started(tool.worker(credentials), PIPE, stderr) as process:
            worker = _Worker(process, tool.name, log)
            await worker.begin()
            listening = asyncio.create_task(worker.listen())
            try:
                yield worker.copy
            finally:
                worker.end()
                await listening


class _Worker:
    """The client's end of a worker."""

    def __init__(self, process: Process, name: str, log: Path) -> None:
        assert process.stdin
        assert process.stdout
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._name = name
        self._log = log
        self._numbers = itertools.count()
        self._running: dict[int, asyncio.Future[str | None]] = {}
        self._over: str | None = None
        """Why it does not copy any more."""

    async def begin(self) -> None:
        """Wait until it can copy. Raises RefusedError with its last words."""
        line = await self._stdout.readline()
        if not line or json.loads(line) != READY:
            raise RefusedError(await self._last_words())

    async def copy(self, transfer: Transfer) -> str | None:
        """As `Copy` has it."""
        if self._over:
            return self._over
        number = next(self._numbers)
        self._running[number] = asyncio.get_running_loop().create_future()
        self._stdin.write(order(number, transfer))
        return await self._running[number]

    async def listen(self) -> None:
        """Until it has ended."""
        try:
            async for line in self._stdout:
                answer = json.loads(line)
                self._running.pop(answer["number"]).set_result(answer["failure"])
        finally:
            self._over = await self._last_words()
            for ended in self._running.values():
                ended.set_result(self._over)

    def end(self) -> None:
        """Tell it that no more transfers come."""
        self._stdin.close()

    async def _last_words(self) -> str:
        code = await self._process.wait()
        said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return f"{self._name} ended with exit code {code}: {said[-300:] or 'no word'}"
