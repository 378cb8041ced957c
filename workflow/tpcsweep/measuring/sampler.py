# SPDX-License-Identifier: Apache-2.0
"""The sampler: it collects the records of targets, here or in pods. Standard library only, because pods import it.

A *record* has the quantities of one target at one `time`; variables.toml has their names.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from tpcsweep.measuring.looks import PAUSE, Looks, longest_gap

Entry = TypeVar("Entry")
Record = dict[str, float]

MOST = 10_000  # most entries of a history: 1000 s at ten samples a second; after thinning at least 5000


class ThinnedHistory(Generic[Entry]):
    """History that keeps every entry up to `most`, then every second, every fourth, and so on.

    Growing counters lose only resolution: a rate between two kept readings is the exact mean over the time between
    them. The first entry is always kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: list[Entry] = []
        self._seen = 0
        self.stride = 1  # number of entries for each kept one: a power of two

    def add(self, entry: Entry) -> None:
        if self._seen % self.stride == 0:
            self._kept.append(entry)
            if len(self._kept) > self._most:
                self._kept = self._kept[::2]
                self.stride *= 2
        self._seen += 1

    def entries(self) -> list[Entry]:
        return list(self._kept)


class Table(NamedTuple):
    """Records of a target."""

    names: tuple[str, ...]  # `time`, then the quantities
    rows: list[tuple[float, ...]]  # in the order of the names

    def column(self, name: str) -> list[float]:
        place = self.names.index(name)
        return [row[place] for row in self.rows]


NO_RECORDS = Table((), [])


@dataclass(frozen=True)
class Readings:
    """Records of all targets of a cell, on one clock; each target has its own timer.

    Common times begin with the first record of the last target, and end with the last record of the first one.
    """

    tables: Mapping[str, Table]  # by target
    shared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The "machine" and the "network" of targets that share one, by target."""

    @property
    def began(self) -> float:
        return max(table.rows[0][0] for table in self.tables.values())

    @property
    def ended(self) -> float:
        return min(table.rows[-1][0] for table in self.tables.values())

    def __bool__(self) -> bool:
        """Return whether there is a time at which all targets have records."""
        tables = self.tables.values()
        return bool(tables) and all(table.rows for table in tables) and self.began <= self.ended


class Histories:
    """Records of targets by name, which any thread may add and read."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, ...]] = {}
        self._histories: dict[str, ThinnedHistory[tuple[float, ...]]] = {}

    def add(self, target: str, record: Record) -> None:
        """Add a record. Raises LookupError if it lacks a quantity of the target's first one."""
        with self._lock:
            names = self._names.setdefault(target, tuple(dict.fromkeys(["time", *record])))
            if missing := [name for name in names if name not in record]:
                raise LookupError(f"{', '.join(missing)} not sampled any more")
            history = self._histories.setdefault(target, ThinnedHistory(self._most))
            history.add(tuple([record[name] for name in names]))

    def tables(self, targets: Iterable[str]) -> dict[str, Table]:
        with self._lock:
            return {
                name: Table(self._names[name], self._histories[name].entries())
                if name in self._names
                else NO_RECORDS
                for name in targets
            }

    @property
    def stride(self) -> int:
        """Return the largest number of records for each kept one."""
        with self._lock:
            return max((history.stride for history in self._histories.values()), default=1)


class Source(Protocol):
    """Targets that are read together, here or elsewhere."""

    @property
    def targets(self) -> Collection[str]:
        """Return the names of the targets."""

    def start(self, interval: float, receive: Callable[[str, Record], object]) -> None:
        """Begin to read; `receive` gets each record with its target's name, from any thread."""

    def require(self) -> None:
        """Raise the error that ended reading, if any."""

    def stop(self) -> None:
        """Read a last time, so that records reach the cell's end. Raises the error that ended reading."""

    def end(self) -> None:
        """Stop without a last reading."""


class LocalTargets:
    """Targets that this process reads at a fixed interval, in a thread; the records of one look have one time.

    A failed look is a missing record. A late look does not shift later ones; missed looks are skipped. `start`, `stop`
    and `require` raise BrokenError if no look succeeds for long (`Looks`).
    """

    def __init__(
        self,
        targets: Mapping[str, Callable[[], Record]],
        failed: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        """`targets` are functions that read a target, in their order; `failed` gets the error that ends reading."""
        self.targets = targets
        self._failed = failed
        self._ended = threading.Event()
        self._failure: Exception | None = None

    def start(self, interval: float, receive: Callable[[str, Record], object]) -> None:
        self._interval = interval
        self._receive = receive
        self._looks = Looks(self._look, interval)
        self._look_until_success()
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)
        self._thread.start()

    def require(self) -> None:
        if self._failure:
            raise self._failure
        self._looks.require_recent("a look at them does not end")

    def stop(self) -> None:
        self.end()
        self.require()
        self._look_until_success()

    def end(self) -> None:
        self.cancel()
        self._thread.join(longest_gap(self._interval))

    def cancel(self) -> None:
        """Stop without waiting for a look that has begun."""
        self._ended.set()

    def _look(self) -> None:
        now = time.monotonic()
        for name, read in self.targets.items():
            self._receive(name, {"time": now, **read()})

    def _look_until_success(self) -> None:
        while not self._looks.attempt():
            time.sleep(PAUSE)

    def _loop(self) -> None:
        due = time.monotonic()
        try:
            while True:
                due = max(due + self._interval, time.monotonic())
                if self._ended.wait(due - time.monotonic()):
                    return
                self._looks.attempt()
        except Exception as error:
            self._failure = error
            self._failed(error)


class Sampler:
    """Collector of the records of local and remote targets within its `with` block, `most` of each target at most.

    Entering it, leaving it, and `readings` within it raise the error that ended reading.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        interval: float,
        most: int = MOST,
        shared: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`shared` is as that of `Readings`."""
        self._sources = sources
        self._interval = interval
        self._shared = shared or {}
        self._histories = Histories(most)
        self._within = False

    def __enter__(self) -> Self:
        for number, source in enumerate(self._sources):
            try:
                source.start(self._interval, self._histories.add)
            except BaseException:
                for started in self._sources[:number]:
                    started.end()
                raise
        self._within = True
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._within = False
        for source in self._sources:
            if kind is None:
                source.stop()
            else:
                source.end()

    @property
    def interval(self) -> float:
        """Return the seconds between readings, which double when a long cell is thinned."""
        return self._interval * self._histories.stride

    def readings(self) -> Readings:
        if self._within:
            for source in self._sources:
                source.require()
        names = [name for source in self._sources for name in source.targets]
        return Readings(self._histories.tables(names), self._shared)
