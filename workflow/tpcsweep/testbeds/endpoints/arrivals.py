# SPDX-License-Identifier: Apache-2.0
"""Files of transfers that a tool reports as ended: their size at the destination is asked, then they are deleted."""

import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tpcsweep.common.urls import OwnFile
from tpcsweep.measuring.client.client_process import Channel, Client, Event
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors

WORKERS = 8  # the largest number of concurrent requests about ended transfers
SETTLE = 1.0  # seconds after which a wrong size is asked again, as a server may show a new file late


class Arrivals:
    """Requests about the files of ended transfers, in the background."""

    def __init__(self, door: Doors) -> None:
        self._door = door
        self._pool = ThreadPoolExecutor(WORKERS, "arrivals")
        self.unseen: Counter[str] = Counter()
        """Reasons why sizes could not be asked, with the number of files."""

    def look(self, event: Event, file: OwnFile, size: int) -> "Future[Event]":
        """Begin to delete a file; return its event: a failure if the size was another, `left` if the file remains."""
        return self._pool.submit(self._looked, event, file, size)

    def _looked(self, event: Event, file: OwnFile, size: int) -> Event:
        failure, left = event["failure"] or self._failure(file, size), ""
        try:
            self._door.delete(file)
        except DoorError as error:
            left = str(error)
        return {**event, "failure": failure, "left": left}

    def _failure(self, file: OwnFile, size: int) -> str | None:
        try:
            if (found := self._door.size(file.url)) not in (size, -1):
                time.sleep(SETTLE)
                found = self._door.size(file.url)
        except DoorError as error:
            self.unseen[str(error).replace(file.name, "…")] += 1
            return None
        if found == -1:
            self.unseen["the server tells no size"] += 1
        if found in (size, -1):
            return None
        has = "no such file" if found is None else f"{found} of {size} bytes"
        return f"the copy was reported as a success, but the destination has {has}"

    def close(self) -> None:
        self._pool.shutdown()


class ArrivalsClient(Client):
    """Client of endpoints: it returns the end of a transfer after its file was looked at."""

    def __init__(
        self,
        channel: Channel,
        on_marker: Callable[[Event], object],
        look: Callable[[Event], "Future[Event]"],
    ) -> None:
        super().__init__(*channel, on_marker=on_marker)
        self._look = look
        self._waiting: deque[Event | Future[Event]] = deque()

    def events(self) -> list[Event]:
        return self._seen(super().events(), wait=False)

    def stop(self) -> list[Event]:
        return self._seen(super().stop(), wait=True)

    def _seen(self, events: list[Event], wait: bool) -> list[Event]:
        """Return events in their order: all, or those before the first whose file was not looked at yet."""
        waiting, ready = self._waiting, []
        waiting.extend(self._look(event) if event["event"] == "end" else event for event in events)
        while waiting and (wait or not isinstance(waiting[0], Future) or waiting[0].done()):
            first = waiting.popleft()
            ready.append(first.result() if isinstance(first, Future) else first)
        return ready
