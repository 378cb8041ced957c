# SPDX-License-Identifier: Apache-2.0
"""The machine while a cell is measured: what of it is used, who waits for it, how fast it is; and its busiest threads.

Sources: docs/measuring.md; proc(5), /proc/stat and /proc/pid/stat, where state D is an uninterruptible sleep, as in
reading and writing to disks; Documentation/accounting/psi.rst, /proc/pressure/cpu; clock_gettime(2).
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from statistics import fmean
from typing import NamedTuple

from tpcsweep.linux.counters import TICKS, CounterFile, machine

PIECE = 5000
"""Rounds of a loop that are one piece of work: 0.2 ms where this was written."""
TRIES = 3
"""Pieces of a look, of which the fastest counts: the first finds its data out of the caches."""
WINDOW = 16
"""Looks whose mean is a speed, two or three seconds: on a shared host a single piece takes up to twice as long as the
next, whatever the machine itself does."""
LOOK = 1.0
"""Seconds between looks at threads, as each reads a file for every thread."""
SHARE = 0.005
"""Of a core, what looks at speed, and those at threads, may take at most: where they take long they are rarer."""
PRESSURE = "/proc/pressure/cpu"


class Condition(NamedTuple):
    """The machine at a moment."""

    busy: float
    """CPU seconds over all CPUs, as the next three; counters."""
    tasks: float
    """Of the busy ones those of processes, without what interrupts took."""
    steal: float
    total: float
    pressure: float | None
    """Seconds in which some process waited for a CPU, a counter; None where the kernel does not say."""
    work: float
    """ms of CPU time that a piece of work took lately."""
    slowed: float | None
    """By which share that is longer than in the fastest WINDOW of looks; None before there was one."""


class Machine:
    """Looks at the machine; costs SHARE of a core at most, and reads two files at every look."""

    def __init__(self) -> None:
        self._stat = CounterFile("/proc/stat")
        self._pressure = _pressure_file()
        self._speed = Speed()

    def look(self) -> Condition:
        waited = pressure(self._pressure.read()) if self._pressure else None
        return Condition(*machine(self._stat.read()), waited, *self._speed.look())

    def close(self) -> None:
        for file in (self._stat, self._pressure):
            if file:
                file.close()


class Speed:
    """How long a piece of work takes, now and then, and how much longer than when the machine was fastest."""

    def __init__(self, piece: Callable[[], float] | None = None) -> None:
        """Begin without a look; `piece` does a piece of work and gives the CPU seconds that it took."""
        self._piece = piece or _piece
        self._last = math.nan
        self._due = -math.inf
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._fastest = math.inf

    def look(self) -> tuple[float, float | None]:
        """CPU time of a piece of work in ms, and the share by which that is longer than when it was fastest.

        Those of the last look, as long as another would take more than SHARE of a core.
        """
        now = time.monotonic()
        if now >= self._due:
            tries = [self._piece() for _ in range(TRIES)]
            self._last = min(tries)
            self._recent.append(self._last)
            if len(self._recent) == WINDOW:
                self._fastest = min(self._fastest, fmean(self._recent))
            self._due = now + sum(tries) / SHARE
        # A clock that is too coarse for a piece of work says that it took nothing.
        known = 0 < self._fastest < math.inf
        return 1e3 * self._last, self._last / self._fastest - 1 if known else None


def pressure(text: bytes) -> float:
    """Seconds in which some process waited, from the text of a file in /proc/pressure."""
    some = text.split(b"\n", 1)[0]  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", in µs
    return int(some.rsplit(b"=", 1)[1]) * 1e-6


def _pressure_file() -> CounterFile | None:
    """None where the kernel has none (before 4.20) or keeps none (psi=0): then it cannot be opened, or not read."""
    file = None
    try:
        file = CounterFile(PRESSURE)
        file.read()
    except OSError:
        if file:
            file.close()
        return None
    return file


def _piece() -> float:
    """Do a piece of work; CPU seconds that it took."""
    began = time.thread_time()
    value = 0
    for i in range(PIECE):
        value += i * i
    return time.thread_time() - began


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
            used = (ticks - self._ticks.get(thread, 0) for thread, (_, ticks) in stats.items())
            first = math.isinf(self._when)
            cores = math.nan if first else max(used, default=0) / TICKS / (now - self._when)
            self._busiest = Busiest(cores, sum(waits for waits, _ in stats.values()))
            self._ticks = {thread: ticks for thread, (_, ticks) in stats.items()}
            self._when, self._due = now, now + max(LOOK, took / SHARE)
        return self._busiest

    def _stats(self) -> dict[str, tuple[bool, int]]:
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


def parse_stat(text: bytes) -> tuple[bool, int]:
    """Whether a thread waits for a disk, and its CPU time in ticks, from the text of /proc/pid/task/tid/stat.

    The name in it may hold spaces and brackets.
    """
    fields = text[text.rindex(b")") + 2 :].split(None, 13)
    return fields[0] == b"D", int(fields[11]) + int(fields[12])
