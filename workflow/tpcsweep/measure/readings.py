# SPDX-License-Identifier: Apache-2.0
"""Readings of counters ten times a second, the time series from them, and thinning of long ones."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpcsweep.errors import BrokenError
from tpcsweep.measure.looks import PAUSE, Looks, longest_gap
from tpcsweep.variables import GBIT

Series = dict[str, NDArray[np.float64]]
Entry = TypeVar("Entry")

MOST = 10_000  # most entries of a history: 1000 s at ten samples a second; after thinning at least 5000
STATES = (
    *("rtt_loaded", "cwnd", "connections", "source_thread", "destination_thread", "client_thread"),
    *("source_waiting", "destination_waiting", "machine_work", "machine_slowed"),
)
"""Fields of a reading that are not counters."""
SECONDS = ("client_cpu", "path_cpu", "machine_pressure", "busy", "rwnd_limited", "sndbuf_limited")
"""Counters of seconds, whose rates are cores or connections."""


class Reading(NamedTuple):
    """One reading of all counters. Counters only grow; two readings give a rate."""

    time: float  # seconds of CLOCK_MONOTONIC
    payload: int  # bytes that ever arrived in the destination's files
    source_bytes: int  # bytes sent by the source side's servers
    wire_bytes: int  # bytes that left the path on the destination's side
    source_cpu: tuple[float, ...]  # CPU seconds of each source origin
    destination_cpu: tuple[float, ...]  # CPU seconds of each destination origin
    client_cpu: float  # CPU seconds, like the next
    path_cpu: float
    machine_busy: float  # CPU seconds of the machine over all its CPUs, like the next two
    machine_steal: float
    machine_total: float
    retransmits: int
    busy: float  # connection-seconds with data to send, or not yet acknowledged
    rwnd_limited: float  # part of `busy` in which the receiver's window limited sending
    sndbuf_limited: float  # part of `busy` in which the send buffer limited sending
    sent: int  # bytes that data connections sent, including retransmissions
    resent: int  # retransmitted bytes
    rtt_loaded: float  # ms, mean over current data connections, NaN without any; likewise `cwnd`
    cwnd: float
    connections: int
    source_thread: float
    """Cores recently used by the busiest thread of any source origin, NaN at first; likewise the next two."""
    destination_thread: float
    client_thread: float
    source_waiting: float  # threads of the source origins that wait for a disk, at most a second old
    destination_waiting: float
    machine_others: float = math.nan
    """CPU seconds of processes outside deployment and measurement, to a clock tick; NaN if unknown."""
    machine_pressure: float | None = None
    """Values of `measure.machine.Condition`, like the next two, or None if unknown."""
    machine_work: float | None = None
    machine_slowed: float | None = None


def sampled_series(readings: list[Reading], interval: float) -> Series:
    """Return rates and states at even times.

    Counters are interpolated between readings; states are those of the last reading. Without interpolation, a late
    reading on a busy machine would give the short interval after it the same weight as the long one before it.

    Returns:
        `time` in s since the first reading, and the other series by name, (samples,); `source_origin_cpu` and
            `destination_origin_cpu` are (origins, samples). Throughputs are Gbit/s, CPU is in cores, the machine's in
            shares of all CPU time, retransmits a count for each interval; `busy`, `rwnd_limited` and `sndbuf_limited`
            are mean numbers of such connections in an interval.
    """
    fields = zip(Reading._fields, zip(*readings, strict=True), strict=True)
    columns = {name: np.array(values, dtype=float) for name, values in fields}
    read = columns.pop("time")
    times = even_times(read[0], read[-1], interval)
    last = np.searchsorted(read, times + 1e-9, side="right") - 1
    counters = ((name, column) for name, column in columns.items() if name not in STATES)
    # Columns of counters are (readings,) or (readings, origins).
    between = partial(np.apply_along_axis, partial(np.interp, times, read), 0)
    step = {name: np.diff(between(column), axis=0) for name, column in counters}
    # The total of an interval is counted in ticks, of which a short one may have none; the mean is exact.
    total = mean(step["machine_total"]) or math.nan
    return {
        "time": times[1:] - times[:1],
        "goodput": step["payload"] * GBIT / interval,
        "source_throughput": step["source_bytes"] * GBIT / interval,
        "wire_throughput": step["wire_bytes"] * GBIT / interval,
        **{name: step[name].sum(axis=1) / interval for name in ("source_cpu", "destination_cpu")},
        **{f"{side}_origin_cpu": step[f"{side}_cpu"].T / interval for side in ("source", "destination")},
        **{name: step[name] / interval for name in SECONDS},
        "machine_cpu": step["machine_busy"] / total,
        "machine_steal": step["machine_steal"] / total,
        "machine_others": step["machine_others"] / total,
        "retransmits": step["retransmits"],
        "sent": step["sent"] * GBIT / interval,
        "resent": step["resent"] * GBIT / interval,
        **{name: columns[name][last[1:]] for name in STATES},
    }


def goodput(readings: list[Reading], interval: float) -> NDArray[np.float64]:
    """Return only the series `goodput`, for looks at a running cell."""
    read, payload = np.array([(reading.time, reading.payload) for reading in readings], dtype=float).T
    arrived = np.interp(even_times(read[0], read[-1], interval), read, payload)
    return np.asarray(np.diff(arrived) * GBIT / interval)


def mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def even_times(first: float, last: float, interval: float) -> NDArray[np.float64]:
    """Return evenly spaced times from the first to the last one, despite a rounding error at the end."""
    return np.asarray(first + interval * np.arange(math.floor((last - first) / interval + 1e-6) + 1))


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


class Readings(Protocol):
    """Context manager that collects readings."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def interval(self) -> float:
        """Seconds between readings; doubles when a long cell is thinned."""

    def readings(self) -> list[Reading]:
        """Return 1 to `MOST` readings so far; within `with` raise the error that ended reading, if any."""


@contextlib.contextmanager
def counters_read() -> Iterator[None]:
    """Raise BrokenError for OSError, because a part of the deployment is gone if its counters are."""
    try:
        yield
    except OSError as error:
        raise BrokenError(f"counters: {error}") from error


class Sampler:
    """Reader at a fixed interval in a thread, within its `with` block; keeps `most` readings at most.

    A failed look is a missing reading. Leaving the block reads a last time, so that readings reach the cell's end.
    Entering it, leaving it, and `readings` within it raise the error that ended reading (`Looks`).
    """

    def __init__(self, read: Callable[[], Reading], interval: float, most: int = MOST) -> None:
        self._interval = interval
        self._history: ThinnedHistory[Reading] = ThinnedHistory(most)
        self._look = lambda: self._history.add(read())
        self._ended = threading.Event()
        self._ended.set()
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._looks = Looks(self._look, self._interval)
        self._look_until_success()
        self._ended.clear()
        self._thread.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._ended.set()
        self._thread.join(longest_gap(self._interval))
        if kind is None:
            self._require()
            self._look_until_success()

    @property
    def interval(self) -> float:
        return self._interval * self._history.stride

    def readings(self) -> list[Reading]:
        if not self._ended.is_set():
            self._require()
        return self._history.entries()

    def _require(self) -> None:
        if self._failure:
            raise self._failure
        self._looks.require_recent("a look at them does not end")

    def _look_until_success(self) -> None:
        while not self._looks.attempt():
            time.sleep(PAUSE)

    def _loop(self) -> None:
        due = self._history.entries()[0].time
        try:
            while True:
                # A late sample does not shift later ones; missed samples are skipped.
                due = max(due + self._interval, time.monotonic())
                if self._ended.wait(due - time.monotonic()):
                    return
                self._looks.attempt()
        except Exception as error:
            self._failure = error
