# SPDX-License-Identifier: Apache-2.0
"""The part of a Kubernetes API server that clients need in tests: objects, which nothing acts on.

The server can refuse requests and credentials, have an address of IPv6, and speak TLS.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration
from tpcsweep.testbeds.kubernetes.api import Cluster

COLLECTIONS = {"configmaps", "jobs", "networkpolicies", "nodes", "pods", "resourcequotas", "secrets"}
GROUPS = {"jobs": "apis/batch/v1"}
NAMESPACE = "default"

Answer = tuple[int, dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # by which the body of an answer waits for the ACK of its header
    played: PlayedApi

    def do_GET(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        who = self.headers.get("Authorization", "")
        self.answer(*self.played.respond(self.command, self.path, body, who))

    do_POST = do_DELETE = do_GET  # noqa: N815 - as the base class names them

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class PlayedApi:
    """A server, for the length of a `with`; its objects are those of one namespace."""

    handler = Handler

    def __init__(self, address: str = "127.0.0.1", folder: Path | None = None) -> None:
        """`folder` has the certificate of a server that speaks TLS."""
        self.asked: list[tuple[str, str, str]] = []  # verb, address and credentials of each request
        self.accepted: Callable[[str], bool] = lambda _: True
        """Whether credentials are accepted."""
        self.refuse: Callable[[str], int | None] = lambda _: None
        """The status with which a request of a path is refused; None: it is not."""
        self.rules: list[dict[str, Any]] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        """The rights of users, as rules of RBAC, and by `allowed` as resources and verbs that are in no rule."""
        self.allowed: set[tuple[str, str]] = set()
        self.words = "refused"  # the message with which requests are refused
        self._objects: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        settings = {"address_family": family, "request_queue_size": 64, "daemon_threads": True}
        handler = type("Handler", (self.handler,), {"played": self})
        self._http = type("Http", (ThreadingHTTPServer,), settings)((address, 0), handler)
        host = f"[{address}]" if ":" in address else address
        self.url = f"http{'s' if folder else ''}://{host}:{self._http.server_port}"
        if folder:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "host.pem", folder / "host.key")
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)

    def __enter__(self) -> PlayedApi:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def cluster(self) -> Cluster:
        configuration = Configuration()
        configuration.host = self.url
        configuration.retries = False
        return Cluster(configuration, NAMESPACE, "played")

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        with self._lock:
            return self._objects.get(_path(kind, name))

    def put(self, kind: str, body: dict[str, Any]) -> None:
        with self._lock:
            self._objects[_path(kind, body["metadata"]["name"])] = body

    def respond(self, verb: str, address: str, body: Any, who: str) -> Answer:
        url = urlsplit(address)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        with self._lock:
            self.asked.append((verb, address, who))
            if not self.accepted(who):
                return _status(401, "Unauthorized")
            if status := self.refuse(url.path):
                return _status(status, self.words)
            if answer := self._review(url.path.rpartition("/")[2], body):
                return 201, {**body, "status": answer}
            if url.path.rpartition("/")[2] not in COLLECTIONS:
                return _status(404, "not found")
            return self._collection(verb, url.path, query, body)

    def _review(self, kind: str, body: Any) -> dict[str, Any] | None:
        if kind == "selfsubjectrulesreviews":
            return {"incomplete": False, "nonResourceRules": [], "resourceRules": self.rules}
        if kind == "selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            return {"allowed": (asked["resource"], asked["verb"]) in self.allowed}
        return None

    def _collection(self, verb: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if verb == "POST":
            if "dryRun" not in query:
                self._objects[f"{path}/{body['metadata']['name']}"] = body
            return 201, body
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
            return 200, {"kind": "Status", "status": "Success"}
        return 200, {"metadata": {}, "items": list(chosen.values())}


def _path(kind: str, name: str) -> str:
    if kind == "nodes":
        return f"/api/v1/nodes/{name}"
    return f"/{GROUPS.get(kind, 'api/v1')}/namespaces/{NAMESPACE}/{kind}/{name}"


def _status(status: int, message: str) -> Answer:
    return status, {"kind": "Status", "message": message, "code": status}
