# SPDX-License-Identifier: Apache-2.0
"""Client: a process that keeps the streams of a cell active with a tool, and the handle of one."""

import errno
import json
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from subprocess import Popen
from typing import Any

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.urls import below, unencrypted
from tpcsweep.measuring.tools.tool import Transfer

START_SECONDS = 20.0
STOP_SECONDS = 15.0

Event = dict[str, Any]
Channel = tuple[Callable[[bytes], object], Iterable[bytes], Callable[[], str]]
"""`send`, `lines` and `why` of a `Client`."""


@dataclass(frozen=True)
class ClientRun:
    """Request to start the streams of a cell."""

    tool: str
    streams: int
    pairs: Sequence[Sequence[str]]  # base URLs of source and destination; stream k uses pair k mod n
    file_name: str  # `{stream}` stands for k
    prefix: str  # of the names of destination files
    copy_mode: str
    tcp_streams: int
    files: int | None = None  # files of each stream, or None to continue until stopped
    folders: Sequence[str] = ("", "")  # folders with the files on the servers of source and destination
    encryption: str = "usual"
    authorization: str = "usual"
    checksum: str = "none"
    scitag: int | None = None
    longest_pause: float = (
        3600.0  # s that a stream waits for a door that asks for a pause; a longer one ends it
    )
    macaroon_hours: int = 1  # validity of macaroons that a tool requests once for all transfers

    @property
    def unencrypted(self) -> list[str]:
        """URLs by which a credential would be readable.

        Where the parameter `encryption` asks for http, they are still https: only servers that tpcsweep starts accept
        it, with credentials that end with them.
        """
        return [url for pair in self.pairs for url in pair if unencrypted(url)]

    def transfer(self, stream: int, number: int) -> Transfer:
        source, destination = self.pairs[stream % len(self.pairs)]
        names = self.file_name.format(stream=stream), self.destination_name(stream, number)
        return Transfer(
            f"{source}/{names[0]}",
            below(destination, names[1]),
            self.copy_mode,
            self.tcp_streams,
            source_file=f"{self.folders[0]}/{names[0]}",
            destination_file=f"{self.folders[1]}/{names[1]}",
            stream=stream,
            encryption=self.encryption,
            checksum=self.checksum,
            scitag=self.scitag,
        )

    def destination_name(self, stream: int, number: int) -> str:
        return f"{self.prefix}.{stream}.{number}"


class ClientError(BrokenError):
    """The client died, or does not answer."""


class ToolRefusedError(Exception):
    """A tool cannot start; the message has its own words."""


class Client:
    """Client behind some channel; every method raises ClientError."""

    def __init__(
        self,
        send: Callable[[bytes], object],
        lines: Iterable[bytes],
        why: Callable[[], str],
        delay: float = 0.0,
        on_marker: Callable[[Event], object] = lambda _: None,
    ) -> None:
        """Wait until the client is ready.

        `send` sends a line of JSON, and raises OSError if the channel is gone. `lines` are the client's until it ends,
        and `why` describes how it ended. Answers may take `delay` s longer than on this machine. `on_marker` gets
        performance markers, in the thread that listens.
        """
        self._write, self._lines, self._why = send, lines, why
        self._delay, self._on_marker = delay, on_marker
        self._events: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._listen, name="client events", daemon=True).start()
        self._await("ready")

    def run(self, request: ClientRun) -> None:
        """Start the streams of a cell. Raises ToolRefusedError."""
        self._send({"run": asdict(request)})
        event = self._await("prepared", "refused")
        if event["event"] == "refused":
            raise ToolRefusedError(event["message"])

    def pause(self, door: str, seconds: float) -> None:
        """Let no transfer begin at a door, host and port, for some seconds. Any thread may call this."""
        self._send({"pause": {"door": door, "seconds": seconds}})

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return [self._take(0) for _ in range(self._events.qsize())]

    def stop(self) -> list[Event]:
        """End all transfers, and return the events until then."""
        self._send({"stop": {}})
        events = []
        while (event := self._take(STOP_SECONDS))["event"] != "stopped":
            events.append(event)
        return events

    def _listen(self) -> None:
        for line in self._lines:
            event = json.loads(line)
            if event["event"] == "marker":
                self._on_marker(event)
            else:
                self._events.put(event)
        self._events.put(None)

    def _send(self, request: Mapping[str, object]) -> None:
        try:
            self._write(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise ClientError(f"the client is gone: {error.strerror or error}") from None

    def _take(self, timeout: float) -> Event:
        seconds = timeout + self._delay
        try:
            event = self._events.get(timeout=seconds) if timeout else self._events.get_nowait()
        except queue.Empty:
            raise ClientError(f"the client has not answered for {seconds:.0f} s; see its log") from None
        if event is None:
            raise ClientError(f"the client is gone: {self._why()}")
        return event

    def _await(self, *wanted: str) -> Event:
        while (event := self._take(START_SECONDS))["event"] not in wanted:
            pass
        return event


def process_channel(process: Popen[bytes]) -> Channel:
    """Return the channel to a client whose process has pipes as standard input and output."""
    assert process.stdin and process.stdout
    stdin = process.stdin

    def send(line: bytes) -> None:
        try:
            stdin.write(line)
            stdin.flush()
        except ValueError:  # of a closed file
            raise BrokenPipeError(errno.EPIPE, "it has ended") from None

    def why() -> str:
        return f"it ended with exit code {process.wait(timeout=STOP_SECONDS)}; see its stderr.client*.log"

    return send, process.stdout, why


def process_client(process: Popen[bytes], on_marker: Callable[[Event], object] = lambda _: None) -> Client:
    """Return a client for a process of this machine whose standard input and output are pipes."""
    return Client(*process_channel(process), on_marker=on_marker)
