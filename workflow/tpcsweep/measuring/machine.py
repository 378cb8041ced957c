# SPDX-License-Identifier: Apache-2.0
"""State of the machine during a cell: usage, pressure and speed, and its busiest threads.

Sources: docs/measuring.md; proc(5), /proc/stat and /proc/pid/stat, where state D is an uninterruptible sleep, as in
reading and writing to disks; Documentation/accounting/psi.rst, /proc/pressure/cpu; clock_gettime(2).
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tpcsweep.data.variables import quantities
from tpcsweep.deploying.linux.kernel_counters import CounterFile, machine_times, parse_stat

PIECE = 5000  # rounds of a loop that are one piece of work: 0.2 ms on the machine of development
TRIES = 3  # pieces in a look, of which the fastest counts, because the first one runs with cold caches
WINDOW = 16
"""Looks whose mean is a speed, two or three seconds.
On a shared host, a single piece takes up to twice as long as the next, regardless of this machine's load."""
THREAD_INTERVAL = 1.0  # seconds between looks at threads; each look reads a file for every thread
SHARE = 0.005  # largest share of a core for looks at speed, and for looks at threads; slow looks become rarer
PRESSURE = "/proc/pressure/cpu"


class Condition(NamedTuple):
    busy: float  # counter: CPU seconds over all CPUs, like the next three
    tasks: float  # busy seconds of processes, without interrupts
    steal: float
    total: float
    pressure: float | None
    """Counter: seconds in which some process waited for a CPU, or None if the kernel does not report it."""
    work: float  # CPU seconds for a recent piece of work
    slowed: float | None  # slowdown relative to the fastest WINDOW of looks, or None before there was one


class Machine:
    """Reader of the machine's state; uses SHARE of a core at most, and reads two files at every look."""

    def __init__(self, ours: Callable[[], float] | None = None) -> None:
        """`ours` returns the CPU seconds of all processes of deployment and measurement, if this machine runs them."""
        self._ours = ours
        self._fields = [(each.name, each.place[1]) for each in quantities("machine", "machine")]
        self._stat = CounterFile("/proc/stat")
        self._pressure: CounterFile | None = None
        with suppress(OSError):  # the kernel has none (before 4.20), or refuses to open or read it (psi=0)
            Path(PRESSURE).read_bytes()
            self._pressure = CounterFile(PRESSURE)
        self._speed = Speed()

    def condition(self) -> Condition:
        waited = pressure(self._pressure.read()) if self._pressure else None
        return Condition(*machine_times(self._stat.read()), waited, *self._speed.read())

    def read(self) -> dict[str, float]:
        """Return the quantities of the machine by name, NaN if unknown; without `ours` those of others are missing."""
        condition = self.condition()
        record = {}
        for name, field in self._fields:
            if field != "others":
                value = getattr(condition, field)
                record[name] = math.nan if value is None else value
            elif self._ours:
                record[name] = condition.tasks - self._ours()
        return record

    def close(self) -> None:
        self._stat.close()
        if self._pressure:
            self._pressure.close()


class Speed:
    """Repeated measurement of the time for a piece of work, and of its slowdown."""

    def __init__(self, piece: Callable[[], float] | None = None) -> None:
        """`piece` does a piece of work and returns its CPU seconds."""
        self._piece = piece or _piece
        self._last = math.nan
        self._due = -math.inf
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._fastest = math.inf

    def read(self) -> tuple[float, float | None]:
        """Return the CPU seconds for a piece of work, and its slowdown relative to the fastest, 0 or more.

        The last result is repeated while another look would exceed SHARE of a core.
        """
        now = time.monotonic()
        if now >= self._due:
            tries = [self._piece() for _ in range(TRIES)]
            self._last = min(tries)
            self._recent.append(self._last)
            if len(self._recent) == WINDOW:
                self._fastest = min(self._fastest, fmean(self._recent))
            self._due = now + sum(tries) / SHARE
        # A clock that is too coarse for a piece of work reports zero.
        known = 0 < self._fastest < math.inf
        # A single look may be faster than the fastest mean of looks.
        return self._last, max(self._last / self._fastest - 1, 0.0) if known else None


def pressure(text: bytes) -> float:
    """Return the seconds in which some process waited, from the text of a file in /proc/pressure."""
    some = text.split(b"\n", 1)[0]  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", in µs
    return int(some.rsplit(b"=", 1)[1]) * 1e-6


def _piece() -> float:
    began = time.thread_time()
    value = 0
    for i in range(PIECE):
        value += i * i
    return time.thread_time() - began


class Busiest(NamedTuple):
    cores: float  # cores used by the busiest thread since the previous look; NaN before the second look
    waiting: float  # number of threads that wait for a disk


class Threads:
    def __init__(self, proc: int, pids: Callable[[], Iterable[int]]) -> None:
        """Watch the processes that `pids` returns.

        `proc` is an open descriptor of a /proc, which may be another container's; the caller closes it.
        """
        self._proc = f"/proc/self/fd/{proc}"
        self._pids = pids
        self._used: dict[str, float] = {}
        self._when = self._due = -math.inf
        self._busiest = Busiest(math.nan, math.nan)

    def read(self) -> Busiest:
        """Return the last look, after repeating it if it is THREAD_INTERVAL seconds old or older (see SHARE)."""
        now = time.monotonic()
        if now >= self._due:
            began = time.thread_time()
            waiting, used = self._stats()
            took = time.thread_time() - began
            grown = (seconds - self._used.get(thread, 0.0) for thread, seconds in used.items())
            first = math.isinf(self._when)
            spent = math.nan if first else max(grown, default=0.0)
            self._busiest = Busiest(spent / (now - self._when), waiting)
            self._used, self._when, self._due = used, now, now + max(THREAD_INTERVAL, took / SHARE)
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


def process_ids(proc: int) -> list[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit()]
