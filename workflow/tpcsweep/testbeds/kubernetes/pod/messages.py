"""Lines of JSON in both directions: requests with a number, answers that bear it, and what comes unasked."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

LONGEST = 1 << 22

_running: set[asyncio.Task[Any]] = set()
"""Tasks that nobody waits for: an event loop alone does not keep them."""


def encoded(**fields: object) -> bytes:
    """A message as a line."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def start(doing: Coroutine[Any, Any, None]) -> None:
    """Have something done by a task that nobody waits for."""
    task = asyncio.create_task(doing)
    _running.add(task)
    task.add_done_callback(_running.discard)


async def answer(verbs: Mapping[str, Callable[..., Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a request asks; the message that answers it, with `ok` or `error`."""
    try:
        result = verbs[request["do"]](**request.get("with", {}))
        if inspect.isawaitable(result):
            result = await result
    except (OSError, RuntimeError, ValueError, KeyError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        return {"id": request["id"], "error": f"{request['do']}: {why}"}
    return {"id": request["id"], "ok": result}


class Peer:
    """The asking end of a connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unasked: Callable[[dict[str, Any]], None],
    ) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._unasked = unasked
        self._number = 0
        self._task = asyncio.create_task(self._listen(reader))
        self.gone = False

    async def ask(self, verb: str, **arguments: object) -> Any:
        """Raises RuntimeError with the other end's words, ConnectionError when it is gone."""
        if self.gone:
            raise ConnectionError("it is gone")
        self._number += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        self._writer.write(encoded(id=self._number, do=verb, **{"with": arguments}))
        return await future

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "id" not in message:
                    self._unasked(message)
                elif "error" in message:
                    self._waiting.pop(message["id"]).set_exception(RuntimeError(message["error"]))
                else:
                    self._waiting.pop(message["id"]).set_result(message["ok"])
        except OSError:
            pass
        self.gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("it is gone"))
        self._unasked({"gone": True})
