# SPDX-License-Identifier: Apache-2.0
"""Counters of a node: CPU, throttling, threads and sockets of its programs, and its connections."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from tpcsweep.deploying.linux.kernel_counters import CounterFile, retransmits
from tpcsweep.deploying.linux.sockets import Connection, SocketDiagnostics, tcp_sockets
from tpcsweep.measuring.machine import Threads


class ProgramTotals(TypedDict):
    """Growing counters of the programs of one server, or of the client, read before and after a cell.

    A site sums them to `source_periods`, `destination_periods`, `client_periods`, and so on (`site_totals`).
    """

    periods: int  # scheduling periods with runnable threads
    throttled: int  # scheduling periods in which the quota was exhausted


class PathTotals(TypedDict):
    """Growing counters of the path, or of one origin's part of it, or None if the network reports none."""

    drops: int | None  # packets that the path dropped
    queue_drops: int | None  # dropped packets that found a queue full


def site_totals(parts: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, int | None]:
    """Return the totals `part_field` of a site: sums over the records of each part, None if a summand is."""
    totals: dict[str, int | None] = {}
    for part, records in parts.items():
        rows = list(records)
        for field in rows[0]:
            values = [row[field] for row in rows]
            totals[f"{part}_{field}"] = None if None in values else sum(values)
    return totals


class Programs:
    """The processes of one server, or of the client and its tools."""

    def __init__(
        self,
        cpu: Callable[[], float],
        periods: Callable[[], tuple[int, int]],
        proc: int,
        pids: Callable[[], Iterable[int]],
    ) -> None:
        """Watch the processes that `pids` returns. `proc` is a descriptor of /proc, which the caller closes."""
        self.cpu = cpu  # returns their CPU time in s
        self._periods = periods
        self.threads = Threads(proc, pids).read
        self._proc = f"/proc/self/fd/{proc}"
        self._pids = pids

    def totals(self) -> ProgramTotals:
        periods, throttled = self._periods()
        return {"periods": periods, "throttled": throttled}

    def tcp_sockets(self) -> set[int]:
        """Return the inode numbers of the processes' TCP sockets. Raises PermissionError."""
        return tcp_sockets(self._proc, self._pids())

    def copying(self) -> int:
        """Count the programs that xrootd runs, one for each copy between `root://` servers (`ofs.tpc pgm`)."""
        names, parents = dict[int, str](), list[int]()
        for pid in self._pids():
            with suppress(FileNotFoundError, ProcessLookupError):
                name, _, fields = Path(f"{self._proc}/{pid}/stat").read_text().rpartition(") ")
                names[pid] = name.partition("(")[2]
                state, parent, *_ = fields.split()
                parents += [int(parent)] * (state != "Z")
        return [names.get(parent) for parent in parents].count("xrootd")


class OriginCounters:
    """The connections of one origin. Create it in the origin's network namespace."""

    def __init__(self, programs: Programs, port: int, peers: Collection[str]) -> None:
        """Count the server's `port`, and connections to `peers`, the addresses of the other side's origins."""
        self.programs = programs
        self._port = port
        self._peers = frozenset(peers)
        self._snmp = CounterFile("/proc/thread-self/net/snmp")
        self._sockets = SocketDiagnostics()
        self._forgotten: set[int] = set()

    def connections(self) -> list[Connection]:
        return [connection for connection in self._sockets.connections() if connection.remote in self._peers]

    def retransmits(self) -> int:
        return retransmits(self._snmp.read())

    def unfinished(self) -> int:
        """Count connections that the server, or a tool's server, has not yet accepted, served or closed.

        Programs that copy count, too: a new one has no connection yet, and runs on without its client.

        Raises PermissionError if the node hides the programs' open files.
        """
        held = self.programs.tcp_sockets() - self._forgotten
        unfinished = self._sockets.unfinished(self._port, held) + len(self.connections())
        return unfinished + self.programs.copying()

    def forget_reset(self) -> None:
        """Stop counting the reset connections that the server holds now."""
        self._forgotten |= self._sockets.reset(self.programs.tcp_sockets())

    def close(self) -> None:
        self._snmp.close()
        self._sockets.close()
