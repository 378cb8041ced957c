# SPDX-License-Identifier: Apache-2.0
"""Bytes that arrived, by completed files and performance markers, and the doors whose markers are believed. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from tpcsweep.measuring.client.client_process import Event

LEAD = 1.5
"""Bytes of a file's last marker, over those of an even arrival, from which a door's markers are not believed.
Real rates change less over a file; the median over a door's files counts."""
AHEAD = 1.1, 1 << 20
"""Factor and bytes by which a marker may exceed the size that the door reports later for the same file."""


class Span(NamedTuple):
    """A transfer or a part of it in CLOCK_MONOTONIC time, with the number of arrived bytes."""

    stream: int
    start: float
    end: float
    size: int


def arrived(times: np.ndarray[Any, Any], spans: list[Span]) -> np.ndarray[Any, Any]:
    """Return the bytes that had arrived at `times`, (times,); the bytes of each span arrive evenly."""
    if not spans:
        return np.zeros(len(times))
    table = np.array(spans, dtype=float)
    starts, ends = table[:, 1], np.maximum(table[:, 2], table[:, 1] + 1e-6)
    rates = table[:, 3] / (ends - starts)
    edges, changes = np.concatenate([starts, ends]), np.concatenate([rates, -rates])
    order = np.argsort(edges, kind="stable")
    edges, rate = edges[order], np.cumsum(changes[order])
    grown = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(edges))])
    return np.asarray(np.interp(times, edges, grown))


def known_until(spans: list[Span], streams: int) -> float:
    """Return the time until which the bytes of all streams are known.

    It is the smallest end time of the streams' last spans, because later bytes are not yet visible; -inf until every
    stream has one.
    """
    last: dict[int, float] = {}
    for span in spans:
        last[span.stream] = max(span.end, last.get(span.stream, -math.inf))
    return min(last.values()) if len(last) == streams else -math.inf


def split(spans: list[Span], markers: Iterable[Event], size: int) -> list[Span]:
    """Return the parts of transfers between performance markers, and those under way until their last marker.

    A failed transfer remains whole, without bytes. No marker counts more than the `size` of the files.
    """
    points: dict[tuple[int, float], list[tuple[float, int]]] = defaultdict(list)
    for marker in markers:
        points[marker["stream"], marker["start"]].append((marker["time"], min(marker["bytes"], size)))
    for span in spans:
        known = points[span.stream, span.start]
        known[:] = [*(known if span.size else ()), (span.end, span.size)]
    return [
        Span(stream, begin, end, after - before)
        for (stream, start), known in points.items()
        for (begin, before), (end, after) in pairwise([(start, 0), *known])
    ]


class Markers:
    """The performance markers of a cell by door, and what is known about those doors in a deployment.

    A door is believed after a completed file, or a size that the destination reports for a file under way, agrees with
    its markers; one that claims more than that is not believed again.
    """

    def __init__(self) -> None:
        self.all: list[Event] = []
        """Markers of the cell, which the client's listener adds."""
        self._agreeing: set[str] = set()
        self._refuted: dict[str, str] = {}
        self._unseen: set[str] = set()

    def begin_cell(self) -> None:
        self.all.clear()
        self._unseen.clear()

    def believed(self, doors: Mapping[int, str], *, strict: bool) -> list[Event]:
        """Return the markers of doors that are not refuted, or with `strict` of confirmed doors.

        `doors` are the URLs that send the markers of each stream.
        """
        return [
            marker
            for marker in list(self.all)
            if (door := doors[marker["stream"]]) not in self._refuted
            and (not strict or door in self._agreeing)
        ]

    def compare(self, doors: Mapping[int, str], spans: Iterable[Span], size: int) -> None:
        """Compare the markers with the cell's completed files, which have `size` bytes."""
        last: dict[tuple[int, float], Event] = {}
        for marker in list(self.all):
            if marker["bytes"] > size:
                self._refute(
                    doors[marker["stream"]], f"one claims {marker['bytes']} bytes of a file of {size}"
                )
            last[marker["stream"], marker["start"]] = marker
        leads: dict[str, list[float]] = defaultdict(list)
        for span in spans:
            if span.size and (known := last.get((span.stream, span.start))):
                even = (known["time"] - span.start) / max(span.end - span.start, 1e-6)
                leads[doors[span.stream]].append(known["bytes"] / span.size / max(even, 1e-6))
        for door, found in leads.items():
            if (lead := median(found)) > LEAD:
                self._refute(door, f"they are {lead:.1f} times ahead of the files that it completed")
            else:
                self._agreeing.add(door)

    def open_questions(self, doors: Mapping[int, str], spans: Iterable[Span]) -> dict[str, Event]:
        """Return the largest marker of a file under way for each door that is neither confirmed nor refuted."""
        ended = {(span.stream, span.start) for span in spans}
        largest: dict[str, Event] = {}
        for marker in self.believed(doors, strict=False):
            door = doors[marker["stream"]]
            if door in self._agreeing or (marker["stream"], marker["start"]) in ended:
                continue
            if door not in largest or marker["bytes"] > largest[door]["bytes"]:
                largest[door] = marker
        return largest

    def confirm(self, door: str, marker: Event, reported: int | None) -> None:
        """Compare a marker with the size that the destination reports later; None, -1 and 0 if it hides the size."""
        factor, more = AHEAD
        if reported is None or reported <= 0:
            self._unseen.add(door)
        elif marker["bytes"] > factor * reported + more:
            self._refute(door, f"one claims {marker['bytes']} bytes of a file that has {reported} there")
        else:
            self._agreeing.add(door)

    def _refute(self, door: str, words: str) -> None:
        self._refuted.setdefault(door, words)

    def doubts(self, doors: Mapping[int, str]) -> list[str]:
        """Return the reasons why markers of the cell do not count; see `believed` for `doors`."""
        seen = dict.fromkeys(doors[marker["stream"]] for marker in list(self.all))
        hidden = "none of its files was completed, and the destination reports no size of a file under way"
        why = {**dict.fromkeys(self._unseen - self._agreeing, hidden), **self._refuted}
        return [f"performance markers of {door} do not count: {why[door]}" for door in seen if door in why]
