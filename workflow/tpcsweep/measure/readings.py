# SPDX-License-Identifier: Apache-2.0
"""What is read ten times a second while a cell runs, the series that come of it, and how many of it are kept."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpcsweep.variables import GBIT

Series = dict[str, NDArray[np.float64]]
Entry = TypeVar("Entry")

MOST = 10_000
"""Entries that a history holds at most: 1000 s at ten samples a second, and from then on never fewer than 5000."""
STATES = (
    *("rtt_loaded", "cwnd", "connections", "source_thread", "destination_thread", "client_thread"),
    *("source_waiting", "destination_waiting", "machine_work", "machine_slowed"),
)
"""Fields of a reading that are no counters."""
SECONDS = ("client_cpu", "path_cpu", "machine_pressure", "busy", "rwnd_limited", "sndbuf_limited")
"""Counters of seconds, whose rates are cores or connections."""


class Reading(NamedTuple):
    """One look at all counters. Counters only grow; rates come of two readings."""

    time: float
    """Seconds of CLOCK_MONOTONIC."""
    payload: int
    """Bytes that ever arrived in the destination's files."""
    source_bytes: int
    """Bytes sent by the source side's servers."""
    wire_bytes: int
    """Bytes that left the path on the destination's side."""
    source_cpu: tuple[float, ...]
    """CPU seconds of each source origin."""
    destination_cpu: tuple[float, ...]
    """CPU seconds of each destination origin."""
    client_cpu: float
    """CPU seconds, like the next."""
    path_cpu: float
    machine_busy: float
    """CPU seconds of the machine over all its CPUs, like the next two."""
    machine_steal: float
    machine_total: float
    retransmits: int
    busy: float
    """Connection-seconds in which data connections had something to send, or not yet acknowledged."""
    rwnd_limited: float
    """Of these, those in which the receiver's window kept them from sending."""
    sndbuf_limited: float
    """Of these, those in which their own send buffers did."""
    sent: int
    """Bytes that data connections sent, those sent again included."""
    resent: int
    """Bytes that they sent again."""
    rtt_loaded: float
    """ms, mean over the data connections of this moment; NaN without any. So is the next."""
    cwnd: float
    connections: int
    source_thread: float
    """Cores that the busiest thread of any source origin used lately; NaN at first. So are the next."""
    destination_thread: float
    client_thread: float
    source_waiting: float
    """Threads of the source origins that wait for a disk, a second ago or less."""
    destination_waiting: float
    machine_others: float = math.nan
    """CPU seconds of processes that are not the deployment's, nor the one that measures, to a clock tick. NaN where
    that cannot be known."""
    machine_pressure: float | None = None
    """See `measure.machine.Condition`, as for the next two; None where it is not known."""
    machine_work: float | None = None
    machine_slowed: float | None = None


def sampled_series(readings: list[Reading], interval: float) -> Series:
    """Rates and states at even moments.

    Counters are interpolated between readings, and states are those of the last one. A busy machine leaves the
    sampler waiting, and the rate over the instant between two readings that were late would count as much as that
    over the wait before.

    Returns:
        `time` in s since the first reading, and the others by name, (samples,); `source_origin_cpu` and
        `destination_origin_cpu` are (origins, samples). Throughputs are Gbit/s, CPU is in cores, the machine's in
        shares of all CPU time, retransmits a count for each interval; `busy`, `rwnd_limited` and `sndbuf_limited` are
        how many connections were so, on average over an interval.
    """
    fields = zip(Reading._fields, zip(*readings, strict=True), strict=True)
    columns = {name: np.array(values, dtype=float) for name, values in fields}
    read = columns.pop("time")
    times = _even(read, interval)
    last = np.searchsorted(read, times + 1e-9, side="right") - 1
    counters = ((name, column) for name, column in columns.items() if name not in STATES)
    step = {name: np.diff(_between(times, read, column), axis=0) for name, column in counters}
    # That of an interval is counted in ticks, of which a short one may have none: their mean is what it holds.
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
    """Return the series `goodput` alone, for looks at a cell that goes on."""
    read, payload = np.array([(reading.time, reading.payload) for reading in readings], dtype=float).T
    return np.asarray(np.diff(_between(_even(read, interval), read, payload)) * GBIT / interval)


def mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _even(read: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    """Moments at equal distances, from the first reading to the last. A rounding error must not cost the last."""
    return np.asarray(read[0] + interval * np.arange(math.floor((read[-1] - read[0]) / interval + 1e-6) + 1))


def _between(
    times: NDArray[np.float64], read: NDArray[np.float64], counter: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A counter, (readings,) or (readings, origins), at other times than it was read."""
    if counter.ndim == 1:
        return np.asarray(np.interp(times, read, counter))
    return np.stack([np.interp(times, read, column) for column in counter.T], axis=1)


class ThinnedHistory(Generic[Entry]):
    """Keeps every entry until there are more than `most`; then every second, later every fourth, and so on.

    Of counters that only grow nothing is lost but resolution: a rate between two kept readings is the exact mean
    over the time between them. The first entry is always kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: list[Entry] = []
        self._seen = 0
        self.stride = 1
        """How many entries came for each that is kept: a power of two."""

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
    """Gathers readings while it is entered."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def interval(self) -> float:
        """Seconds between readings; it doubles now and then, so that a long cell fits."""

    def readings(self) -> list[Reading]:
        """Return those so far, at least one and at most `MOST`; raise the error that ended the reading, if any."""


class Sampler:
    """Reads at a fixed interval in a thread of its own, from `with` to its end; keeps `most` readings at most."""

    def __init__(self, read: Callable[[], Reading], interval: float, most: int = MOST) -> None:
        self._read, self._interval = read, interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)
        self._failure: Exception | None = None
        self._history: ThinnedHistory[Reading] = ThinnedHistory(most)

    def __enter__(self) -> Sampler:
        self._history.add(self._read())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def interval(self) -> float:
        return self._interval * self._history.stride

    def readings(self) -> list[Reading]:
        if self._failure:
            raise self._failure
        return self._history.entries()

    def _loop(self) -> None:
        due = self._history.entries()[0].time
        try:
            while True:
                # A late sample does not shift those that follow; what was missed is skipped.
                due = max(due + self._interval, time.monotonic())
                if self._ended.wait(due - time.monotonic()):
                    return
                self._history.add(self._read())
        except Exception as error:
            self._failure = error
