# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as placing and teardown need: objects with versions, which nothing acts on.

It can be made to stall, to refuse, and to lose the answers to requests that it carries out.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration
from tpcsweep.testbeds.kubernetes.api import Cluster

REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict"}
COLLECTIONS = {"configmaps", "jobs", "networkpolicies", "nodes", "pods", "secrets"}
GROUPS = {"jobs": "apis/batch/v1"}
NAMESPACE = "default"

Answer = tuple[int, dict[str, Any]]
DELETED: Answer = 200, {"kind": "Status", "status": "Success"}


class PlayedApi:
    """A server of one namespace, for the length of a `with`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.refuse: Callable[[str, str, Any], int | None] = lambda *_: None
        """The status with which a request of a verb, a path and a body is refused; None: it is not."""
        self.words = "refused"  # the message with which requests are refused
        self.takes, self.answers = threading.Event(), threading.Event()
        """Whether requests are carried out, and whether their answers arrive, now and not later."""
        self._objects: dict[str, dict[str, Any]] = {}
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self._carry_on()

    def _carry_on(self) -> None:
        self.takes.set()
        self.answers.set()

    def __enter__(self) -> PlayedApi:
        handler = type("Handler", (_Handler,), {"played": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._carry_on()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def cluster(self) -> Cluster:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self._server.server_port}"
        configuration.retries = False
        return Cluster(configuration, NAMESPACE, "played")

    @contextlib.contextmanager
    def without(self, event: threading.Event) -> Iterator[None]:
        """Hold back requests (`takes`) or their answers (`answers`); what has come meanwhile follows at the end."""
        event.clear()
        try:
            yield
        finally:
            event.set()

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        with self._lock:
            return self._objects.get(_path(kind, name))

    def put(self, kind: str, body: dict[str, Any]) -> None:
        with self._lock:
            self._store(_path(kind, body["metadata"]["name"]), body)

    def remove(self, kind: str, name: str) -> None:
        with self._lock:
            del self._objects[_path(kind, name)]

    def version(self, kind: str, name: str) -> int:
        present = self.get(kind, name)
        return int(present["metadata"]["resourceVersion"]) if present else 0

    def respond(self, verb: str, address: str, body: Any) -> Answer:
        url = urlsplit(address)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        with self._lock:
            self.asked.append((verb, address))
            if status := self.refuse(verb, url.path, body):
                return _status(status, self.words)
            if url.path.rpartition("/")[2] in COLLECTIONS:
                return self._collection(verb, url.path, query, body)
            return self._one(verb, url.path, body)

    def _collection(self, verb: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if verb == "POST":
            place = f"{path}/{body['metadata']['name']}"
            if place in self._objects:
                return _status(409, "already exists", reason="AlreadyExists")
            return 201, body if "dryRun" in query else self._store(place, body)
        labels = dict(term.split("=") for term in query.get("labelSelector", "").split(",") if "=" in term)
        chosen = {
            place: item
            for place, item in self._objects.items()
            if place.rpartition("/")[0] == path
            and labels.items() <= item["metadata"].get("labels", {}).items()
        }
        if verb == "DELETE":
            for place in chosen:
                del self._objects[place]
            return DELETED
        return 200, {"metadata": {}, "items": list(chosen.values())}

    def _one(self, verb: str, path: str, body: Any) -> Answer:
        present = self._objects.get(path)
        if present is None:
            return _status(404, "not found")
        if verb == "GET":
            return 200, present
        version = present["metadata"]["resourceVersion"]
        known = body["metadata"] if verb == "PUT" else (body or {}).get("preconditions", {})
        if known.get("resourceVersion", version) != version:
            return _status(409, "the object has been modified")
        if verb == "PUT":
            return 200, self._store(path, body)
        if verb == "PATCH":
            about = body["metadata"]
            if about.get("uid", present["metadata"]["uid"]) != present["metadata"]["uid"]:
                return _status(409, "the UID in the precondition is another one")
            changed = {
                "spec": {**present["spec"], **body["spec"]},
                "metadata": {**present["metadata"], **about},
            }
            return 200, self._store(path, {**present, **changed})
        if known.get("uid", present["metadata"]["uid"]) != present["metadata"]["uid"]:
            return _status(409, "the UID in the precondition is another one")
        del self._objects[path]
        return DELETED

    def _store(self, place: str, body: dict[str, Any]) -> dict[str, Any]:
        version = str(next(self._versions))
        meta = {"uid": f"uid-{version}", **body["metadata"], "resourceVersion": version}
        self._objects[place] = {**body, "metadata": meta}
        return self._objects[place]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # by which the body of an answer waits for the ACK of its header
    played: PlayedApi

    def _handle(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        self.played.takes.wait()
        status, answer = self.played.respond(self.command, self.path, body)
        self.played.answers.wait()
        content = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # nobody waits for it any more
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - as the base class names them

    def log_message(self, *_: object) -> None:
        pass


def _path(kind: str, name: str) -> str:
    if kind == "nodes":
        return f"/api/v1/nodes/{name}"
    return f"/{GROUPS.get(kind, 'api/v1')}/namespaces/{NAMESPACE}/{kind}/{name}"


def _status(status: int, message: str, reason: str = "") -> Answer:
    reason = reason or REASONS.get(status, "Unknown")
    return status, {"kind": "Status", "reason": reason, "message": message, "code": status}
