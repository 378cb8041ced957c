"""The machine itself while a cell is measured: what of it is used, who waits for it, and how fast it is.

Speed is the CPU time of a small fixed piece of work. A process that shares a core, a hyper-thread or a host with a busy
neighbour, or whose CPU has a lower clock, needs more of it; one that merely waits for a CPU does not.

Sources: proc(5), /proc/stat; Documentation/accounting/psi.rst, /proc/pressure/cpu; clock_gettime(2),
CLOCK_THREAD_CPUTIME_ID.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from tpcsweep.linux.counters import CounterFile, machine

PIECE = 5000
"""Rounds of a loop that are one piece of work: 0.2 ms where this was written."""
TRIES = 3
"""Pieces of a look, of which the fastest counts: the first finds its data out of the caches."""
WINDOW = 16
"""Looks whose mean is a speed, two or three seconds: on a shared host a single piece takes up to twice as long as the
next, whatever the machine itself does."""
SHARE = 0.005
"""Of a core, what looks take at most."""
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
        """Its condition now."""
        now = machine(self._stat.read())
        waited = pressure(self._pressure.read()) if self._pressure else None
        return Condition(now.busy, now.tasks, now.steal, now.total, waited, *self._speed.look())

    def close(self) -> None:
        """Close its files."""
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
