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
"""Makes a transfer and says why it failed; None if it did not."""


class RefusedError(Exception):
    """The tool cannot begin; the message is its own."""


class Processes:
    """The tool's processes that run."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Give all of them this environment."""
        self._environment = environment
        self._running: set[Process] = set()
        self._told: signal.Signals | None = None

    @contextlib.asynccontextmanager
    async def started(
        self, command: list[str], stdin: int, stderr: int | IO[bytes]
    ) -> AsyncIterator[Process]:
        """Start a process whose standard output is a pipe; it has to end within the `with`.

        Raises:
            RefusedError: if it cannot be started.
        """
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
    """Give what makes transfers within a `with`.

    Args:
        tool: makes them.
        credentials: those of the deployment.
        folder: a folder that is private to the client.
        processes: where the tool's processes are started.
        first: the first transfer of the cell.

    Raises:
        RefusedError: if the tool cannot begin.
    """
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
            raise RefusedError(str(error)) from None

        async def copy(transfer: Transfer) -> str | None:
            command = tool.command(transfer, credentials, folder)
            try:
                async with processes.started(command, DEVNULL, STDOUT) as process:
                    output = (await process.communicate())[0].decode(errors="replace")
            except RefusedError as error:
                return str(error)
            return tool.failure(process.returncode or 0, output)

        yield copy


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
        self._ended: str | None = None
        """Why it does not copy any more."""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Wait until it can copy, or raise RefusedError with its last words; end it at the end of the `with`."""
        line = await self._stdout.readline()
        if not line or json.loads(line) != READY:
            raise RefusedError(await self._last_words())
        listening = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            self._stdin.close()
            await listening

    async def copy(self, transfer: Transfer) -> str | None:
        """Make a transfer; say why it failed."""
        if self._ended:
            return self._ended
        number = next(self._numbers)
        self._running[number] = asyncio.get_running_loop().create_future()
        self._stdin.write(order(number, transfer))
        return await self._running[number]

    async def _listen(self) -> None:
        """Take its answers until it has ended; transfers without an answer fail then."""
        try:
            async for line in self._stdout:
                answer = json.loads(line)
                self._running.pop(answer["number"]).set_result(answer["failure"])
        finally:
            self._ended = await self._last_words()
            for transfer in self._running.values():
                transfer.set_result(self._ended)

    async def _last_words(self) -> str:
        code = await self._process.wait()
        said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return f"{self._name} ended with exit code {code}: {said[-300:] or 'no word'}"
