# SPDX-License-Identifier: Apache-2.0
"""Files of ended transfers: their size at the destination is asked, a checksum if wanted, and they are deleted."""

import time
from collections import deque
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

    def look(self, event: Event, file: OwnFile, size: int, adler32: int | None = None) -> "Future[Event]":
        """Begin to delete a file; return its event: a failure if the file is another, `left` if it remains.

        Without `adler32`, the checksum of the source, sizes alone are compared.
        """
        return self._pool.submit(self._looked, event, file, size, adler32)

    def _looked(self, event: Event, file: OwnFile, size: int, adler32: int | None) -> Event:
        failure, left = event["failure"] or self._failure(file, size, adler32), ""
        try:
            self._door.delete(file)
        except DoorError as error:
            left = str(error)
        return {**event, "failure": failure, "left": left}

    def _failure(self, file: OwnFile, size: int, adler32: int | None) -> str | None:
        """Return why a file that was reported as a success does not count, or None."""
        reported = "the copy was reported as a success, but"
        try:
            if (found := self._door.size(file.url)) != size:
                time.sleep(SETTLE)
                found = self._door.size(file.url)
            if found == -1:
                return f"{reported} the destination reports no size of the file"
            if found != size:
                has = "no such file" if found is None else f"{found} of {size} bytes"
                return f"{reported} the destination has {has}"
            if adler32 is not None and (other := self._door.adler32(file.url)) != adler32:
                return f"{reported} the destination has adler32 {other:08x}, and the source {adler32:08x}"
        except (DoorError, LookupError) as error:
            words = str(error.args[0]).replace(file.name, "…")
            return f"{reported} its file at the destination could not be asked for: {words}"
        return None

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
