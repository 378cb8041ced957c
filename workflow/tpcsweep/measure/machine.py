# SPDX-License-Identifier: Apache-2.0
"""The machine while a cell is measured: its use, pressure and speed; and its busiest threads.

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
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tpcsweep.linux.counters import CounterFile, machine_times, parse_stat

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
TAKEN = 0.1
"""Share of the machine's CPU time, by others or the hypervisor, from which on a cell is disturbed."""
SLOWED = 0.5
"""Share by which a piece of work takes longer than when the machine was fastest, from which on a cell is disturbed."""


class Condition(NamedTuple):
    busy: float
    """CPU seconds over all CPUs, as the next three; counters."""
    tasks: float
    """The busy seconds of processes, without interrupts."""
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
        return Condition(*machine_times(self._stat.read()), waited, *self._speed.look())

    def close(self) -> None:
        self._stat.close()
        if self._pressure:
            self._pressure.close()


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


def disturbed(others: float | None, steal: float | None, slowed: float | None) -> bool:
    """Whether a machine was not the deployment's own, by `machine_others`, `machine_steal` and `machine_slowed`.

    What is not known does not speak against it.
    """
    return (others or 0.0) + (steal or 0.0) >= TAKEN or (slowed or 0.0) >= SLOWED


def pressure(text: bytes) -> float:
    """Seconds in which some process waited, from the text of a file in /proc/pressure."""
    some = text.split(b"\n", 1)[0]  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", in µs
    return int(some.rsplit(b"=", 1)[1]) * 1e-6


def _pressure_file() -> CounterFile | None:
    """None where the kernel has none (before 4.20) or keeps none (psi=0): then it cannot be opened, or not read."""
    try:
        Path(PRESSURE).read_bytes()
        return CounterFile(PRESSURE)
    except OSError:
        return None


def _piece() -> float:
    began = time.thread_time()
    value = 0
    for i in range(PIECE):
        value += i * i
    return time.thread_time() - began


class Busiest(NamedTuple):
    cores: float
    """CPU used by the busiest thread since the look before, cores; NaN before there were two looks."""
    waiting: float
    """Threads that wait for a disk."""


def together(servers: Iterable[Busiest]) -> Busiest:
    """Of several servers: the busiest thread of any, and all that wait. NaN as long as one has not looked twice."""
    cores, waiting = zip(*servers, strict=True)
    return Busiest(math.nan if any(map(math.isnan, cores)) else max(cores), sum(waiting))


class Threads:
    def __init__(self, proc: int, pids: Callable[[], Iterable[int]]) -> None:
        """Watch the processes that `pids` returns, from the first look on.

        `proc` is an open descriptor of a /proc, which may be another container's; it stays the caller's.
        """
        self._proc = f"/proc/self/fd/{proc}"
        self._pids = pids
        self._used: dict[str, float] = {}
        self._when = self._due = -math.inf
        self._busiest = Busiest(math.nan, math.nan)

    def look(self) -> Busiest:
        """Return the last look; look again if it was LOOK seconds ago, or longer (see SHARE)."""
        now = time.monotonic()
        if now >= self._due:
            began = time.thread_time()
            waiting, used = self._stats()
            took = time.thread_time() - began
            grown = (seconds - self._used.get(thread, 0.0) for thread, seconds in used.items())
            first = math.isinf(self._when)
            spent = math.nan if first else max(grown, default=0.0)
            self._busiest = Busiest(spent / (now - self._when), waiting)
            self._used, self._when, self._due = used, now, now + max(LOOK, took / SHARE)
        return self._busiest

    def _stats(self) -> tuple[int, dict[str, float]]:
        waiting, used = 0, {}
        for pid in self._pids():
            with suppress(FileNotFoundError, ProcessLookupError):
                for thread in os.scandir(f"{self._proc}/{pid}/task"):
                    name = f"{thread.path}/stat"
                    with suppress(FileNotFoundError, ProcessLookupError), open(name, "rb", 0) as file:  # noqa: PTH123
                        stat = parse_stat(file.read())
                        waiting, used[name] = waiting + stat.waits, stat.own
        return waiting, used


def numbered(proc: int) -> list[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit()]
