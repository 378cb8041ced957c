# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON in both directions: numbered requests, answers with their numbers, and events."""

import asyncio
import contextlib
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

LONGEST = 1 << 22  # bytes of the longest line
Verbs = Mapping[str, Callable[..., Any]]  # functions that execute requests, which may be coroutines
Ask = Callable[..., Awaitable[Any]]  # a function that has an agent execute a verb with keyword arguments

_running: set[asyncio.Task[Any]] = set()
"""Tasks that nobody awaits, as an event loop keeps no reference to them."""


def encoded(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def detach(doing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a task that nobody awaits."""
    task = asyncio.create_task(doing)
    _running.add(task)
    task.add_done_callback(_running.discard)


async def execute(verbs: Verbs, verb: str, arguments: Mapping[str, Any]) -> Any:
    """Execute a verb, and return its result."""
    result = verbs[verb](**arguments)
    return await result if inspect.isawaitable(result) else result


async def answer_request(verbs: Verbs, request: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a request, and return its answer with `ok` or `error`."""
    try:
        result = await execute(verbs, request["do"], request["with"])
    except Exception as error:
        # The system's own errors do not name the request.
        verb = f"{request['do']}: " if isinstance(error, OSError | LookupError) else ""
        return {"id": request["id"], "error": f"{verb}{str(error) or type(error).__name__}"}
    return {"id": request["id"], "ok": result}


async def serve_requests(verbs: Verbs, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Execute the requests of a connection until it ends."""

    async def answer(request: dict[str, Any]) -> None:
        writer.write(encoded(**await answer_request(verbs, request)))

    with contextlib.closing(writer), contextlib.suppress(OSError):
        while line := await reader.readline():
            detach(answer(json.loads(line)))


class Channel:
    """A connection whose other end executes requests, and may report events."""

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_event: Callable[..., None] = lambda **_: None,
    ) -> None:
        """`name` is that of the other end; `on_event` gets the fields of its events, the last of which is `gone`."""
        self._name = name
        self._writer = writer
        self._on_event = on_event
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._gone = False
        detach(self._listen(reader))

    async def ask(self, verb: str, /, **arguments: object) -> Any:
        """Return the answer of the other end; raises RuntimeError with its error, or if it is gone."""
        if self._gone:
            raise self._error("it is gone")
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(encoded(id=number, do=verb, **{"with": arguments}))
        return await future

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, ValueError):  # it ended, or its lines are no JSON
            while line := await reader.readline():
                message = json.loads(line)
                if "id" not in message:
                    self._on_event(**message)
                elif "error" in message:
                    self._waiting.pop(message["id"]).set_exception(self._error(message["error"]))
                else:
                    self._waiting.pop(message["id"]).set_result(message["ok"])
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._error("it is gone"))
        self._on_event(gone=self._name)

    def _error(self, words: str) -> RuntimeError:
        return RuntimeError(f"{self._name}: {words}")
