# SPDX-License-Identifier: Apache-2.0
"""Counters of a Linux machine, read from files that stay open: a sample costs microseconds, not processes.

Sources: proc(5) for /proc/stat and /proc/net/snmp (RFC 4022 tcpRetransSegs).
"""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class CounterFile:
    """A file of counters that is read again and again.

    One under /proc/net stays with the network namespace that the thread was in when it was opened.
    """

    def __init__(self, path: Path | str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Read what it says now."""
        return os.pread(self._fd, 1 << 17, 0)

    def close(self) -> None:
        os.close(self._fd)


def retransmits(text: bytes) -> int:
    """Read the number of TCP segments retransmitted in the text of /proc/net/snmp."""
    names, values = (line.split() for line in text.splitlines() if line.startswith(b"Tcp:"))
    return int(values[names.index(b"RetransSegs")])


def machine(text: bytes) -> tuple[float, float, float, float]:
    """Read the text of /proc/stat. Guest time is already in user time.

    Returns:
        CPU seconds since boot, summed over CPUs: busy, those of processes without interrupts, steal, and all.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = (int(n) / TICKS for n in text.split(None, 9)[1:9])
    tasks = user + nice + system
    busy = tasks + irq + softirq
    return busy, tasks, steal, busy + idle + iowait + steal
