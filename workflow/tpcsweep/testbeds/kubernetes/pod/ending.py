# SPDX-License-Identifier: Apache-2.0
"""The end of a cell, which the hub brings about alone: a job that is out of reach makes no cell longer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any


class Ending:
    """The end of a cell in three steps, each taken once: last samples, the client's end, a look at unfinished files.

    It comes at the time given to `begin`, and earlier at the client's word, or when the job asks for a step. A failed
    step fails each time that the job asks for it, and later steps are taken all the same.
    """

    def __init__(self, *steps: Callable[[], Awaitable[Any]]) -> None:
        """`steps` are functions that take the last samples, end the client, and return what has arrived."""
        self._steps = steps
        self._timer: asyncio.TimerHandle | None = None
        self._taken: list[asyncio.Task[Any]] = []

    def begin(self, end: float) -> None:
        """Begin a cell, which ends at a time of CLOCK_MONOTONIC at the latest."""
        if self._timer:
            self._timer.cancel()
        self._taken = []
        self._timer = asyncio.get_running_loop().call_later(end - time.monotonic(), self.end)

    def end(self) -> None:
        """End the cell, unless it has ended."""
        before: asyncio.Task[Any] | None = None
        for step in () if self._taken else self._steps:
            before = asyncio.create_task(_after(before, step))
            before.add_done_callback(asyncio.Task.exception)  # nobody may ask for it
            self._taken.append(before)

    async def step(self, number: int) -> Any:
        """End the cell unless it has ended, and return the result of a step."""
        self.end()
        return await self._taken[number]


async def _after(before: asyncio.Task[Any] | None, step: Callable[[], Awaitable[Any]]) -> Any:
    if before:
        await asyncio.wait([before])
    return await step()
