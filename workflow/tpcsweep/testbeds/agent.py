"""The other end of `tpcsweep.client`: start it, give it runs, gather its events."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

START_SECONDS = 20.0
STOP_SECONDS = 15.0

Event = dict[str, Any]


class ClientError(Exception):
    """The client died, or does not answer."""


class ClientProcess:
    """A running client. Its standard error goes to wherever `process` was given."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._events: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._listen, name="client events", daemon=True).start()
        self._await("ready", START_SECONDS)

    def run(self, **request: object) -> None:
        """Start the streams of a cell. Raises ClientError with the tool's words where it cannot begin."""
        self._send({"run": request})
        event = self._await(("prepared", "refused"), START_SECONDS)
        if event["event"] == "refused":
            raise ClientError(event["message"])

    def events(self) -> list[Event]:
        """What happened since the last call. Raises ClientError when the client is gone."""
        found = []
        while not self._events.empty():
            found.append(self._take(0))
        return found

    def stop(self) -> list[Event]:
        """End all transfers; returns the events that came until then."""
        self._send({"stop": {}})
        found = []
        while (event := self._take(STOP_SECONDS))["event"] != "stopped":
            found.append(event)
        return found

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def _send(self, request: Mapping[str, object]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ClientError(f"the client is gone: {error.strerror}; see stderr.client.log") from None

    def _take(self, timeout: float) -> Event:
        try:
            event = self._events.get(timeout=timeout) if timeout else self._events.get_nowait()
        except queue.Empty:
            raise ClientError(
                f"the client has not answered for {timeout:g} s; see stderr.client.log"
            ) from None
        if event is None:
            code = self._process.wait(timeout=STOP_SECONDS)
            raise ClientError(f"the client ended with exit code {code}; see stderr.client.log")
        return event

    def _await(self, wanted: str | tuple[str, ...], timeout: float) -> Event:
        while (event := self._take(timeout))["event"] not in wanted:
            pass
        return event
