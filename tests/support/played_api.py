# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as placing and teardown need: objects that nothing acts on, and refusals."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration
from tpcsweep.testbeds.kubernetes.api import Cluster

REASONS = {403: "Forbidden", 404: "NotFound"}
COLLECTIONS = {"configmaps", "jobs", "networkpolicies", "nodes", "pods", "secrets"}
GROUPS = {"jobs": "apis/batch/v1"}
NAMESPACE = "default"

Answer = tuple[int, dict[str, Any]]


class PlayedApi:
    """A server of one namespace, for the length of a `with`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.refuse: Callable[[str, str, Any], int | None] = lambda *_: None
        """The status with which a request of a verb, a path and a body is refused; None: it is not."""
        self.words = "refused"  # the message with which requests are refused
        self._objects: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> PlayedApi:
        handler = type("Handler", (_Handler,), {"played": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def cluster(self) -> Cluster:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self._server.server_port}"
        configuration.retries = False
        return Cluster(configuration, NAMESPACE, "played")

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return self._objects.get(f"{_collection(kind)}/{name}")

    def put(self, kind: str, body: dict[str, Any]) -> None:
        self._store(_collection(kind), body)

    def respond(self, verb: str, address: str, body: Any) -> Answer:
        self.asked.append((verb, address))
        url = urlsplit(address)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if status := self.refuse(verb, url.path, body):
            return _status(status, self.words)
        if url.path.rpartition("/")[2] not in COLLECTIONS:
            found = self._objects.get(url.path)
            return (200, found) if found else _status(404, "not found")
        if verb == "POST":
            return 201, body if "dryRun" in query else self._store(url.path, body)
        labels = dict(term.split("=") for term in query.get("labelSelector", "").split(",") if "=" in term)
        chosen = {
            place: item
            for place, item in self._objects.items()
            if place.rpartition("/")[0] == url.path
            and labels.items() <= item["metadata"].get("labels", {}).items()
        }
        if verb == "DELETE":
            for place in chosen:
                del self._objects[place]
            return 200, {"kind": "Status", "status": "Success"}
        return 200, {"metadata": {}, "items": list(chosen.values())}

    def _store(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        meta = {"uid": f"uid-{next(self._numbers)}", **body["metadata"]}
        stored = self._objects[f"{collection}/{meta['name']}"] = {**body, "metadata": meta}
        return stored


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # by which the body of an answer waits for the ACK of its header
    played: PlayedApi

    def _handle(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        status, answer = self.played.respond(self.command, self.path, body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - as the base class names them

    def log_message(self, *_: object) -> None:
        pass


def _collection(kind: str) -> str:
    return (
        "/api/v1/nodes" if kind == "nodes" else f"/{GROUPS.get(kind, 'api/v1')}/namespaces/{NAMESPACE}/{kind}"
    )


def _status(status: int, message: str) -> Answer:
    reason = REASONS.get(status, "Unknown")
    return status, {"kind": "Status", "reason": reason, "message": message, "code": status}
