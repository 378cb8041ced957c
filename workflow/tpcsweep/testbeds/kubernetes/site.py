# SPDX-License-Identifier: Apache-2.0
"""The site of a deployment on a cluster, which it reaches through the hub."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpcsweep.client import Client, Event
from tpcsweep.errors import BrokenError, FaultError
from tpcsweep.linux.sockets import COUNTERS
from tpcsweep.measure.files import Arrival
from tpcsweep.measure.looks import longest_gap
from tpcsweep.measure.readings import STATES, Reading, ThinnedHistory, even_times
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.pod.places import Sample
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.node import ServerSite
from tpcsweep.testbeds.node.counters import site_totals
from tpcsweep.xrootd.monitoring import Copy

SETTLE_SECONDS = 0.2  # seconds for connections to end by themselves, before all servers restart
POLL = 0.02
FIRST_SECONDS = 10.0
NOTICE_SECONDS = 5.0  # seconds in which the API reports a fault that the hub noticed first
SILENT_SECONDS = 30.0
"""Seconds by which the samples of an agent may be behind those of others: TCP needs some to recover after a cut."""
GONE_SECONDS = 60.0
"""Seconds for a pod that is out of reach: controllers miss a node after 50 s (node-monitor-grace-period)."""
_STATES = ("thread", "waiting", *STATES)


class Inbox:
    """The messages of the hub: samples by agent, copies, and lines of the client."""

    def __init__(self, fault: Callable[[], str | None], own: Callable[[], bool]) -> None:
        """`fault` returns the first fault in Kubernetes' words; `own` returns whether a server or tool caused it."""
        self._fault = fault
        self._own = own
        self.ahead: Mapping[str, float] = {}
        """Seconds by which this machine's clock is ahead of that of each agent, and of the client's."""
        self._samples: dict[str, ThinnedHistory[list[float | None]]] = {}
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        self._client: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._newest: dict[str, float] = {}  # the time of the last sample of each agent
        self._gone: list[str] = []
        self._stopped: list[str] = []

    def receive(self, message: Mapping[str, Any]) -> None:
        ahead = self.ahead.get(message.get("of", CLIENT), 0.0)
        if "sample" in message:
            at, *rest = message["sample"]
            with self._lock:
                self._newest[message["of"]] = at + ahead
                self._samples.setdefault(message["of"], ThinnedHistory()).add([at + ahead, *rest])
        elif "stopped" in message:
            self._stopped.append(f"{message['of']}: {message['stopped']}")
        elif "copy" in message:
            copy = Copy(*message["copy"])
            self._copies.put(copy._replace(begin=copy.begin + ahead, end=copy.end + ahead))
        elif "client" in message:
            event = message["client"]
            times = {name: event[name] + ahead for name in ("start", "end") if name in event}
            self._client.put(json.dumps(event | times).encode())
        else:
            self._gone.append(message.get("lost") or f"{message['gone']} is gone")
            self._client.put(None)

    def lines(self) -> Iterator[bytes]:
        """Return the client's lines until a part of the deployment is gone."""
        return iter(self._client.get, None)

    def arrival(self, of: str, first_byte: float | None, size: int) -> Arrival:
        return Arrival(None if first_byte is None else first_byte + self.ahead.get(of, 0.0), size)

    def samples(self) -> dict[str, list[list[float | None]]]:
        with self._lock:
            return {name: history.entries() for name, history in self._samples.items()}

    @property
    def stride(self) -> int:
        """Return the largest number of samples for each kept one."""
        with self._lock:
            return max((history.stride for history in self._samples.values()), default=1)

    def copies(self) -> list[Copy]:
        return [self._copies.get_nowait() for _ in range(self._copies.qsize())]

    def newest(self) -> dict[str, float]:
        with self._lock:
            return dict(self._newest)

    def forget(self) -> None:
        with self._lock:
            self._samples.clear()
            self._newest.clear()

    def lose(self, why: str) -> None:
        """Record that agents are out of reach, and raise FaultError."""
        self._gone.append(why)
        self.check()

    def explain(self, error: Exception) -> str | None:
        """Return the fault behind an error, or None; waits a moment, as Kubernetes may notice it later."""
        began = time.monotonic()
        while not (why := self._fault()):
            # The error may come before the word that a part is gone.
            if time.monotonic() - began > (GONE_SECONDS if self._gone else NOTICE_SECONDS):
                return None
            time.sleep(POLL)
        return f"{why} ({error})"

    def blame(self, error: Exception) -> None:
        """Raise FaultError if a fault explains an error."""
        if why := self.explain(error):
            raise FaultError(why) from error

    def taken_away(self) -> bool:
        """Return whether the cluster has taken a part or its samples away, and no server or tool ended by itself."""
        return bool(self._gone or self._stopped or self._fault()) and not self._own()

    def check(self) -> None:
        if why := self._fault():
            raise FaultError(why)
        if missing := [*self._gone, *self._stopped]:
            gone = FaultError("; ".join(missing))
            self.blame(gone)
            raise gone


class RemoteSampler:
    """Reader of the samples of all agents within its `with` block.

    Entering it, leaving it, and `readings` within it raise FaultError if samples of an agent are missing. Readings
    therefore reach the cell's end.
    """

    def __init__(self, site: KubernetesSite, interval: float) -> None:
        self._site = site
        self._inbox = site.inbox
        self._interval = interval
        self._within = False

    def __enter__(self) -> RemoteSampler:
        self._inbox.forget()
        before = time.monotonic()
        theirs = self._site.session.ask("clock")
        ahead = (before + time.monotonic()) / 2 - theirs
        behind = self._site.session.ask("synchronise")
        self._inbox.ahead = {name: ahead + seconds for name, seconds in behind.items()}
        self._began = time.monotonic()
        self._site.session.tell(list(self._site.machines), "watch", interval=self._interval)
        give_up = time.monotonic() + FIRST_SECONDS + self._interval
        while not self.readings():  # they begin with the last agent's first sample
            self._inbox.check()
            if time.monotonic() > give_up:
                missing = ", ".join(name for name in self._site.machines if name not in self._inbox.newest())
                raise FaultError(f"{missing or 'pods'}: no sample has come within {FIRST_SECONDS:.0f} s")
            time.sleep(POLL)
        self._within = True
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._within = False
        if kind is not None:
            return
        end = time.monotonic()
        try:
            # Every agent looks a last time, and its samples come before its answer.
            self._site.session.tell(list(self._site.machines), "unwatch")
        except SessionError:
            self._inbox.check()
            self._require_since(end)
            raise
        self._inbox.check()
        self._require_since(
            end - longest_gap(self._interval)
        )  # clocks differ by milliseconds, if they do not jump

    @property
    def interval(self) -> float:
        return self._interval * self._inbox.stride

    def readings(self) -> list[Reading]:
        if self._within:
            # When the API server is out of reach, samples of all agents are late alike.
            patience = longest_gap(self._interval) + SILENT_SECONDS
            latest = max(self._inbox.newest().values())
            out_of_reach = time.monotonic() - self._site.session.longest
            self._require_since(max(latest, out_of_reach) - patience)
        sources, destinations = (side.names for side in self._site.sides.values())
        shared = self._site.machines, self._site.networks
        return combine(self._inbox.samples(), sources, destinations, *shared, self.interval)

    def _require_since(self, moment: float) -> None:
        """Raise FaultError if the last sample of an agent is from before a moment."""
        newest = self._inbox.newest()
        behind = [name for name in self._site.machines if newest[name] < moment]
        if behind:
            since = {name: max(0.0, newest[name] - self._began) for name in behind}
            words = (
                f"{name}: no sample since {seconds:.1f} s of the cell" for name, seconds in since.items()
            )
            self._inbox.lose("; ".join(words))


@dataclass(kw_only=True)
class KubernetesSite(ServerSite):
    session: Session
    inbox: Inbox
    client: Client
    machines: Mapping[str, str]
    """The machine of each origin and of the client; the counters of a machine count once."""
    networks: Mapping[str, str]  # the network of each origin; pods in the network of their node share one
    until: float = math.inf  # the end of its pods' time, by this machine's monotonic clock

    @property
    def origins(self) -> list[str]:
        return [name for side in self.sides.values() for name in side.names]

    def sampler(self, interval: float) -> RemoteSampler:
        return RemoteSampler(self, interval)

    def client_of(self, _tool: str) -> Client:
        """Return the only client; configurations with tools that run elsewhere are refused."""
        return self.client

    def add_source(self, size: int, content: str, _streams: int) -> str:
        self.inbox.check()
        names = self.session.tell(self.sides["src"].names, "add_source", size=size, content=content)
        return str(next(iter(names.values())))

    def totals(self) -> dict[str, int | None]:
        told = self.session.tell(list(self.machines), "totals")
        sources, destinations = (side.names for side in self.sides.values())
        parts = {"source": sources, "destination": destinations, "client": [CLIENT]}
        programs = {part: [told[name]["programs"] for name in names] for part, names in parts.items()}
        return site_totals({"path": [told[origin]["path"] for origin in self.origins], **programs})

    def received(self, event: Event) -> Arrival:
        """Return the arrival of a transfer that has ended, whose file the hub has removed."""
        return self.inbox.arrival(*event.get("arrival", [CLIENT, None, 0]))

    def present(self) -> dict[str, Arrival]:
        """Return the last sampled arrivals of transfers that have not ended."""
        told = self.session.tell(self.sides["dst"].names, "present")
        files = ((name, *each) for name, files in told.items() for each in files.items())
        return {file: self.inbox.arrival(name, *arrival) for name, file, arrival in files}

    def copies(self) -> list[Copy]:
        return self.inbox.copies()

    def settle(self) -> None:
        """End copies that outlast their client, and remove the arrived files.

        A server notices up to 5 s later, at its next marker, that its client has gone. Pods lack the privilege to cut
        its connections, so it restarts, which takes 0.2 s and drops unread requests. All origins stop before the first
        one resumes, so that no old copy finds a new server.

        Raises BrokenError if a restarted server does not answer.
        """
        give_up = time.monotonic() + SETTLE_SECONDS
        # Sources come first: until they are idle, they may push more files to destinations.
        while any(any(self.session.tell(side.names, "busy").values()) for side in self.sides.values()):
            if time.monotonic() > give_up:
                self.session.tell(self.origins, "stop")
                self.session.tell(self.origins, "resume")
                self.ready()
                break
            time.sleep(POLL)
        self.session.tell(self.sides["dst"].names, "clear")

    def check(self) -> None:
        self.inbox.check()

    def explain(self, error: BrokenError) -> str:
        return str(error) if isinstance(error, FaultError) else self.inbox.explain(error) or str(error)

    def ready(self) -> None:
        """Wait until all servers are ready; raises SessionError."""
        for side in self.sides.values():
            redirector = side.redirector.place if side.redirector else None
            origins = [origin.place for origin in side.origins]
            self.session.ask("ready", redirector=redirector, origins=origins)


def combine(
    samples: Mapping[str, Sequence[Sequence[float | None]]],
    sources: Sequence[str],
    destinations: Sequence[str],
    machines: Mapping[str, str],
    networks: Mapping[str, str],
    interval: float,
) -> list[Reading]:
    """Combine the samples of all agents to readings at common times. Pure.

    Each agent has its own timer. Counters are interpolated between two samples, and states are those of the last one.
    Readings begin with the last agent to begin, and end with the first one to end.

    `samples` are by agent, without agents until their first one; `sources` and `destinations` are the agents of each
    side. The counters of one of the `machines` (by agent, and of the client) count once, and so do interfaces and
    connections of one of the `networks` (by agent) for each side. The `interval` is in s.
    """
    if not all(samples.get(name) for name in machines):
        return []
    tables = {name: np.array(samples[name], dtype=float) for name in machines}
    until = min(table[-1, 0] for table in tables.values())
    times = even_times(max(table[0, 0] for table in tables.values()), until, interval)
    seen = {name: _at(table, times) for name, table in tables.items()}

    def each(names: Sequence[str], field: str) -> NDArray[np.float64]:
        return np.stack([seen[name][field] for name in names], axis=1)

    def total(names: Sequence[str], field: str) -> NDArray[np.float64]:
        return np.asarray(each(names, field).sum(axis=1))

    def mean(names: Sequence[str], field: str) -> NDArray[np.float64]:  # over connections, NaN without any
        values, number = np.nan_to_num(each(names, field)), each(names, "connections")
        count = number.sum(axis=1)
        return np.asarray((values * number).sum(axis=1) / np.where(count, count, np.nan))

    witnesses = _one_of_each(machines, machines)
    senders, receivers = _one_of_each(networks, sources), _one_of_each(networks, destinations)
    columns = {
        "payload": total(destinations, "payload"),
        "source_bytes": total(senders, "tx_bytes"),
        "wire_bytes": total(receivers, "rx_bytes"),
        "client_cpu": total([CLIENT], "cpu"),
        "source_waiting": total(sources, "waiting"),
        "destination_waiting": total(destinations, "waiting"),
        "source_thread": each(sources, "thread").max(axis=1),
        "destination_thread": each(destinations, "thread").max(axis=1),
        "client_thread": each([CLIENT], "thread").max(axis=1),
        **{f"machine_{of}": total(witnesses, f"machine_{of}") for of in ("busy", "steal", "total")},
        **{f"machine_{of}": each(witnesses, f"machine_{of}").mean(axis=1) for of in ("pressure", "work")},
        "machine_slowed": np.fmax.reduce(each(witnesses, "machine_slowed"), axis=1),
        **{field: total(senders, field) for field in ("retransmits", "connections", *COUNTERS)},
        **{field: mean(senders, field) for field in ("rtt_loaded", "cwnd")},
    }
    made: dict[str, list[Any]] = {field: column.tolist() for field, column in columns.items()}
    for side, names in (("source", sources), ("destination", destinations)):
        made[f"{side}_cpu"] = list(map(tuple, each(names, "cpu").tolist()))
    return [
        Reading(time=moment, path_cpu=math.nan, **dict(zip(made, row, strict=True)))
        for moment, *row in zip(times.tolist(), *made.values(), strict=True)
    ]


def _one_of_each(places: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return list({places[name]: name for name in names}.values())


def _at(table: NDArray[np.float64], times: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return an agent's samples at other times, by field."""
    before = np.clip(np.searchsorted(table[:, 0], times + 1e-9, side="right") - 1, 0, None)
    return {
        name: column[before] if name in _STATES else np.interp(times, table[:, 0], column)
        for name, column in zip(Sample._fields, table.T, strict=False)
    }
