"""What is read ten times a second while a cell runs, and the series that come of it. Pure but for `Sampler`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tpcsweep.measure.history import MOST, History
from tpcsweep.rates import GBIT

Series = dict[str, NDArray[np.float64]]

STATES = (
    "rtt_loaded",
    "cwnd",
    "connections",
    "source_thread",
    "destination_thread",
    "client_thread",
    "source_waiting",
    "destination_waiting",
    "machine_work",
    "machine_slowed",
)
"""Fields of a reading that are no counters."""


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
    machine_pressure: float = math.nan
    """Seconds in which some process of the machine waited for a CPU; NaN where the kernel does not say."""
    machine_work: float = math.nan
    """ms of CPU time that a fixed piece of work took lately: see `measure.machine`."""
    machine_slowed: float = math.nan
    """Share by which that is longer than when the machine was fastest in this deployment; NaN at first."""


def series(readings: list[Reading], interval: float) -> Series:
    """Rates and states every `interval` seconds, and `time`, s since the first reading: arrays of one length.

    Counters are interpolated between readings, and states are those of the last one. A busy machine leaves the
    sampler waiting, and the rate over the instant between two readings that were late would count as much as that
    over the wait before. Throughputs are Gbit/s, CPU is in cores, the machine's in shares, retransmits a count for
    each interval, and `busy`, `rwnd_limited` and `sndbuf_limited` how many connections were so, on average over an
    interval. `source_origin_cpu` and `destination_origin_cpu` have a row for each origin.
    """
    columns = {
        name: np.array([getattr(reading, name) for reading in readings], dtype=float)
        for name in Reading._fields
    }
    read = columns.pop("time")
    times = _even(read, interval)
    last = np.searchsorted(read, times + 1e-9, side="right") - 1
    step = {
        name: np.diff(_between(times, read, column), axis=0)
        for name, column in columns.items()
        if name not in STATES
    }
    total = np.maximum(step["machine_total"], 1e-9)
    return {
        "time": times[1:] - times[:1],
        "goodput": step["payload"] * GBIT / interval,
        "source_throughput": step["source_bytes"] * GBIT / interval,
        "wire_throughput": step["wire_bytes"] * GBIT / interval,
        **_cores("source", step["source_cpu"], interval),
        **_cores("destination", step["destination_cpu"], interval),
        "client_cpu": step["client_cpu"] / interval,
        "path_cpu": step["path_cpu"] / interval,
        "machine_cpu": step["machine_busy"] / total,
        "machine_steal": step["machine_steal"] / total,
        "machine_others": step["machine_others"] / total,
        "machine_pressure": step["machine_pressure"] / interval,
        "retransmits": step["retransmits"],
        "sent": step["sent"] * GBIT / interval,
        "resent": step["resent"] * GBIT / interval,
        **{name: step[name] / interval for name in ("busy", "rwnd_limited", "sndbuf_limited")},
        **{name: columns[name][last[1:]] for name in STATES},
    }


def goodput(readings: list[Reading], interval: float) -> NDArray[np.float64]:
    """The series of that name alone, for looks at a cell that goes on."""
    read, payload = np.array([(reading.time, reading.payload) for reading in readings], dtype=float).T
    return np.asarray(np.diff(_between(_even(read, interval), read, payload)) * GBIT / interval)


def mean(values: NDArray[np.float64]) -> float:
    """Of those that are known; NaN of nothing."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _even(read: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    """Moments at the same distance, from the first reading to the last. A rounding error must not cost the last."""
    return np.asarray(read[0] + interval * np.arange(math.floor((read[-1] - read[0]) / interval + 1e-6) + 1))


def _between(
    times: NDArray[np.float64], read: NDArray[np.float64], counter: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A counter at other times than it was read; counter: (readings,) or (readings, origins)."""
    if counter.ndim == 1:
        return np.asarray(np.interp(times, read, counter))
    return np.stack([np.interp(times, read, one) for one in counter.T], axis=1)


def _cores(side: str, seconds: NDArray[np.float64], interval: float) -> Series:
    """CPU of a side: together, and of each of its origins. seconds: (intervals, origins)."""
    each = seconds.T / interval
    return {f"{side}_cpu": each.sum(axis=0), f"{side}_origin_cpu": each}


class Readings(Protocol):
    """What gathers readings while it is entered."""

    def __enter__(self) -> Self:
        """Begin, with a reading at least."""

    def __exit__(self, *_: object) -> None:
        """End."""

    @property
    def interval(self) -> float:
        """Seconds between those that `readings` gives; it doubles now and then, so that a long cell fits."""

    def readings(self) -> list[Reading]:
        """Those so far, at least one and never more than `MOST`. Raises what reading met, if it met something."""


class Sampler:
    """Reads at a fixed interval in a thread of its own, from `with` to its end; keeps `most` readings at most."""

    def __init__(self, read: Callable[[], Reading], interval: float, most: int = MOST) -> None:
        self._read = read
        self._interval = interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)
        self._failure: Exception | None = None
        self._history: History[Reading] = History(most)

    def __enter__(self) -> Sampler:
        self._history.add(self._read())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def interval(self) -> float:
        """Seconds between the readings that are kept."""
        return self._interval * self._history.stride

    def readings(self) -> list[Reading]:
        """Those so far that are kept. Raises what the reading thread met, if it met something."""
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
