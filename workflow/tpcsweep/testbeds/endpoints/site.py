# SPDX-License-Identifier: Apache-2.0
"""The site of endpoints. Only completed files and performance markers are visible to measurements from outside."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.numbers import BYTES
from tpcsweep.common.urls import MadeFolder, OwnFile, door_of
from tpcsweep.deploying.linux.cgroups import USAGE
from tpcsweep.deploying.linux.kernel_counters import Process, ProcessTable, TreeCpu
from tpcsweep.measuring.client.client_process import Channel, ClientError, Event
from tpcsweep.measuring.machine import Machine
from tpcsweep.measuring.sampler import LocalTargets, Readings, Sampler, Table
from tpcsweep.measuring.tools.http_tpc import wished_pause
from tpcsweep.measuring.tools.tool import Transfer
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.endpoints import pauses, secrets
from tpcsweep.testbeds.endpoints.arrivals import Arrivals, ArrivalsClient
from tpcsweep.testbeds.endpoints.doors import BLOCK, DoorError, Doors
from tpcsweep.testbeds.endpoints.ledger import LINGER
from tpcsweep.testbeds.endpoints.local import local_path
from tpcsweep.testbeds.endpoints.pairs import EndpointPair, Login
from tpcsweep.testbeds.endpoints.shared_doors import SharedDoors
from tpcsweep.testbeds.endpoints.spans import Markers, Span, arrived, known_until, split
from tpcsweep.testbeds.endpoints.spending import Spending
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.node.program_counters import Programs, Target


class OutsideSampler(Sampler):
    """Sampler of the client's machine, with byte counts from completed files and performance markers."""

    def __init__(self, site: EndpointsSite, interval: float) -> None:
        client = Target(site.machine, site.programs)
        super().__init__([LocalTargets({"client": client.read})], interval)
        self._site = site

    def __exit__(self, kind: object = None, *others: object) -> None:
        super().__exit__(kind, *others)
        if kind is None:
            self._site.confirm_markers()

    def readings(self) -> Readings:
        """Return the readings until `known_until`; before that time is known, all readings without bytes."""
        read, spans = super().readings(), self._site.known_spans(strict=not self._within)
        limit = known_until(spans, self._site.streams)
        times = np.array(read.tables["client"].column("time"))
        payload = np.zeros(times.size)
        if math.isfinite(limit):
            times = np.unique([*times[times <= limit], max(limit, times[0])])
            payload = arrived(times, spans)
        files = Table(("time", "goodput"), list(zip(times.tolist(), payload.tolist(), strict=True)))
        return Readings({**read.tables, "destination": files})


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
    shared: SharedDoors
    max_streams: Mapping[str, int]
    """The most streams of each door, host and port."""
    stage: Callable[[str], object]
    provenance: dict[str, Any]
    rtt_idle: float = math.nan  # the declared RTT in ms; NaN if unknown
    streams: int = 1
    spans: list[Span] = field(default_factory=list)  # ended transfers of the cell
    markers: Markers = field(default_factory=Markers)
    bandwidth_found: float | None = None
    path_slow: bool = False
    bandwidth_declared: bool = True
    client_cores: float = field(default_factory=lambda: float(len(os.sched_getaffinity(0))))
    checksums: bool = False
    """Whether the adler32 of each file is compared with that of its source."""
    _copy_mode: str = "pull"
    _size: int = 0
    _adler32: int | None = None  # of the source file, if checksums are compared
    _files: int | None = None
    _began: float = math.inf
    _problems: list[str] = field(default_factory=list)
    _asked_pauses: dict[str, str] = field(default_factory=dict)
    """By door, what it asked tpcsweep's own requests for during the cell."""
    machine: Machine = field(default_factory=Machine)
    beside: list[tuple[EndpointsSite, int | None]] = field(default_factory=list)
    """Pairs that carry traffic during cells, each with its streams or None for those of the cell."""

    def __post_init__(self) -> None:
        """Wait until the client is ready. Raises ClientError."""
        self._arrivals = Arrivals(self.doors["destination"])
        self._proc = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC)
        table = ProcessTable()

        def client() -> dict[int, Process]:
            return table.tree([self.process.pid])

        cpu = TreeCpu(client)

        def used(keys: Collection[str]) -> dict[str, float]:
            seconds = cpu.read()
            return {key: seconds if key == USAGE else 0.0 for key in keys}

        self.programs = Programs("client", used, self._proc, client)
        self._client = ArrivalsClient(self.channel, self.markers.all.append, self._look)
        for door in self.doors.values():
            if isinstance(door, HttpDoors):
                door.on_pause = self._pause

    @contextmanager
    def turn(self, wanted: Parameters, how: Measurement) -> Iterator[None]:
        """Prepare a cell, and use the doors for the length of a `with`, as soon as they and other runs allow it.

        The doors of pairs that carry background traffic are used, too. Raises BrokenError, of which BusyDoorError if a
        door asks for a long pause.
        """
        counts, most = self.streams_by_door(wanted.streams), dict(self.max_streams)
        for other, streams in self.beside:
            counts += other.streams_by_door(streams or wanted.streams)
            most |= other.max_streams
        for site in (self, *(other for other, _ in self.beside)):
            pauses.await_all(site.pair.urls, self.stage, self.spending.check)
        with self.shared.streams(counts, most, self.stage, self.spending.check):
            self.begin(wanted, how.files)
            yield

    def streams_by_door(self, streams: int) -> Counter[str]:
        return Counter(
            door
            for stream in range(streams)
            for door in {*map(door_of, self.pair.doors[stream % len(self.pair.doors)])} - {""}
        )

    def begin(self, wanted: Parameters, files: int | None) -> None:
        """Renew tokens, and forget the previous cell's transfers."""
        try:
            secrets.renew(self.private, self.logins)
        except secrets.CredentialError as error:
            raise BrokenError(str(error)) from error
        self.streams, self._size, self._files, self.spans = wanted.streams, wanted.file_size, files, []
        self._copy_mode = wanted.copy_mode
        self.markers.begin_cell()
        self._asked_pauses.clear()
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
            else:
                file = made.file(f"{content}.{size}")
                name, url = file.name, file.url
                if door.size(url) != size:
                    self.spending.add(size)
                    door.upload(file, lambda: random_blocks(size), size)
            self._adler32 = door.adler32(url) if self.checksums else None
        except DoorError as error:
            what = "uploaded" if made else "read"
            raise BrokenError(f"the source file cannot be {what}: {error}") from error
        except LookupError as error:
            raise BrokenError(f"{url}: checksums: {error.args[0]}. Fix: set checksums to false") from error
        return name

    def sampler(self, how: Measurement) -> OutsideSampler:
        return OutsideSampler(self, how.interval)

    def _look(self, event: Event) -> Future[Event]:
        """Ask the size of an ended transfer's file through its own door, and delete it, in the background."""
        return self._arrivals.look(event, self._file(event), self._size, self._adler32)

    def _file(self, event: Event) -> OwnFile:
        """Return the destination file of a transfer, at the door of its stream."""
        doors = self.pair.doors
        return self.made["destination"].at(doors[event["stream"] % len(doors)][1]).file(event["name"])

    def received(self, event: Event) -> Arrival:
        """Record a transfer whose file was looked at; note in the event whether markers show bytes on their way."""
        size = 0 if event["failure"] else self._size
        if (wished := wished_pause(event["failure"] or "")) is not None:
            source, destination = self.pair.doors[event["stream"] % len(self.pair.doors)]
            asked = Transfer(source, destination, self._copy_mode).asked[1]
            pauses.ask(door_of(asked), wished - (time.monotonic() - event["end"]))
        self._problems += [event["left"]] if event["left"] else []
        self.spans.append(Span(event["stream"], event["start"], event["end"], size))
        event["followed"] = bool(self.markers)
        return Arrival(None, size)

    def _pause(self, door: str, seconds: float) -> None:
        """Keep a pause that a door asked tpcsweep's own requests for, and hold its copies."""
        pauses.ask(door, seconds)
        self._asked_pauses[door] = f"{door} asked for a pause of {seconds:.0f} s"
        with suppress(ClientError):  # the cell notices that the client is gone
            self._client.pause(door, seconds)

    @property
    def doubts(self) -> list[str]:
        """Reasons why performance markers of the cell do not count, and pauses that doors asked for."""
        return [*self.markers.doubts(self._marking), *self._asked_pauses.values()]

    @property
    def _marking(self) -> dict[int, str]:
        """Return the URL that sends the performance markers of each stream."""
        doors, active = self.pair.doors, 1 if self._copy_mode == "pull" else 0
        return {stream: doors[stream % len(doors)][active] for stream in range(self.streams)}

    def known_spans(self, *, strict: bool) -> list[Span]:
        """Return the transfers, divided at believed markers; see `Markers.believed` for `strict`."""
        self.markers.compare(self._marking, self.spans, self._size)
        return split(self.spans, self.markers.believed(self._marking, strict=strict), self._size)

    def confirm_markers(self) -> None:
        """Ask the destination for the size of a file under way of each door whose markers nothing has confirmed."""
        self.markers.compare(self._marking, self.spans, self._size)
        for door, marker in self.markers.open_questions(self._marking, self.spans).items():
            try:
                found = self.doors["destination"].size(self._file(marker).url)
            except DoorError:
                found = None
            self.markers.confirm(door, marker, found)

    def present(self) -> dict[str, Arrival]:
        """Return the transfers under way that had a believed marker, as if bytes had arrived since their start."""
        ended = {(span.stream, span.start) for span in self.spans}
        return {
            marker["name"]: Arrival(marker["start"], min(marker["bytes"], self._size))
            for marker in self.markers.believed(self._marking, strict=True)
            if (marker["stream"], marker["start"]) not in ended
        }

    def copies(self) -> None:
        """Return None, as XRootD's monitoring is not sent to users."""

    def flow_tags(self) -> Counter[int]:
        """Return nothing: servers elsewhere announce their flows to their sites."""
        return Counter()

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
        os.close(self._proc)


def random_blocks(size: int) -> Iterator[bytes]:
    """Yield random content, which servers cannot compress or deduplicate."""
    whole, rest = divmod(size, BLOCK)
    yield from (os.urandom(BLOCK) for _ in islice(range(whole), whole))
    yield os.urandom(rest)
