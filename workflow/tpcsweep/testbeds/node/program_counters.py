# SPDX-License-Identifier: Apache-2.0
"""Targets of the sampler on a node: its programs, connections, interfaces and files, as variables.toml lists them.

A target is made of parts that read some quantities each. Namespaces and pods read them with the same functions.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import add
from pathlib import Path
from statistics import fmean
from typing import Protocol

from tpcsweep.data.variables import Quantity, quantities
from tpcsweep.deploying.linux.cgroups import USAGE, CpuReader
from tpcsweep.deploying.linux.kernel_counters import CounterFile, protocol_counter
from tpcsweep.deploying.linux.namespaces import parse_net_dev
from tpcsweep.deploying.linux.sockets import (
    TCP_INFO_UNITS,
    TCP_INFO_UNKNOWN,
    Connection,
    SocketDiagnostics,
    tcp_info,
    tcp_sockets,
)
from tpcsweep.measuring.machine import Threads
from tpcsweep.measuring.sampler import Record
from tpcsweep.measuring.transfer_files import Arrivals

NET = Path("/proc/thread-self/net")
DROPS_INTERVAL = 1.0  # seconds between looks at counters of netem, each of which starts `tc` for some ms


class Part(Protocol):
    """Reader of some quantities of a target, by name, in s, bytes or numbers."""

    def read(self) -> Record: ...


class Target:
    """Parts that are read one after the other; files come before the interface that all arrived bytes have crossed."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def read(self) -> Record:
        record: Record = {}
        for part in self._parts:
            record.update(part.read())
        return record


class Files(Part):
    """Bytes that arrived at the destination."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        [self._quantity] = quantities("files", "destination")

    def read(self) -> Record:
        return {self._quantity.name: self._arrivals.arrived()}


class Interfaces(Part):
    """Bytes of some interfaces in one network namespace, in which it must be created."""

    def __init__(self, target: str, interfaces: Collection[str], counter: str) -> None:
        """`counter` of /proc/net/dev is what the `target` sends to the path, or gets from it."""
        [self._quantity] = quantities("interface", target)
        self._interfaces = interfaces
        self._counter = counter
        self._file = CounterFile(NET / "dev")
        self.close = self._file.close

    def read(self) -> Record:
        counted = parse_net_dev(self._file.read().decode())
        return {self._quantity.name: sum(counted[each][self._counter] for each in self._interfaces)}


class PathDrops(Part):
    """Packets that the path dropped."""

    def __init__(self, counted: Callable[[], Mapping[str, float]], interval: float = 0.0) -> None:
        """`counted` returns the dropped packets as `drops` and `queue_drops`, NaN where none are counted.

        It is called once in `interval` seconds at most.
        """
        self._counted = counted
        self._interval = interval
        self._due = -math.inf
        self._record: Record = {}

    def read(self) -> Record:
        if time.monotonic() >= self._due:
            counted = self._counted()
            self._record = {each.name: counted[each.place[1]] for each in quantities("path", "path")}
            self._due = time.monotonic() + self._interval
        return self._record


class Programs(Part):
    """The processes of one server, or of the client and its tools."""

    def __init__(self, target: str, cpu: CpuReader, proc: int, pids: Callable[[], Iterable[int]]) -> None:
        """Watch the processes that `pids` returns. `proc` is a descriptor of /proc, which the caller closes."""
        self._counted = [(each.name, each.place[1]) for each in quantities("cgroup", target)]
        self._keys = {USAGE, *(key for _, key in self._counted)}
        self._states = [(each.name, each.place[1]) for each in quantities("threads", target)]
        self._cpu = cpu
        self._threads = Threads(proc, pids)
        self._proc = f"/proc/self/fd/{proc}"
        self._pids = pids
        self.used = 0.0  # their CPU seconds at the last reading

    def read(self) -> Record:
        counted = self._cpu(self._keys)
        self.used = counted[USAGE]
        record = {name: counted[key] for name, key in self._counted}
        if self._states:
            busiest = self._threads.read()
            record |= {name: getattr(busiest, field) for name, field in self._states}
        return record

    def tcp_sockets(self) -> set[int]:
        """Return the inode numbers of the processes' TCP sockets. Raises PermissionError."""
        return tcp_sockets(self._proc, self._pids())

    def copies(self) -> list[int]:
        """Return the ids of programs that xrootd runs, one for each copy between `root://` servers (`ofs.tpc pgm`)."""
        names, parents = dict[int, str](), dict[int, int]()
        for pid in self._pids():
            with suppress(FileNotFoundError, ProcessLookupError):
                name, _, fields = Path(f"{self._proc}/{pid}/stat").read_text().rpartition(") ")
                names[pid] = name.partition("(")[2]
                state, parent, *_ = fields.split()
                if state != "Z":
                    parents[pid] = int(parent)
        return [pid for pid, parent in parents.items() if names.get(parent) == "xrootd"]


AGGREGATES: Mapping[str, Callable[..., float]] = {"sum": sum, "mean": fmean, "min": min, "max": max}


class ConnectionTotals:
    """Fields of tcp_info over connections: sums of counters over all ever seen, and the state of the current ones.

    Changes of a connection after its last look are missed, that is at most one sampling interval.
    """

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        """`quantities` are read in tcp_info."""
        self._quantities = [(each, TCP_INFO_UNITS.get(each.place[1], 1)) for each in quantities]
        self._fields = tcp_info([each.place[1] for each in quantities])
        self._ended = [0] * len(quantities)
        self._last: dict[int, tuple[int, ...]] = {}  # fields of connections by their cookies

    def update(self, connections: Iterable[Connection]) -> dict[str, float]:
        """Record the current connections, and return the quantities, in s, bytes or numbers; NaN if unknown."""
        now = {connection.cookie: self._fields(connection) for connection in connections}
        for cookie in self._last.keys() - now.keys():
            self._ended = list(map(add, self._ended, self._last[cookie]))
        self._last = now
        columns = list(zip(*now.values(), strict=True)) or [()] * len(self._quantities)
        record = {}
        for (quantity, unit), ended, column in zip(self._quantities, self._ended, columns, strict=True):
            if quantity.grows:
                value: float = ended + sum(column)
            else:
                known = [value for value in column if value != TCP_INFO_UNKNOWN]
                value = AGGREGATES[quantity.aggregation](known) if known else math.nan
            record[quantity.name] = value * unit
        return record


class Network(Part):
    """The connections of one origin. Create it in the origin's network namespace."""

    def __init__(self, target: str, programs: Programs, port: int, peers: Collection[str]) -> None:
        """Count the server's `port`, and connections to `peers`, the addresses of the other side's origins."""
        self._programs = programs
        self._port = port
        self._peers = frozenset(peers)
        self._sockets = SocketDiagnostics()
        self._forgotten: set[int] = set()
        self._count = [each.name for each in quantities("connections", target)]
        self._flows = ConnectionTotals(quantities("tcp_info", target))
        self._watched = bool(self._count or quantities("tcp_info", target))
        counted = {name: quantities(name, target) for name in ("snmp", "netstat")}
        self._files = [(CounterFile(NET / name), wanted) for name, wanted in counted.items() if wanted]

    def connections(self) -> list[Connection]:
        return [connection for connection in self._sockets.connections() if connection.remote in self._peers]

    def read(self) -> Record:
        record: Record = {}
        for file, counted in self._files:
            text = file.read()
            record |= {each.name: protocol_counter(text, *each.place[1:]) for each in counted}
        if self._watched:
            connections = self.connections()
            record |= self._flows.update(connections) | dict.fromkeys(self._count, len(connections))
        return record

    def unfinished(self) -> int:
        """Count connections that the server, or a tool's server, has not yet accepted, served or closed.

        Programs that copy count, too: a new one has no connection yet, and runs on without its client.

        Raises PermissionError if the node hides the programs' open files.
        """
        held = self._programs.tcp_sockets() - self._forgotten
        unfinished = self._sockets.unfinished(self._port, held) + len(self.connections())
        return unfinished + len(self._programs.copies())

    def forget_reset(self) -> None:
        """Stop counting the reset connections that the server holds now."""
        self._forgotten |= self._sockets.reset(self._programs.tcp_sockets())

    def close(self) -> None:
        self._sockets.close()
        for file, _ in self._files:
            file.close()
