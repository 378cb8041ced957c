# SPDX-License-Identifier: Apache-2.0
"""Processes with their descendants, and the CPU time of both: what tells where there are no cgroups.

Source: proc(5), /proc/pid/stat. A process's CPU time has that of its children from when it has waited for them, so what
a process and all its descendants have used is lost only with one whose parent has ended first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from tpcsweep.linux.counters import TICKS

FRESH = 0.02
"""Seconds that a look at all processes counts for, as several groups are asked for at once."""


class Process(NamedTuple):
    """A process at a moment."""

    parent: int
    seconds: float
    """CPU time, that of its children included which it has waited for."""


def parse_stat(text: bytes) -> Process:
    """Read the text of /proc/pid/stat. The name in it may hold spaces and brackets."""
    fields = text[text.rindex(b")") + 2 :].split(None, 15)
    return Process(int(fields[1]), sum(map(int, fields[11:15])) / TICKS)


def with_descendants(roots: Iterable[int], processes: Mapping[int, Process]) -> set[int]:
    """Give those of some processes that are there, and all that descend from them."""
    found = set(roots) & processes.keys()
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    left = list(found)
    while left:
        new = set(children.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


class Table:
    """All processes of this PID namespace, as they were at most FRESH ago."""

    def __init__(self) -> None:
        self._when = -FRESH
        self._processes: dict[int, Process] = {}

    def look(self) -> Mapping[int, Process]:
        now = time.monotonic()
        if now - self._when >= FRESH:
            self._processes = dict(_all())
            self._when = now
        return self._processes


def _all() -> Iterable[tuple[int, Process]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # One that ends meanwhile is none.
            with suppress(FileNotFoundError, ProcessLookupError), open(f"{entry.path}/stat", "rb", 0) as file:  # noqa: PTH123
                yield int(entry.name), parse_stat(file.read())
