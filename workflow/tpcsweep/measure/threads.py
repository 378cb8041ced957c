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
    """What the last look found."""

    cores: float
    """CPU used by the busiest thread since the look before, cores; NaN before there were two looks."""
    waiting: float
    """Threads that wait for a disk."""


def together(found: Iterable[Busiest]) -> Busiest:
    """Of several servers: the busiest thread of any, and all that wait. NaN as long as one has not looked twice."""
    cores, waiting = zip(*found, strict=True)
    return Busiest(math.nan if any(map(math.isnan, cores)) else max(cores), sum(waiting))


class Threads:
    """Watches the threads of processes that come and go."""

    def __init__(self, proc: int, pids: Callable[[], Iterable[int]]) -> None:
        """`proc` is an open descriptor of a /proc, which may be another container's; it stays the caller's."""
        self._proc = proc
        self._pids = pids
        self._ticks: dict[str, int] = {}
        self._when = self._due = -math.inf
        self._found = Busiest(math.nan, math.nan)

    def look(self) -> Busiest:
        """What was found at the last look; looks again where that was LOOK seconds ago, or longer (see SHARE)."""
        now = time.monotonic()
        if now >= self._due:
            began = time.thread_time()
            seen = self._stats()
            took = time.thread_time() - began
            used = (stat.ticks - self._ticks.get(thread, 0) for thread, stat in seen.items())
            first = math.isinf(self._when)
            cores = math.nan if first else max(used, default=0) / TICKS / (now - self._when)
            self._found = Busiest(cores, sum(stat.waits for stat in seen.values()))
            self._ticks = {thread: stat.ticks for thread, stat in seen.items()}
            self._when, self._due = now, now + max(LOOK, took / SHARE)
        return self._found

    def _stats(self) -> dict[str, ThreadStat]:
        """By the threads' places under /proc."""
        found = {}
        for pid in self._pids():
            try:
                folder = os.open(
                    f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc
                )
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            try:
                for thread in os.listdir(folder):  # noqa: PTH208, a descriptor has no path
                    if text := _read(f"{thread}/stat", folder):
                        found[f"{pid}/{thread}"] = parse_stat(text)
            except FileNotFoundError:
                pass  # it ended meanwhile
            finally:
                os.close(folder)
        return found


def numbered(proc: int) -> list[int]:
    """All processes of a /proc."""
    return [int(name) for name in os.listdir(proc) if name.isdigit()]


def parse_stat(text: bytes) -> ThreadStat:
    """From the text of /proc/pid/task/tid/stat. The name in it may hold spaces and brackets."""
    fields = text[text.rindex(b")") + 2 :].split(None, 13)
    return ThreadStat(fields[0] == b"D", int(fields[11]) + int(fields[12]))


def _read(path: str, folder: int) -> bytes:
    """The text of a thread's file; nothing where the thread has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return os.read(file, 1024)
    except ProcessLookupError:
        return b""
    finally:
        os.close(file)
