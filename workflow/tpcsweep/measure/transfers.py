# SPDX-License-Identifier: Apache-2.0
"""The single transfers of a cell, as the client, the destination's files and XRootD's monitoring report each.

From these follow how the streams shared and whether XRootD's monitoring agrees (docs/measuring.md).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpcsweep.client.handle import Event
from tpcsweep.measure.files import Arrival
from tpcsweep.xrootd.monitoring import LATE, Copy

MOST_ROWS = 20_000
"""Transfers that a cell's file lists at most; of more it lists every second, third and so on, evenly."""
WHOLE = ("stream", "number", "size", "xrootd_connections", "xrootd_size", "xrootd_code")
"""Columns of whole numbers."""
TIMES = ("start", "first_byte", "end", "xrootd_begin", "xrootd_end")
"""Columns of seconds since the cell's start."""
COLUMNS = (*WHOLE, *TIMES, "ok", "xrootd_direction")
"""All of them; the last two are numbers here and words in a cell's file."""
DIRECTIONS = ("pull", "push")
MONITORED = 0.01
"""XRootD's sum of bytes and that of the files may differ by this share: both count payload, so that they are equal
unless a record is lost."""

Columns = dict[str, NDArray[np.float64]]


class CellTransfers:
    """Rows of the transfers that have ended, in columns: 104 bytes each, as an hour may have 10⁵ of them."""

    def __init__(self, prefix: str, began: float) -> None:
        """`began` is the cell's start by CLOCK_MONOTONIC; the names of its files begin with the prefix."""
        self._prefix, self._began = f"{prefix}.", began
        self._columns = {name: array("d") for name in COLUMNS}
        self._first_ends: dict[float, float] = {}
        """By stream."""
        self._failures: dict[int, str] = {}
        self._waiting: dict[str, int] = {}
        """Rows without a record of XRootD's, by the names of their files, oldest first."""
        self._early: dict[str, Copy] = {}
        """Records whose transfers have not been heard to end."""
        self.exhausted = False
        """Every stream has given up."""
        self.finished = False
        """Every stream that has not given up has transferred all its files."""

    def add(self, event: Event, arrival: Arrival | None = None) -> None:
        """Note an event of the client, with the arrival in the file of a transfer that ended."""
        if event["event"] in ("exhausted", "finished"):
            setattr(self, event["event"], True)
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
        self._first_ends.setdefault(values["stream"], values["end"])
        if event["failure"] is not None:
            self._failures[row] = event["failure"]
        self._waiting[event["name"]] = row
        if early := self._early.pop(event["name"], None):
            self._fill(row, early)
        # Records are lost, or a tool does not copy by third party: the last transfer ended long after these.
        ends = self._columns["end"]
        while ends[-1] - ends[next(iter(self._waiting.values()))] > 2 * LATE:
            del self._waiting[next(iter(self._waiting))]

    def copied(self, copy: Copy) -> None:
        """Note a record of XRootD's; those of other cells, whose copies end late, are ignored."""
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
        """The time by CLOCK_MONOTONIC when the last missing record must have come; -inf if none is missing."""
        end, ok, begin = (self._columns[name] for name in ("end", "ok", "xrootd_begin"))
        missing = (end[row] for row in self._waiting.values() if ok[row] and math.isnan(begin[row]))
        return self._began + max(missing, default=-math.inf) + LATE

    def in_vain(self, streams: int) -> bool:
        """Whether every one of so many streams has given up, or has had one that failed while none has ended well."""
        failed_in = set(self._columns["stream"])
        return self.exhausted or (not any(self._columns["ok"]) and len(failed_in) == streams)

    def stuck(self, streams: int) -> bool:
        """Whether the last that ended has failed in each of so many streams."""
        last = dict(zip(self._columns["stream"], self._columns["ok"], strict=True))
        return len(last) == streams and not any(last.values())

    def first_files(self, streams: int) -> float:
        """The second of the cell at which each of so many streams had ended its first transfer; inf before that."""
        return max(self._first_ends.values()) if len(self._first_ends) == streams else math.inf

    def columns(self) -> Columns:
        """Return all columns; NaN for unknown values."""
        return {name: np.array(values) for name, values in self._columns.items()}

    def seconds(self) -> list[float]:
        """Return the durations of the transfers that ended well."""
        start, end, ok = (self._columns[name] for name in ("start", "end", "ok"))
        return [last - first for first, last, well in zip(start, end, ok, strict=True) if well]

    def messages(self) -> Counter[str]:
        return Counter(self._failures.values())

    def listed(self) -> dict[str, list[Any]]:
        """Return `transfers` of a cell's file: lists of one length, null for unknown values."""
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


def unfinished(present: Mapping[str, Arrival], prefix: str, began: float, end: float) -> Columns:
    """Rows of the transfers that had not ended when the cell did: `stream`, `first_byte`, `end` and `size`. Pure.

    The cell lasted from `began` to `end`, by CLOCK_MONOTONIC. The names of its files begin with the prefix.
    """
    rows = [
        (
            int(name.removeprefix(f"{prefix}.").partition(".")[0]),
            math.nan if arrival.first_byte is None else arrival.first_byte - began,
            end - began,
            arrival.size,
        )
        for name, arrival in present.items()
        if name.startswith(f"{prefix}.")
    ]
    table = np.array(rows, dtype=float).reshape(-1, 4)
    return dict(zip(("stream", "first_byte", "end", "size"), table.T, strict=True))


def fairness(rates: Sequence[float] | NDArray[np.float64]) -> float:
    """Jain's index of what each stream got, in any unit: (Σx)² / (n Σx²); NaN where nobody got anything."""
    shares = np.asarray(rates, dtype=float)
    largest = shares.max(initial=0.0)
    if largest <= 0:
        return math.nan
    shares = shares / largest  # squares of bytes in an hour would lose digits
    return float(shares.sum() ** 2 / (shares.size * (shares**2).sum()))


def stream_bytes(
    ended: Columns, unfinished: Columns, streams: int, begin: float, end: float
) -> NDArray[np.float64]:
    """Bytes that each stream brought to the destination between two moments, (streams,).

    A transfer's bytes count as spread evenly from its first byte to its end, which matters only for those that begin
    or end the span; where nobody saw the first byte, from its `start`, which `unfinished` has not, or from `begin` on.
    """
    brought = np.zeros(streams)
    for rows in (ended, unfinished):
        first, last = rows["first_byte"], rows["end"]
        first = np.where(np.isnan(first), rows.get("start", np.full(first.shape, begin)), first)
        inside = np.minimum(last, end) - np.maximum(first, begin)
        share = np.clip(inside / np.maximum(last - first, 1e-9), 0.0, 1.0)
        np.add.at(brought, rows["stream"].astype(int), rows["size"] * share)
    return brought


def moving(
    ended: Columns,
    unfinished: Columns,
    streams: int,
    times: NDArray[np.float64],
    growth: float,
    ramp: float,
) -> NDArray[np.float64]:
    """Share of the streams' time between successive `times`, (n,), in which files moved at their pace, (n - 1,).

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
    """At each time, the sum of the seconds since those of the moments that have passed."""
    moments = np.sort(moments)
    passed = np.searchsorted(moments, times)
    return np.asarray(passed * times - np.concatenate([[0.0], np.cumsum(moments)])[passed])


def monitored_share(ended: Columns, heard: float) -> float:
    """Bytes of the transfers that ended well by XRootD's monitoring, over the bytes counted in their files.

    Transfers whose record may have been still to come count on neither side, one that should have come as nothing.
    NaN where none came at all: of tools that are no third-party copies by HTTP. Records were heard until `heard`, in s
    since the cell's start.
    """
    told = np.isfinite(ended["xrootd_size"])
    counts = (ended["ok"] > 0) & (told | (ended["end"] <= heard - LATE))
    size = ended["size"][counts].sum()
    if not size or not told[counts].any():
        return math.nan
    return float(np.nansum(ended["xrootd_size"][counts]) / size)


def disagrees(share: float | None) -> bool:
    """Whether a `monitored_share` is another than it should be; not where there is none."""
    return share is not None and abs(share - 1) > MONITORED


def _number(value: float, column: str) -> float | int | None:
    if math.isnan(value):
        return None
    return int(value) if column in WHOLE else value
