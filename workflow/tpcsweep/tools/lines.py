# SPDX-License-Identifier: Apache-2.0
"""What a worker and the client say to each other: lines of JSON on the worker's standard input and output.

The client's                                    The worker's
                                                 {"ready": true}, first of all
  {"number", "source", "destination",              {"number", "failure": null | "…"}, in any order
   "copy_mode", "tcp_streams", … of `Transfer`}

The worker ends when its standard input does, or when it is told by a signal, whatever runs: so it never outlives the
client. Standard library only, as the system's Python reads it too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tpcsweep.tools.base import Transfer

LONGEST = 300
"""Characters of a failure at most: a line that a pipe takes at once is never mixed with another thread's."""
READY = {"ready": True}
PACKAGE = Path(__file__).resolve().parents[2]
"""The folder that `tpcsweep` is in: another Python than the client's own finds it by PYTHONPATH."""


def command(python: str, module: str, *arguments: str) -> list[str]:
    """Give the command line of a worker whose process runs `main(*arguments)` of a module in `tpcsweep.tools`."""
    call = f"import sys; from tpcsweep.tools import {module}; {module}.main(*sys.argv[1:])"
    return [python, "-P", "-c", call, *arguments]


def order(number: int, transfer: Transfer) -> bytes:
    """Give the line that asks a worker for a transfer."""
    return _line({"number": number, **vars(transfer)})


def ordered(line: bytes) -> tuple[int, Transfer]:
    """Read such a line."""
    fields = json.loads(line)
    return fields.pop("number"), Transfer(**fields)


class Answers:
    """What a worker says on its standard output; what libraries write there goes to standard error instead."""

    def __init__(self) -> None:
        self._file = os.dup(1)
        os.dup2(2, 1)

    def ready(self) -> None:
        """Say that the worker can take transfers."""
        self._say(READY)

    def ended(self, number: int, failure: str | None) -> None:
        """Say how a transfer ended. Any thread may call this."""
        self._say({"number": number, "failure": failure and failure[:LONGEST]})

    def _say(self, fields: dict[str, Any]) -> None:
        os.write(self._file, _line(fields))


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
