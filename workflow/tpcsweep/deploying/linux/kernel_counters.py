# SPDX-License-Identifier: Apache-2.0
"""Counters of a Linux machine and of its processes, read from /proc in microseconds without processes.

Sources: proc(5) for /proc/stat, /proc/pid/stat and /proc/net/snmp (RFC 4022 tcpRetransSegs). The CPU time of a process
includes that of children that it has waited for. The time of a process tree therefore falls when a parent ends before
its children, and `TreeCpu` makes up for that.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
REUSE_SECONDS = 0.02
"""Seconds for which a look at all processes is reused, because several groups are read at once."""
LOOKS = 5  # most looks at a process tree in which children keep ending


class CounterFile:
    """File of counters that is read repeatedly.

    A file under /proc/net stays in the network namespace in which the thread opened it.
    """

    def __init__(self, file: Path | str | int) -> None:
        """Open a file, or read an open descriptor."""
        self._fd = file if isinstance(file, int) else os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        return os.pread(self._fd, 1 << 17, 0)

    def close(self) -> None:
        os.close(self._fd)


def protocol_counter(text: bytes, group: str, counter: str) -> int:
    """Return a counter of a group, such as RetransSegs of Tcp, from the text of /proc/net/snmp or netstat.

    Raises ValueError if the kernel lacks it.
    """
    start = group.encode() + b":"
    names, values = (line.split() for line in text.splitlines() if line.startswith(start))
    return int(values[names.index(counter.encode())])


def machine_times(text: bytes) -> tuple[float, float, float, float]:
    """Return CPU seconds of all CPUs since boot from the text of /proc/stat: busy, tasks, steal, total.

    Tasks are busy seconds without interrupts. User time already includes guest time.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = (int(n) / TICKS for n in text.split(None, 9)[1:9])
    tasks = user + nice + system
    busy = tasks + irq + softirq
    return busy, tasks, steal, busy + idle + iowait + steal


class Process(NamedTuple):
    parent: int
    waits: bool  # whether it is in an uninterruptible sleep, as during disk I/O
    own: float  # CPU seconds
    seconds: float  # CPU seconds including those of the children that it has waited for

    @property
    def waited(self) -> float:
        return self.seconds - self.own


def parse_stat(text: bytes) -> Process:
    """Parse the text of /proc/pid/stat or /proc/pid/task/tid/stat. Names may contain spaces and brackets."""
    fields = text[text.rindex(b")") + 2 :].split(None, 15)
    user, system, *children = map(int, fields[11:15])
    own = user + system
    return Process(int(fields[1]), fields[0] == b"D", own / TICKS, (own + sum(children)) / TICKS)


def read_process(pid: int) -> Process | None:
    """Return a process, or None if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat", "rb", 0) as file:  # noqa: PTH123
        return parse_stat(file.read())
    return None


def with_descendants(roots: Iterable[int], processes: Mapping[int, Process]) -> set[int]:
    """Return the existing processes among `roots`, and all their descendants."""
    descendants = set(roots) & processes.keys()
    while new := {pid for pid, process in processes.items() if process.parent in descendants} - descendants:
        descendants |= new
    return descendants


class ProcessTable:
    """All processes of this PID namespace, at most REUSE_SECONDS old."""

    def __init__(self) -> None:
        self._when = -REUSE_SECONDS
        self._processes: dict[int, Process] = {}

    def read(self, fresh: bool = False) -> Mapping[int, Process]:
        now = time.monotonic()
        if fresh or now - self._when >= REUSE_SECONDS:
            pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
            known = {pid: process for pid in pids if (process := read_process(pid))}
            self._processes, self._when = known, now
        return self._processes

    def tree(self, roots: Iterable[int]) -> dict[int, Process]:
        """Return the processes among `roots` and their descendants, each with its CPU time once.

        If a child ends between the look at its parent and that at itself, its time is in both or in neither. The tree
        is read again then.
        """
        roots = [*roots]
        for look in range(LOOKS):
            known = self.read(fresh=look > 0)
            found = {pid: known[pid] for pid in with_descendants(roots, known)}
            now = {pid: read_process(pid) for pid in found}
            if all(each and abs(each.waited - found[pid].waited) < 0.5 / TICKS for pid, each in now.items()):
                break
        return found


class TreeCpu:
    """CPU time of a process tree, which never falls."""

    def __init__(self, processes: Callable[[], Mapping[int, Process]]) -> None:
        """`processes` are those of the tree now, such as `ProcessTable.tree`."""
        self._processes = processes
        self._last = self._lost = 0.0

    def read(self) -> float:
        """Return the CPU seconds of all processes since the first look, and those of the tree before it.

        The time of processes that nobody waited for is that of the look before they ended.
        """
        now = sum(process.seconds for process in self._processes().values())
        self._lost += max(0.0, self._last - now)
        self._last = now
        return now + self._lost
