"""What a deployment on a cluster hands over to whoever measures; everything in it goes through the hub."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tpcsweep.broken import BrokenError, FaultError
from tpcsweep.client.handle import Client, Event
from tpcsweep.measure.files import Arrival
from tpcsweep.measure.readings import History, Reading
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER
from tpcsweep.testbeds.kubernetes.readings import Parts, combine
from tpcsweep.testbeds.kubernetes.session import Session
from tpcsweep.xrootd.monitoring import Copy
from tpcsweep.xrootd.servers import Server

SIDES = {"source": "src", "destination": "dst"}
SETTLE_SECONDS = 0.2
"""Data connections have so long to end by themselves before their servers are started anew."""
RESTARTED_SECONDS = 2.0
"""Servers that were started anew have so long to close the connections by which they were asked for a file."""
POLL = 0.02
FIRST_SECONDS = 10.0
NOTICE_SECONDS = 5.0
"""Seconds in which the API tells of something that was noticed by others first."""
GONE_SECONDS = 60.0
"""The same, of a pod that is heard of no more: controllers miss a node after 50 s (node-monitor-grace-period)."""


@dataclass(frozen=True)
class Side:
    """One side's servers."""

    redirector: Server | None
    origins: tuple[Server, ...]

    @property
    def servers(self) -> list[Server]:
        """All of them, the redirector first."""
        return [*([self.redirector] if self.redirector else []), *self.origins]

    @property
    def names(self) -> list[str]:
        """Names of the origins."""
        return [origin.name for origin in self.origins]

    @property
    def addresses(self) -> list[str]:
        """Addresses of the origins."""
        return [origin.address for origin in self.origins]


class SettleError(BrokenError):
    """Transfers of the last cell do not end."""


class Inbox:
    """What the hub says unasked, sorted: samples by agent, copies, lines of the client."""

    def __init__(self, fault: Callable[[], str | None]) -> None:
        self._fault = fault
        self.ahead = 0.0
        """Seconds that this machine's clock is ahead of the hub's."""
        self._samples: dict[str, History[list[float | None]]] = {}
        self._copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        self._client: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._gone: list[str] = []

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take a message in."""
        if "sample" in message:
            with self._lock:
                self._samples.setdefault(message["of"], History()).add(message["sample"])
        elif "copy" in message:
            copy = Copy(*message["copy"])
            self._copies.put(copy._replace(begin=copy.begin + self.ahead, end=copy.end + self.ahead))
        elif "client" in message:
            self._client.put(json.dumps(self._here(message["client"])).encode())
        else:
            self._gone.append(message.get("lost") or f"{message['gone']} is gone")
            self._client.put(None)

    def lines(self) -> Iterator[bytes]:
        """What the client says, until it or anything else is gone."""
        while (line := self._client.get()) is not None:
            yield line

    def _here(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event of the client in this machine's time."""
        return event | {name: event[name] + self.ahead for name in ("start", "end") if name in event}

    def arrival(self, told: list[Any]) -> Arrival:
        """What the hub says of a file, in this machine's time."""
        first_byte, size = told
        return Arrival(None if first_byte is None else first_byte + self.ahead, size)

    def samples(self) -> dict[str, list[list[float | None]]]:
        """Those so far that are kept."""
        with self._lock:
            return {name: history.entries() for name, history in self._samples.items()}

    @property
    def stride(self) -> int:
        """How many samples came for each that is kept, at most."""
        with self._lock:
            return max((history.stride for history in self._samples.values()), default=1)

    def copies(self) -> list[Copy]:
        """What XRootD's own monitoring has said since the last call."""
        return [self._copies.get_nowait() for _ in range(self._copies.qsize())]

    def forget(self) -> None:
        """Drop the samples of the last cell."""
        with self._lock:
            self._samples.clear()

    def explain(self, error: Exception) -> str | None:
        """An error by what has broken, if something has; Kubernetes needs a moment to notice."""
        give_up = time.monotonic() + (GONE_SECONDS if self._gone else NOTICE_SECONDS)
        while not (why := self._fault()) and time.monotonic() < give_up:
            time.sleep(POLL)
        return f"{why} ({error})" if why else None

    def blame(self, error: Exception) -> None:
        """Raise FaultError, in Kubernetes' words, if something has broken that explains an error."""
        if why := self.explain(error):
            raise FaultError(why) from error

    def check(self) -> None:
        """Raise FaultError where something has broken."""
        if why := self._fault():
            raise FaultError(why)
        if self._gone:
            error = FaultError("; ".join(self._gone))
            self.blame(error)
            raise error


class WatchedClient(Client):
    """A client that also notices when anything else of the deployment breaks."""

    def __init__(self, session: Session, inbox: Inbox) -> None:
        self._inbox = inbox
        super().__init__(
            send=lambda line: session.ask("client", line=line.decode()),
            lines=inbox.lines(),
            why=lambda: "its pod has ended",
            delay=session.longest,
        )

    def events(self) -> list[Event]:
        """What happened since the last call. Raises FaultError, ClientError."""
        self._inbox.check()
        return super().events()

    def stop(self) -> list[Event]:
        """End all transfers. Raises FaultError, ClientError."""
        self._inbox.check()
        return super().stop()


class RemoteSampler:
    """Has the agents sample while it is entered."""

    def __init__(self, session: Session, inbox: Inbox, parts: Parts, interval: float) -> None:
        self._session = session
        self._inbox = inbox
        self._parts = parts
        self._interval = interval

    def __enter__(self) -> RemoteSampler:
        self._inbox.forget()
        before = time.monotonic()
        theirs = self._session.ask("clock")
        # The hub's clock is another machine's; whoever measures compares times with this one's.
        self._inbox.ahead = (before + time.monotonic()) / 2 - theirs
        self._session.ask("watch", to=self._servers, interval=self._interval)
        give_up = time.monotonic() + FIRST_SECONDS
        while not self.readings():
            self._inbox.check()
            if time.monotonic() > give_up:
                raise FaultError(f"no sample has come within {FIRST_SECONDS:g} s")
            time.sleep(POLL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._session.ask("unwatch", to=self._servers)

    @property
    def interval(self) -> float:
        """Seconds between readings."""
        return self._interval * self._inbox.stride

    def readings(self) -> list[Reading]:
        """Those so far, in this machine's time."""
        found = self._inbox.samples()
        if not all(name in found for name in self._parts.all):
            return []
        combined = combine(found, self._parts, self.interval)
        return [reading._replace(time=reading.time + self._inbox.ahead) for reading in combined]

    @property
    def _servers(self) -> list[str]:
        return [*self._parts.sources, *self._parts.destinations]


@dataclass
class Site:
    """A deployment that is up."""

    session: Session
    inbox: Inbox
    client: WatchedClient
    sides: Mapping[str, Side]
    """By `src` and `dst`."""
    machines: Mapping[str, str]
    provenance: dict[str, Any]
    rtt_idle: float
    bandwidth_found: float | None
    path_slow: bool
    folders: tuple[str, str] = (str(FOLDER), str(FOLDER))

    @property
    def parts(self) -> Parts:
        """Who samples what."""
        return Parts(self.sides["src"].names, self.sides["dst"].names, CLIENT, self.machines)

    def pairs(self, endpoint: str) -> list[tuple[str, str]]:
        """(source, destination) base URLs, of the redirectors or of the origins one by one."""
        urls = []
        for side in (self.sides[name] for name in SIDES.values()):
            asked = [side.redirector] if endpoint == "redirector" and side.redirector else side.origins
            urls.append([server.url for server in asked])
        return list(zip(*urls, strict=True))

    def sampler(self, interval: float) -> RemoteSampler:
        """Samples of all pods every `interval` seconds while it is entered."""
        return RemoteSampler(self.session, self.inbox, self.parts, interval)

    def client_of(self, _tool: str) -> WatchedClient:
        """The one that there is: tools that run elsewhere are refused."""
        return self.client

    def add_source(self, size: int, content: str, _streams: int) -> str:
        """Make a source file of `size` bytes at every source origin unless it is there, for all streams; its name."""
        self.inbox.check()
        names = self.session.tell(self.sides["src"].names, "add_source", size=size, content=content)
        return str(next(iter(names.values())))

    def totals(self) -> dict[str, int | None]:
        """Counters that are looked at only before and after a cell: packets dropped, periods, throttled periods."""
        told = self.session.ask("totals", to=[*self.sides["src"].names, *self.sides["dst"].names])
        groups = {name: self.sides[side].names for name, side in SIDES.items()}
        found: dict[str, int | None] = {}
        for name, members in (*groups.items(), (CLIENT, [CLIENT])):
            found[f"{name}_periods"] = sum(told[member][0] for member in members)
            found[f"{name}_throttled"] = sum(told[member][1] for member in members)
        dropped = [told[member][2:] for members in groups.values() for member in members]
        for name, drops in zip(("path_drops", "path_queue_drops"), zip(*dropped, strict=True), strict=True):
            # Real networks do not say what they drop.
            found[name] = None if None in drops else sum(drops)
        return found

    def received(self, event: Event) -> Arrival:
        """What had arrived in the file of a transfer that has ended; the hub removed it when it heard of that."""
        return self.inbox.arrival(event.get("arrival", [None, 0]))

    def present(self) -> dict[str, Arrival]:
        """What had arrived in the files of transfers that have not ended, when they were last sampled."""
        return {name: self.inbox.arrival(told) for name, told in self.session.ask("present").items()}

    def copies(self) -> list[Copy]:
        """What XRootD's own monitoring has said since the last call."""
        return self.inbox.copies()

    def settle(self) -> None:
        """After the client has stopped: end what the servers still copy and remove what arrived.

        A server notices only at its next marker, up to 5 s later, that its client has gone. Cutting its connections
        from outside takes a privilege that pods do not have; starting it anew cuts them in 0.2 s. Raises SettleError.
        """
        everyone = [*self.sides["src"].names, *self.sides["dst"].names]
        give_up = time.monotonic() + SETTLE_SECONDS
        while busy := self._busy(everyone):
            if time.monotonic() > give_up:
                self._restart(busy)
                break
            time.sleep(POLL)
        self.session.tell(self.sides["dst"].names, "clear")

    def _busy(self, names: list[str]) -> list[str]:
        """Those that still copy, or have requests of clients before them."""
        return [name for name, busy in self.session.tell(names, "busy").items() if busy]

    def _restart(self, busy: list[str]) -> None:
        """Of both ends: the end that stays would go on with what it has buffered."""
        self.session.tell(busy, "restart")
        self.ready()
        give_up = time.monotonic() + RESTARTED_SECONDS
        while still := self._busy(busy):
            if time.monotonic() > give_up:
                raise SettleError(f"connections of the last cell are still open at {', '.join(still)}")
            time.sleep(POLL)

    def check(self) -> None:
        """Raise FaultError where something of the deployment has broken."""
        self.inbox.check()

    def explain(self, error: BrokenError) -> str:
        """What has broken, in Kubernetes' words where it knows."""
        return str(error) if isinstance(error, FaultError) else self.inbox.explain(error) or str(error)

    def ready(self) -> None:
        """Wait until all servers deliver. Raises SessionError."""
        for side in self.sides.values():
            redirector = side.redirector.address if side.redirector else None
            self.session.ask("ready", redirector=redirector, origins=side.addresses)
