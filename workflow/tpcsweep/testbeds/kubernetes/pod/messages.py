# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON in both directions: numbered requests, answers with their numbers, and events."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

LONGEST = 1 << 22

_running: set[asyncio.Task[Any]] = set()
"""Tasks that nobody awaits, as an event loop keeps no reference to them."""


def encoded(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def detach(doing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a task that nobody awaits."""
    task = asyncio.create_task(doing)
    _running.add(task)
    task.add_done_callback(_running.discard)


async def perform(verbs: Mapping[str, Callable[..., Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a request, and return its answer with `ok` or `error`."""
    try:
        result = verbs[request["do"]](**request.get("with", {}))
        if inspect.isawaitable(result):
            result = await result
    except (OSError, RuntimeError, ValueError, KeyError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        return {"id": request["id"], "error": f"{request['do']}: {why}"}
    return {"id": request["id"], "ok": result}
