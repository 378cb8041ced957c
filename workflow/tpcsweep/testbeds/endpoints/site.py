# SPDX-License-Identifier: Apache-2.0
"""The site of endpoints. Only completed files and performance markers are visible to measurements from outside."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.numbers import BYTES
from tpcsweep.common.urls import MadeFolder
from tpcsweep.measuring.client.client_process import Channel, Event
from tpcsweep.measuring.machine import Machine
from tpcsweep.measuring.sampler import LocalTargets, Readings, Sampler, Table, Totals
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.endpoints import secrets
from tpcsweep.testbeds.endpoints.arrivals import Arrivals, ArrivalsClient
from tpcsweep.testbeds.endpoints.doors import BLOCK, DoorError, Doors
from tpcsweep.testbeds.endpoints.ledger import LINGER
from tpcsweep.testbeds.endpoints.local import local_path
from tpcsweep.testbeds.endpoints.settings import EndpointPair, Login
from tpcsweep.testbeds.endpoints.spending import Spending
from tpcsweep.testbeds.node.program_counters import Target


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


def split(spans: list[Span], markers: Iterable[Event]) -> list[Span]:
    """Return the parts of transfers between performance markers, and those under way until their last marker.

    A failed transfer remains whole, without bytes.
    """
    points: dict[tuple[int, float], list[tuple[float, int]]] = defaultdict(list)
    for marker in markers:
        points[marker["stream"], marker["start"]].append((marker["time"], marker["bytes"]))
    for span in spans:
        known = points[span.stream, span.start]
        known[:] = [
            *((time, min(count, span.size)) for time, count in known if span.size),
            (span.end, span.size),
        ]
    return [
        Span(stream, begin, end, after - before)
        for (stream, start), known in points.items()
        for (begin, before), (end, after) in pairwise([(start, 0), *known])
    ]


class OutsideSampler(Sampler):
    """Sampler of the client's machine, with byte counts from completed files and performance markers."""

    def __init__(self, site: EndpointsSite, interval: float) -> None:
        super().__init__([LocalTargets({"client": Target(site.machine).read})], interval)
        self._site = site

    def readings(self) -> Readings:
        """Return the readings until `known_until`; before that time is known, all readings without bytes."""
        read, spans = super().readings(), split(self._site.spans, list(self._site.markers))
        limit = known_until(spans, self._site.streams)
        names, rows = read.tables["client"]
        if math.isfinite(limit):
            rows = [row for row in rows if row[0] <= limit] or rows[:1]
        times = np.array([row[0] for row in rows])
        payload = arrived(times, spans) if math.isfinite(limit) else np.zeros(times.size)
        files = Table(("time", "goodput"), list(zip(times.tolist(), payload.tolist(), strict=True)))
        return Readings({"client": Table(names, rows), "destination": files})


@dataclass(kw_only=True)
class EndpointsSite:
    """A pair of endpoints; see `measuring.cell.Site`."""

    pair: EndpointPair
    made: Mapping[str, MadeFolder]
    """tpcsweep's own folders by role; streams use them through each door in turn."""
    doors: Mapping[str, Doors]
    channel: Channel
    process: subprocess.Popen[bytes]
    private: Path
    logins: dict[str, Login]
    spending: Spending
    provenance: dict[str, Any]
    rtt_idle: float = math.nan  # the declared RTT in ms; NaN if unknown
    streams: int = 1
    spans: list[Span] = field(default_factory=list)  # ended transfers of the cell
    markers: list[Event] = field(default_factory=list)
    """Performance markers of the cell, which the client's listener adds."""
    bandwidth_found: float | None = None
    path_slow: bool = False
    client_cores: float = math.nan
    _size: int = 0
    _files: int | None = None
    _began: float = math.inf
    _problems: list[str] = field(default_factory=list)
    machine: Machine = field(default_factory=Machine)

    def __post_init__(self) -> None:
        """Wait until the client is ready. Raises ClientError."""
        self._arrivals = Arrivals(self.doors["destination"])
        self._client = ArrivalsClient(self.channel, self.markers.append, self._look)

    def begin(self, wanted: Parameters, files: int | None) -> None:
        """Prepare a cell: renew tokens, and forget the previous cell's transfers."""
        try:
            secrets.renew(self.private, self.logins)
        except secrets.CredentialError as error:
            raise BrokenError(str(error)) from error
        self.streams, self._size, self._files, self.spans = wanted.streams, wanted.file_size, files, []
        self.markers.clear()
        self._arrivals.unseen.clear()
        self.spending.begin_cell()
        self._began = time.monotonic()

    def client_of(self, _tool: str) -> ArrivalsClient:
        return self._client

    def pairs(self, _endpoint: str) -> list[tuple[str, str]]:
        """Return the source and destination folders for each pair of doors."""
        return [
            (
                self.made["source"].at(source).url if "source" in self.made else source,
                self.made["destination"].at(destination).url,
            )
            for source, destination in self.pair.doors
        ]

    @property
    def folders(self) -> tuple[str, str]:
        """Source and destination folders, of which a local one is a path."""
        source, destination = self.pairs("")[0]
        return local_path(source), local_path(destination)

    def add_source(self, size: int, content: str, _streams: int) -> str:
        """Upload a source file unless it exists, or check the size of the configured one; return its name."""
        door, made = self.doors["source"], self.made.get("source")
        try:
            if not made:
                name = str(self.pair.source.file)
                url = f"{self.pair.source.urls[0]}/{name}"
                if (found := door.size(url)) != size:
                    size_found = "no such file" if found is None else f"{found} bytes"
                    raise BrokenError(f"{url}: {size_found}: file_size must be the size of the source file")
                return name
            file = made.file(f"{content}.{size}")
            if door.size(file.url) != size:
                self.spending.add(size)
                door.upload(file, lambda: random_blocks(size), size)
        except DoorError as error:
            raise BrokenError(f"the source file cannot be uploaded: {error}") from error
        return file.name

    def sampler(self, interval: float) -> OutsideSampler:
        return OutsideSampler(self, interval)

    def totals(self) -> Totals:
        """Return no counters, because they are not visible from outside."""
        return {}

    def _look(self, event: Event) -> Future[Event]:
        """Ask the size of an ended transfer's file through its own door, and delete it, in the background."""
        doors = self.pair.doors
        folder = self.made["destination"].at(doors[event["stream"] % len(doors)][1])
        return self._arrivals.look(event, folder.file(event["name"]), self._size)

    def received(self, event: Event) -> Arrival:
        """Record a transfer whose file was looked at; note in the event whether markers show bytes on their way."""
        size = 0 if event["failure"] else self._size
        self._problems += [event["left"]] if event["left"] else []
        self.spans.append(Span(event["stream"], event["start"], event["end"], size))
        event["followed"] = bool(self.markers)
        return Arrival(None, size)

    def unseen(self) -> str:
        """Return how many files of the cell have a size that could not be asked, with a reason; "" for none."""
        if not (unseen := self._arrivals.unseen):
            return ""
        [(reason, _)] = unseen.most_common(1)
        return f"the size of {unseen.total()} files at the destination could not be asked: {reason}"

    def present(self) -> dict[str, Arrival]:
        """Return the transfers under way that had a performance marker, as if bytes had arrived since their start."""
        ended = {(span.stream, span.start) for span in self.spans}
        return {
            marker["name"]: Arrival(marker["start"], marker["bytes"])
            for marker in self.markers
            if (marker["stream"], marker["start"]) not in ended
        }

    def copies(self) -> None:
        """Return None, as XRootD's monitoring is not sent to users."""

    def settle(self) -> None:
        """Delete the cell's remaining files, after servers have noticed that the client is gone."""
        done = sum(1 for span in self.spans if span.size)
        if self._files is None or done < self._files * self.streams:
            self._note_bytes(len(self.spans) + self.streams)
            time.sleep(LINGER)
        try:
            self.doors["destination"].empty(self.made["destination"])
        except DoorError as error:
            self._problems.append(str(error))
        self.check()

    def check(self) -> None:
        """Raise BrokenError if a deletion failed, the budget is exhausted, or the client has ended."""
        self._note_bytes(len(self.spans))
        if self._problems:
            raise BrokenError(f"files are left behind: {self._problems[0]}")
        self.spending.check()
        if self.process.poll() is not None:
            raise BrokenError(f"the client ended with exit code {self.process.returncode}")

    def _note_bytes(self, transfers: int) -> None:
        """Record the most bytes that the cell's `transfers` can have moved."""
        declared = self.pair.bandwidth
        most = math.inf if declared is None else declared * BYTES * max(time.monotonic() - self._began, 0.0)
        self.spending.note(min(transfers * self._size, most))

    def explain(self, error: BrokenError) -> str:
        return str(error)

    def ready(self) -> None:
        """Raise BrokenError unless a door of each end answers."""
        for role, folder in self.made.items():
            try:
                self.doors[role].server(folder.url)
            except DoorError as error:
                raise BrokenError(str(error)) from error

    def close(self) -> None:
        self.spending.save()
        self._arrivals.close()
        self.machine.close()


def random_blocks(size: int) -> Iterator[bytes]:
    """Yield random content, which servers cannot compress or deduplicate."""
    whole, rest = divmod(size, BLOCK)
    yield from (os.urandom(BLOCK) for _ in islice(range(whole), whole))
    yield os.urandom(rest)
