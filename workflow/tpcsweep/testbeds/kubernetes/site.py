# SPDX-License-Identifier: Apache-2.0
"""The site of a deployment on a cluster, which it reaches through the hub."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpcsweep.common.errors import BrokenError, FaultError
from tpcsweep.deploying.xrootd.monitoring import Copy
from tpcsweep.measuring.client.client_process import Client, Event
from tpcsweep.measuring.looks import longest_gap
from tpcsweep.measuring.sampler import Record, Sampler
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.node import serving
from tpcsweep.testbeds.node.server_site import ServerSite

SETTLE_SECONDS = 0.2  # seconds for connections to end by themselves, before all servers restart
POLL = 0.02
FIRST_SECONDS = 10.0
NOTICE_SECONDS = 5.0  # seconds in which the API reports a fault that the hub noticed first
SILENT_SECONDS = 30.0
"""Seconds by which the samples of an agent may be behind those of others: TCP needs some to recover after a cut."""
GONE_SECONDS = 60.0
"""Seconds for a pod that is out of reach: controllers miss a node after 50 s (node-monitor-grace-period)."""


class Inbox:
    """The messages of the hub: samples by agent, copies, and lines of the client."""

    def __init__(self, fault: Callable[[], str | None], own: Callable[[], bool]) -> None:
        """`fault` returns the first fault in Kubernetes' words; `own` returns whether a server or tool caused it."""
        self._fault = fault
        self._own = own
        self.ahead: Mapping[str, float] = {}
        """Seconds by which this machine's clock is ahead of that of each agent, and of the client's."""
        self._sample: Callable[[str, Record], object] = lambda *_: None  # gets the samples of the cell
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        self._client: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._newest: dict[str, float] = {}  # the time of the last sample of each agent
        self._gone: list[str] = []
        self._stopped: list[str] = []

    def receive(self, message: Mapping[str, Any]) -> None:
        ahead = self.ahead.get(message.get("of", CLIENT), 0.0)
        if "sample" in message:
            self._receive_sample(message["of"], message["sample"], ahead)
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

    def _receive_sample(self, agent: str, record: Record, ahead: float) -> None:
        record["time"] += ahead
        try:
            self._sample(agent, record)
        except LookupError as error:  # it lacks a quantity, so that the agent has stopped to sample it
            self._stopped.append(f"{agent}: {error}")
        else:
            with self._lock:
                self._newest[agent] = record["time"]

    def lines(self) -> Iterator[bytes]:
        """Return the client's lines until a part of the deployment is gone."""
        return iter(self._client.get, None)

    def arrival(self, of: str, first_byte: float | None, size: int) -> Arrival:
        return Arrival(None if first_byte is None else first_byte + self.ahead.get(of, 0.0), size)

    def copies(self) -> list[Copy]:
        return [self._copies.get_nowait() for _ in range(self._copies.qsize())]

    def newest(self) -> dict[str, float]:
        with self._lock:
            return dict(self._newest)

    def begin(self, ahead: Mapping[str, float], receive: Callable[[str, Record], object]) -> None:
        """Begin a cell, whose samples `receive` gets; `ahead` is that of the agents' clocks."""
        with self._lock:
            self.ahead, self._sample = ahead, receive
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


class RemoteTargets:
    """Agents of all pods, as targets of the sampler.

    `start`, `stop` and `require` raise FaultError if samples of an agent are missing. Records therefore reach the
    cell's end, to which the hub brings it by itself after `longest` seconds.
    """

    def __init__(self, session: Session, inbox: Inbox, targets: Collection[str], longest: float) -> None:
        self.targets = targets
        self._longest = longest
        self._session = session
        self._inbox = inbox

    def start(self, interval: float, receive: Callable[[str, Record], object]) -> None:
        self._interval = interval
        before = time.monotonic()
        theirs = self._session.ask("clock")
        self._ahead = ahead = (before + time.monotonic()) / 2 - theirs
        behind = self._session.ask("synchronise")
        self._began = time.monotonic()
        first: dict[str, float] = {}

        def received(agent: str, record: Record) -> None:
            first.setdefault(agent, record["time"])
            receive(agent, record)

        self._inbox.begin({name: ahead + seconds for name, seconds in behind.items()}, received)
        self._session.tell(list(self.targets), "watch", interval=interval)
        give_up = time.monotonic() + FIRST_SECONDS + interval
        while not self._all_begun(first):
            self._inbox.check()
            if time.monotonic() > give_up:
                missing = ", ".join(name for name in self.targets if name not in self._inbox.newest())
                raise FaultError(f"{missing or 'pods'}: no sample has come within {FIRST_SECONDS:.0f} s")
            time.sleep(POLL)
        self._session.ask("begin", end=max(first.values()) + self._longest - ahead)

    def _all_begun(self, first: Mapping[str, float]) -> bool:
        """Return whether all agents have samples since the first one of the last agent, when readings begin."""
        newest = self._inbox.newest()
        return newest.keys() == set(self.targets) and min(newest.values()) >= max(first.values())

    def require(self) -> None:
        # When the API server is out of reach, samples of all agents are late alike.
        patience = longest_gap(self._interval) + SILENT_SECONDS
        latest = max(self._inbox.newest().values())
        out_of_reach = time.monotonic() - self._session.longest
        self._require_since(max(latest, out_of_reach) - patience)

    def stop(self) -> None:
        asked = time.monotonic()
        try:
            end = self._session.ask("unwatch") + self._ahead  # the hub may have ended the cell long before
        except SessionError:
            self._inbox.check()
            self._require_since(asked)
            raise
        self._inbox.check()
        # Clocks differ by milliseconds, if they do not jump.
        self._require_since(end - longest_gap(self._interval))

    def end(self) -> None:
        """Leave the agents as they are: the next cell ends their sampling."""

    def _require_since(self, moment: float) -> None:
        """Raise FaultError if the last sample of an agent is from before a moment."""
        newest = self._inbox.newest()
        behind = [name for name in self.targets if newest[name] < moment]
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

    @property
    def _shared(self) -> dict[str, Mapping[str, str]]:
        return {"machine": self.machines, "network": self.networks}

    def sampler(self, how: Measurement) -> Sampler:
        agents = RemoteTargets(self.session, self.inbox, list(self.machines), how.bounds[1])
        return Sampler([agents], how.interval, shared=self._shared)

    def client_of(self, _tool: str) -> Client:
        """Return the only client; configurations with tools that run elsewhere are refused."""
        return self.client

    def add_source(self, size: int, content: str, _streams: int) -> str:
        self.inbox.check()
        names = self.session.tell(self.sides["src"].names, "add_source", size=size, content=content)
        return str(next(iter(names.values())))

    def received(self, event: Event) -> Arrival:
        """Return the arrival of a transfer that has ended, whose file the hub has removed."""
        return self.inbox.arrival(*event.get("arrival", [CLIENT, None, 0]))

    def present(self) -> dict[str, Arrival]:
        """Return the arrivals, at the cell's end, of transfers that had not ended."""
        arrivals = self.session.ask("present")
        files = ((name, *each) for name, files in arrivals.items() for each in files.items())
        return {file: self.inbox.arrival(name, *arrival) for name, file, arrival in files}

    def copies(self) -> list[Copy]:
        return self.inbox.copies()

    def flow_tags(self) -> Counter[int]:
        """Return nothing: servers elsewhere announce their flows to their sites."""
        return Counter()

    def settle(self) -> None:
        """End copies that outlast their client, and remove the arrived files.

        Pods lack the privilege to cut a server's connections, so it restarts, which takes 0.2 s and drops unread
        requests. Raises BrokenError if a restarted server does not answer.
        """
        serving.settle(self._busy, SETTLE_SECONDS, self._restart)
        self.session.tell(self.sides["dst"].names, "clear")

    def _busy(self) -> dict[str, int]:
        # Sources come first: until they are idle, they may push more files to destinations.
        for side in self.sides.values():
            if busy := {
                name: 1 for name, is_busy in self.session.tell(side.names, "busy").items() if is_busy
            }:
                return busy
        return {}

    def _restart(self, _busy: Mapping[str, int]) -> None:
        """Stop all origins before the first one resumes, so that no old copy finds a new server."""
        self.session.tell(self.origins, "stop")
        self.session.tell(self.origins, "resume")
        self.ready()

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
