# SPDX-License-Identifier: Apache-2.0
"""The job's conversation with the hub, which survives a dropped connection to the cluster."""

import contextlib
import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from kubernetes.stream.ws_client import WSClient
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from tpcsweep.common.errors import BrokenError
from tpcsweep.deploying.xrootd.server_config import without_secrets
from tpcsweep.testbeds.kubernetes.api import REFUSED_SECONDS, Cluster, ClusterError, RefusedError
from tpcsweep.testbeds.kubernetes.metadata import POD, PYTHON

ANSWER_SECONDS = 90.0
PAUSE = 0.5
POLL = 0.05
CLOSE_SECONDS = 5.0  # the client connects without a time limit, so a proxy may keep it waiting
KEEP_ALIVE = 5.0  # seconds between confirmations to the hub of the messages that have arrived


class SessionError(BrokenError):
    """The hub cannot be reached, does not answer, or has refused."""


class Session:
    def __init__(
        self, cluster: Cluster, pod: str, longest: float, on_message: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Begin the conversation with the hub in a pod, which may be out of reach for `longest` seconds.

        `on_message` is called in the session's thread, with every message that is not an answer.
        """
        self._cluster = cluster
        self._pod = pod
        self.longest = longest
        self._on_message = on_message
        self._numbers = itertools.count()
        self._unanswered: dict[int, tuple[bytes, Future[Any]]] = {}
        self._outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._next = 0  # the number of the first message that has not arrived
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost = ""
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)
        self._thread.start()

    def ask(self, verb: str, seconds: float = ANSWER_SECONDS, /, **arguments: object) -> Any:
        """Ask the hub and return its answer; raises SessionError for a refusal, and after `seconds` without answer."""
        return self.start(verb, seconds, **arguments)()

    def start(self, verb: str, seconds: float = ANSWER_SECONDS, /, **arguments: object) -> Callable[[], Any]:
        """Ask the hub and return a function that waits for the answer, as `ask` does."""
        number = next(self._numbers)
        line = json.dumps({"id": number, "do": verb, "with": arguments}).encode() + b"\n"
        future: Future[Any] = Future()
        with self._lock:
            if self._lost:
                raise SessionError(self._lost)
            self._unanswered[number] = line, future
        self._outgoing.put(line)

        def answer() -> Any:
            try:
                return future.result(seconds)
            except FutureTimeoutError:
                raise SessionError(f"{self._pod} has not answered {verb} for {seconds:.0f} s") from None
            finally:
                with self._lock:
                    self._unanswered.pop(number, None)

        return answer

    def tell(self, to: list[str], verb: str, /, **arguments: object) -> dict[str, Any]:
        """Ask agents at once, and return their answers by name."""
        return dict(self.ask("tell", to=to, verb=verb, arguments=arguments))

    def log(self, text: str) -> None:
        """Have the hub print a line, for `kubectl logs`; it is lost if the hub cannot be reached."""
        self._outgoing.put(json.dumps({"log": without_secrets(text)}).encode() + b"\n")

    def close(self) -> None:
        """End the conversation; the hub then waits for another."""
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        self._last_message_at = time.monotonic()
        refused_at: float | None = None
        while not self._ended.is_set():
            why, refused = "it ended", False
            try:
                with contextlib.closing(self._connect()) as connection:
                    self._converse(connection)
            except RefusedError as error:
                why, refused = str(error), error.final
            except (WebSocketException, OSError, HTTPError, ClusterError) as error:
                why = str(error) or type(error).__name__
            now = time.monotonic()
            refused_at = (refused_at or now) if refused else None
            silent = now - self._last_message_at
            if silent > self.longest or now - (refused_at or now) > REFUSED_SECONDS:
                self._lose(f"{self._pod} is out of reach for {silent:.0f} s: {why}")
                return
            self._ended.wait(PAUSE)

    def _connect(self) -> WSClient:
        connection = self._cluster.execute(self._pod, "hub", [PYTHON, "-m", f"{POD}.relay"])
        connection.write_stdin(json.dumps({"from": self._next}).encode() + b"\n")
        with self._lock:
            for line, _ in self._unanswered.values():
                connection.write_stdin(line)
        return connection

    def _converse(self, connection: WSClient) -> None:
        text = b""
        last_sent = time.monotonic()
        while connection.is_open() and not (self._ended.is_set() and self._outgoing.empty()):
            connection.update(timeout=POLL)
            if connection.peek_stdout():
                *lines, text = (text + connection.read_stdout()).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
                self._last_message_at = time.monotonic()
            while not self._outgoing.empty():
                connection.write_stdin(self._outgoing.get())
            if time.monotonic() - last_sent > KEEP_ALIVE:
                last_sent = time.monotonic()
                connection.write_stdin(json.dumps({"from": self._next}).encode() + b"\n")

    def _take(self, message: dict[str, Any]) -> None:
        number = message.pop("number")
        if number < self._next:
            return  # repeated after a reconnection
        self._next = number + 1
        if "id" not in message:
            self._on_message(message)
            return
        with self._lock:
            _, future = self._unanswered.get(message["id"], (b"", None))
        if future and not future.done():
            if "error" in message:
                future.set_exception(SessionError(message["error"]))
            else:
                future.set_result(message["ok"])

    def _lose(self, why: str) -> None:
        with self._lock:
            self._lost = why
            waiting = [future for _, future in self._unanswered.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(SessionError(why))
        self._on_message({"lost": why})
