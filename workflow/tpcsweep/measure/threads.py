"""The threads of some processes: the busiest one, and how many wait for a disk.

One thread moves the bytes of a transfer at either end, so that a transfer goes no faster than a core allows,
whatever the quota. Looked at once a second: a look reads a file for each thread.
Source: proc(5), /proc/pid/stat; state D is an uninterruptible sleep, which reading and writing to disks is.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from tpcsweep.linux.counters import TICKS

LOOK = 1.0
"""Seconds between looks."""
SHARE = 0.005
"""Of a core, what looks may take at most: where there are many threads they are looked at less often."""


class ThreadStat(NamedTuple):
    """What a thread's stat says."""

    waits: bool
    """Whether it waits for a disk."""
    ticks: int
    """CPU time used, in clock ticks."""


class Busiest(NamedTuple):
    """What the last look showed."""

    cores: float
    """CPU used by the busiest thread since the look before, cores; NaN before there were two looks."""
    waiting: float
    """Threads that wait for a disk."""


def together(servers: Iterable[Busiest]) -> Busiest:
    """Of several servers: the busiest thread of any, and all that wait. NaN as long as one has not looked twice."""
    cores, waiting = zip(*servers, strict=True)
    return Busiest(math.nan if any(map(math.isnan, cores)) else max(cores), sum(waiting))


class Threads:
    """Watches the threads of processes that come and go."""

    def __init__(self, proc: int, pids: Callable[[], Iterable[int]]) -> None:
        """Watch them from the first look on.

        Args:
            proc: an open descriptor of a /proc, which may be another container's; it stays the caller's.
            pids: tells the processes that there are at the moment.
        """
        self._proc = f"/proc/self/fd/{proc}"
        self._pids = pids
        self._ticks: dict[str, int] = {}
        self._when = self._due = -math.inf
        self._busiest = Busiest(math.nan, math.nan)

    def look(self) -> Busiest:
        """What the last look showed; looks again where that was LOOK seconds ago, or longer (see SHARE)."""
        now = time.monotonic()
        if now >= self._due:
            began = time.thread_time()
            stats = self._stats()
            took = time.thread_time() - began
            used = (stat.ticks - self._ticks.get(thread, 0) for thread, stat in stats.items())
            first = math.isinf(self._when)
            cores = math.nan if first else max(used, default=0) / TICKS / (now - self._when)
            self._busiest = Busiest(cores, sum(stat.waits for stat in stats.values()))
            self._ticks = {thread: stat.ticks for thread, stat in stats.items()}
            self._when, self._due = now, now + max(LOOK, took / SHARE)
        return self._busiest

    def _stats(self) -> dict[str, ThreadStat]:
        """By the threads' files, of those that do not end meanwhile."""
        stats = {}
        for pid in self._pids():
            with suppress(FileNotFoundError, ProcessLookupError):
                for thread in os.scandir(f"{self._proc}/{pid}/task"):
                    name = f"{thread.path}/stat"
                    with suppress(FileNotFoundError, ProcessLookupError), open(name, "rb", 0) as file:  # noqa: PTH123
                        stats[name] = parse_stat(file.read())
        return stats


def numbered(proc: int) -> list[int]:
    """All processes of a /proc."""
    return [int(name) for name in os.listdir(proc) if name.isdigit()]


def parse_stat(text: bytes) -> ThreadStat:
    """From the text of /proc/pid/task/tid/stat. The name in it may hold spaces and brackets."""
    fields = text[text.rindex(b")") + 2 :].split(None, 13)
    return ThreadStat(fields[0] == b"D", int(fields[11]) + int(fields[12]))
