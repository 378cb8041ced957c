# SPDX-License-Identifier: Apache-2.0
"""Transfers of a cell, as reported by the client, the destination's files and XRootD's monitoring.

They show how evenly streams shared, and whether XRootD's monitoring agrees (docs/measuring.md).
"""

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpcsweep.deploying.xrootd.monitoring import LATE, Copy
from tpcsweep.measuring.client.client_process import Event
from tpcsweep.measuring.transfer_files import Arrival

MOST_ROWS = 20_000  # most transfers in a cell's file; of more, it lists every second, third and so on
WHOLE = ("stream", "number", "size", "xrootd_connections", "xrootd_size", "xrootd_code")
"""Columns of whole numbers."""
TIMES = ("start", "first_byte", "end", "xrootd_begin", "xrootd_end")
"""Columns of seconds since the cell's start."""
COLUMNS = (*WHOLE, *TIMES, "ok", "xrootd_direction")
"""All columns; the last two are numbers here and words in a cell's file."""
DIRECTIONS = ("pull", "push")
Columns = dict[str, NDArray[np.float64]]


class CellTransfers:
    """Rows of ended transfers, stored as columns of 104 bytes a row, because an hour may have 10⁵ of them."""

    def __init__(self, prefix: str, began: float, streams: int) -> None:
        """`began` is the cell's start by CLOCK_MONOTONIC; `prefix` is the start of its file names."""
        self._prefix, self._began, self._streams = f"{prefix}.", began, streams
        self._columns = {name: array("d") for name in COLUMNS}
        # By stream: its first byte, the first and the last end of a file.
        self._first_bytes: dict[float, float] = {}
        self._first_ends: dict[float, float] = {}
        self._last_ends: dict[float, float] = {}
        self._followed = False
        self._failures: dict[int, str] = {}
        self._waiting: dict[str, int] = {}  # rows without a record of XRootD, by file name, oldest first
        self._early: dict[str, Copy] = {}  # records of transfers whose end is not yet known
        self._waits: list[tuple[float, float]] = []  # of streams for doors that asked for a pause
        self._unfinished: Columns = {}  # transfers that ran when the cell ended
        self._duration = self._monitored_until = 0.0  # s since the cell's start
        self.exhausted = False  # whether every stream has given up
        self.finished = False  # whether every stream that has not given up has transferred all its files

    def add(self, event: Event, arrival: Arrival | None = None) -> None:
        """Record an event of the client, with the arrival if a transfer ended."""
        if event["event"] in ("exhausted", "finished"):
            setattr(self, event["event"], True)
        elif event["event"] == "waited":
            self._waits.append((event["start"] - self._began, event["end"] - self._began))
        elif event["event"] == "end":
            self._end(event, arrival or Arrival(None, 0))

    def _end(self, event: Event, arrival: Arrival) -> None:
        row = len(self._columns["stream"])
        values = {
            **dict.fromkeys(COLUMNS, math.nan),
            "stream": event["stream"],
            "number": event["number"],
            "start": self._since(event["start"]),
            "first_byte": self._since(math.nan if arrival.first_byte is None else arrival.first_byte),
            "end": self._since(event["end"]),
            "size": arrival.size,
            "ok": event["failure"] is None,
        }
        for name, value in values.items():
            self._columns[name].append(value)
        self._note_first_byte(values["stream"], values["first_byte"])
        self._followed |= event.get("followed", False)
        if values["ok"]:
            self._first_ends.setdefault(values["stream"], values["end"])
            self._last_ends[values["stream"]] = values["end"]
        if event["failure"] is not None:
            self._failures[row] = event["failure"]
        self._waiting[event["name"]] = row
        if early := self._early.pop(event["name"], None):
            self._fill(row, early)
        # Records are lost, or the tool makes no third-party copies: the last transfer ended long after these.
        ends = self._columns["end"]
        while ends[-1] - ends[next(iter(self._waiting.values()))] > 2 * LATE:
            del self._waiting[next(iter(self._waiting))]

    def add_copy(self, copy: Copy) -> None:
        """Record a copy reported by XRootD; late copies of other cells are ignored."""
        if not copy.name.startswith(self._prefix) or copy.begin < self._began:
            return
        if copy.name in self._waiting:
            self._fill(self._waiting[copy.name], copy)
        else:
            self._early[copy.name] = copy

    def _fill(self, row: int, copy: Copy) -> None:
        values = {
            "xrootd_begin": self._since(copy.begin),
            "xrootd_end": self._since(copy.end),
            "xrootd_connections": copy.connections,
            "xrootd_size": copy.size,
            "xrootd_code": copy.code,
            "xrootd_direction": DIRECTIONS.index(copy.direction),
        }
        for name, value in values.items():
            self._columns[name][row] = value

    @property
    def overdue(self) -> float:
        """CLOCK_MONOTONIC time by which the last missing record must have arrived; -inf if none is missing."""
        end, ok, begin = (self._columns[name] for name in ("end", "ok", "xrootd_begin"))
        missing = (end[row] for row in self._waiting.values() if ok[row] and math.isnan(begin[row]))
        return self._began + max(missing, default=-math.inf) + LATE

    @property
    def all_failed(self) -> bool:
        """Whether all streams gave up, or each had a failure and no transfer succeeded."""
        failed_in = set(self._columns["stream"])
        return self.exhausted or (not any(self._columns["ok"]) and len(failed_in) == self._streams)

    @property
    def last_failed(self) -> bool:
        """Whether the last ended transfer of each stream failed."""
        last = dict(zip(self._columns["stream"], self._columns["ok"], strict=True))
        return len(last) == self._streams and not any(last.values())

    def _note_first_byte(self, stream: float, moment: float) -> None:
        if math.isfinite(moment):
            self._first_bytes.setdefault(stream, moment)

    @property
    def first_byte(self) -> float:
        """Second of the cell at which the last of the streams had its first byte; NaN if none was seen."""
        return max(self._first_bytes.values(), default=math.nan)

    @property
    def cycle(self) -> float:
        """Mean seconds between ends of successive files of a stream, or until those of first ones; NaN without."""
        ended, first, last = sum(self._columns["ok"]), self._first_ends.values(), self._last_ends.values()
        if ended > len(first):
            return (sum(last) - sum(first)) / (ended - len(first))
        return sum(first) / ended if ended else math.nan

    @property
    def whole_files(self) -> bool:
        """Whether nothing is known of files but their ends."""
        return not (self._first_bytes or self._followed)

    def rounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return seconds and bytes of the k-th files of all streams, (streams, rounds), from the second file on."""
        rows = self._ended()
        well = rows["ok"] > 0
        files = [well & (rows["stream"] == stream) for stream in range(self._streams)]
        count = max(min(int(one.sum()) for one in files) - 1, 0)
        seconds = [np.diff(rows["end"][one])[:count] for one in files]
        sizes = [rows["size"][one][1 : count + 1] for one in files]
        shape = (self._streams, count)
        return np.array(seconds).reshape(shape), np.array(sizes).reshape(shape)

    def cut(self, ended: float, present: Mapping[str, Arrival] = MappingProxyType({})) -> None:
        """Record the cell's end by CLOCK_MONOTONIC, and the arrivals by file name of transfers that still ran."""
        self._duration = self._monitored_until = ended - self._began
        rows = [
            (
                int(name.removeprefix(self._prefix).partition(".")[0]),
                math.nan if arrival.first_byte is None else arrival.first_byte - self._began,
                self._duration,
                arrival.size,
            )
            for name, arrival in present.items()
            if name.startswith(self._prefix)
        ]
        begun = set(self._columns["stream"])
        for stream, first_byte, *_ in rows:
            if stream not in begun:  # otherwise it had its first byte in an earlier file, seen or not
                self._note_first_byte(stream, first_byte)
        table = np.array(rows, dtype=float).reshape(-1, 4)
        self._unfinished = dict(zip(("stream", "first_byte", "end", "size"), table.T, strict=True))

    def end_monitoring(self, moment: float) -> None:
        """Record the time by CLOCK_MONOTONIC until which records of XRootD's monitoring were received."""
        self._monitored_until = moment - self._began

    def summary(self, warmup: float, *, files: bool) -> dict[str, float]:
        """Return the figures of transfers after the cell's end; NaN if unknown.

        `warmup` is in s. Without `files`, transfers deliver to memory and end with the cell.
        """
        ended = self._ended()
        ok = ended["ok"] > 0
        counted = np.count_nonzero(ok & (ended["end"] > warmup))
        brought = stream_bytes(ended, self._unfinished, self._streams, warmup, self._duration)
        return {
            "fairness": fairness(brought),
            "length_files": counted / self._streams if files else math.nan,
            "transfers": int(ok.sum()),
            "transfers_failed": int((~ok).sum()),
            "waited_share": self._waited_share(),
            "outside_copy": _mean(outside_copy(ended)),
            "xrootd_transfers": int((ended["xrootd_code"] == 0).sum()),
            "xrootd_share": monitored_share(ended, self._monitored_until),
        }

    def _waited_share(self) -> float:
        """Return the share of the streams' time in which they waited for doors that asked for a pause."""
        waited = sum(max(0.0, min(end, self._duration) - start) for start, end in self._waits)
        return waited / (self._streams * self._duration) if self._duration else math.nan

    def moving(self, times: NDArray[np.float64], growth: float, ramp: float) -> NDArray[np.float64]:
        """Return the `moving_share` of the streams between `times`, in s since the cell's start."""
        return moving_share(self._ended(), self._unfinished, self._streams, times, growth, ramp)

    def _ended(self) -> Columns:
        """Return all columns; NaN for unknown values."""
        return {name: np.array(values) for name, values in self._columns.items()}

    def seconds(self) -> list[float]:
        start, end, ok = (self._columns[name] for name in ("start", "end", "ok"))
        return [last - first for first, last, well in zip(start, end, ok, strict=True) if well]

    def most_frequent_message(self) -> str:
        """Return the most frequent message of failed transfers, with its number; "" without any."""
        for message, times in Counter(self._failures.values()).most_common(1):
            return f"{times} × {message}" if times > 1 else message
        return ""

    def to_columns(self) -> dict[str, list[Any]]:
        """Return `transfers` of a cell's file: lists of equal length, null for unknown values."""
        count = len(self._columns["stream"])
        rows = range(0, count, max(1, math.ceil(count / MOST_ROWS)))
        listed: dict[str, list[Any]] = {
            name: [_number(values[row], name) for row in rows] for name, values in self._columns.items()
        }
        listed["ok"] = [bool(value) for value in listed["ok"]]
        directions = listed["xrootd_direction"]
        listed["xrootd_direction"] = ["" if value is None else DIRECTIONS[int(value)] for value in directions]
        listed["message"] = [self._failures.get(row, "") for row in rows]
        return listed

    def _since(self, moment: float) -> float:
        return round(moment - self._began, 4)


def fairness(rates: Sequence[float] | NDArray[np.float64]) -> float:
    """Return Jain's index (Σx)² / (n Σx²) of the streams' amounts in any unit; NaN if all are zero."""
    shares = np.asarray(rates, dtype=float)
    largest = shares.max(initial=0.0)
    if largest <= 0:
        return math.nan
    shares = shares / largest  # squares of an hour's bytes would lose digits
    return float(shares.sum() ** 2 / (shares.size * (shares**2).sum()))


def stream_bytes(
    ended: Columns, unfinished: Columns, streams: int, begin: float, end: float
) -> NDArray[np.float64]:
    """Return the bytes that each stream delivered between two times, (streams,).

    A transfer's bytes are spread evenly from its first byte to its end, which matters only for transfers that cross a
    boundary. If the first byte was not observed, its `start` counts instead, or `begin` for unfinished transfers, which
    have no start.
    """
    brought = np.zeros(streams)
    for rows in (ended, unfinished):
        first, last = rows["first_byte"], rows["end"]
        first = np.where(np.isnan(first), rows.get("start", np.full(first.shape, begin)), first)
        inside = np.minimum(last, end) - np.maximum(first, begin)
        share = np.clip(inside / np.maximum(last - first, 1e-9), 0.0, 1.0)
        np.add.at(brought, rows["stream"].astype(int), rows["size"] * share)
    return brought


def moving_share(
    ended: Columns,
    unfinished: Columns,
    streams: int,
    times: NDArray[np.float64],
    growth: float,
    ramp: float,
) -> NDArray[np.float64]:
    """Return the share of the streams' time in which files moved at full pace, for each interval.

    A file reaches its pace `growth` seconds after its first byte, when its window has grown, and keeps it until XRootD
    has finished it or its transfer ends. A file whose first byte nobody saw, as servers write small files at once,
    reaches its pace `ramp` seconds after its start, the time of handshakes included; an unfinished one with bytes has
    it from the first of the times.
    """
    elapsed = np.zeros(times.size)
    for rows in (ended, unfinished):
        first, last = rows["first_byte"], np.fmin(rows["end"], rows.get("xrootd_end", rows["end"]))
        begun = rows["start"] + ramp if "start" in rows else times[0]
        unseen = np.where(rows["size"] > 0, begun, last)
        first = np.minimum(np.where(np.isnan(first), unseen, first + growth), last)
        elapsed += _seconds_since(first, times) - _seconds_since(last, times)
    return np.asarray(np.clip(np.diff(elapsed) / np.diff(times) / streams, 0.0, 1.0))


def _seconds_since(moments: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each time the sum of the seconds since all earlier moments."""
    moments = np.sort(moments)
    passed = np.searchsorted(moments, times)
    return np.asarray(passed * times - np.concatenate([[0.0], np.cumsum(moments)])[passed])


def monitored_share(ended: Columns, until: float) -> float:
    """Return the bytes of successful transfers by XRootD's monitoring over the bytes in their files.

    Transfers whose record may still arrive are excluded; a record that should have arrived counts as 0 bytes. The
    result is NaN if no record arrived, as for tools that make no third-party copies by HTTP. Records were received
    `until`, in s since the cell's start.
    """
    recorded = np.isfinite(ended["xrootd_size"])
    counts = (ended["ok"] > 0) & (recorded | (ended["end"] <= until - LATE))
    size = ended["size"][counts].sum()
    if not size or not recorded[counts].any():
        return math.nan
    return float(np.nansum(ended["xrootd_size"][counts]) / size)


def outside_copy(ended: Columns) -> NDArray[np.float64]:
    """Return the seconds of each successful transfer before and after XRootD's copy, by its monitoring."""
    outside = (ended["end"] - ended["start"]) - (ended["xrootd_end"] - ended["xrootd_begin"])
    return np.asarray(outside[(ended["ok"] > 0) & np.isfinite(outside)])


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _number(value: float, column: str) -> float | int | None:
    if math.isnan(value):
        return None
    return int(value) if column in WHOLE else value
