# SPDX-License-Identifier: Apache-2.0
"""The way to an API server over real sockets: proxies, credentials that rotate, several kubeconfigs, IPv6."""

from __future__ import annotations

import base64
import http.client
import json
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.client import ApiException
from kubernetes.stream import stream
from tpcsweep.testbeds.kubernetes import api
from tpcsweep.testbeds.kubernetes import session as module
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.xrootd import credentials

from tests.support.testbeds import kubernetes

EXEC = "exec"
V6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


class Server:
    """An HTTP server on loopback: what was asked of it, as verb, path and the header that says who asks."""

    def __init__(self, address: str = "127.0.0.1", folder: Path | None = None) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.accepted: Callable[[str], bool] = lambda _: True
        family = {
            "address_family": socket.AF_INET6 if ":" in address else socket.AF_INET,
            "request_queue_size": 64,
        }
        handler = type("Handler", (self.handler,), {"server_of": self})
        self._http = type("Http", (ThreadingHTTPServer,), family)((address, 0), handler)
        self._http.daemon_threads = True
        host = f"[{address}]" if ":" in address else address
        self.url = f"http{'s' if folder else ''}://{host}:{self._http.server_port}"
        if folder:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "host.pem", folder / "host.key")
            context.load_verify_locations(folder / "ca.pem")
            context.verify_mode = ssl.CERT_OPTIONAL
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)

    def __enter__(self) -> Server:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.asked]

    class handler(BaseHTTPRequestHandler):  # noqa: N801
        """An API server: it has no Jobs, no pods, and accepts whom it is told to."""

        server_of: Server
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            who = self.headers.get("Authorization", "")
            verb = EXEC if "/exec?" in self.path else "list"
            self.server_of.asked.append((verb, self.path, who))
            if not self.server_of.accepted(who):
                self.answer(401, {"kind": "Status", "message": "Unauthorized", "code": 401})
            elif verb == EXEC:
                self.answer(404, {"kind": "Status", "message": "no such pod", "code": 404})
            else:
                self.answer(200, {"kind": "JobList", "metadata": {}, "items": []})

        def answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass


class Proxy(Server):
    """A proxy that carries both tunnels and plain requests."""

    class handler(Server.handler):  # noqa: N801
        def do_CONNECT(self) -> None:
            who = self.headers.get("Proxy-Authorization", "")
            self.server_of.asked.append(("CONNECT", self.path, who))
            if not self.server_of.accepted(who):
                self.answer(407, {})
                return
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as there:
                self.send_response(200)
                self.end_headers()
                ends = {self.connection: there, there: self.connection}
                while True:
                    for end in select.select([*ends], [], [])[0]:
                        with suppress(ConnectionError):
                            text = b""
                            text = end.recv(65536)
                        if not text:
                            self.close_connection = True
                            return
                        ends[end].sendall(text)

        def do_GET(self) -> None:
            who = self.headers.get("Proxy-Authorization", "")
            self.server_of.asked.append(("GET", self.path, who))
            url = urlsplit(self.path)
            there = http.client.HTTPConnection(url.netloc)
            there.request("GET", f"{url.path}?{url.query}", headers=dict(self.headers))
            answer = there.getresponse()
            self.answer(answer.status, json.loads(answer.read()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority, certificates of a server on loopback and of a user."""
    made = tmp_path_factory.mktemp("tls") / "credentials"
    credentials.create_credentials(made, ["127.0.0.1", "::1"], (os.getuid(), os.getgid()))
    return made


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(tmp_path / "kubeconfig"))


def kubeconfig(path: Path, server: str, user: dict[str, Any], name: str = "c", **cluster: Any) -> None:
    content = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
        "users": [{"name": name, "user": user}],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))


def connect(tmp_path: Path, server: Server, folder: Path, **cluster: Any) -> Cluster:
    authority = {"certificate-authority": str(folder / "ca.pem"), **cluster}
    kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "t"}, **authority)
    return api.connect_cluster(kubernetes())


def start_command(cluster: Cluster) -> None:
    with pytest.raises(ApiException):
        stream(cluster.streaming().connect_get_namespaced_pod_exec, "p", "c", command=["x"], stdout=True)


@contextmanager
def both(folder: Path, address: str, scheme: str) -> Iterator[tuple[Server, Proxy]]:
    with Server(address, folder if scheme == "https" else None) as server, Proxy() as proxy:
        yield server, proxy


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("exempt", "proxied"), [("127.0.0.1", False), ("", True), ("10.0.0.0/8", True)])
def test_rest_and_exec_go_by_the_proxy_with_its_password(
    scheme: str, exempt: str, proxied: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with both(folder, "127.0.0.1", scheme) as (server, proxy):
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://user:p%40ss@{urlsplit(proxy.url).netloc}")
        monkeypatch.setenv("NO_PROXY", exempt)
        cluster = connect(tmp_path, server, folder)
        start_command(cluster)
        basic = f"Basic {base64.b64encode(b'user:p@ss').decode()}"
        assert [who for _, _, who in proxy.asked] == [basic, basic] * proxied
        assert server.verbs() == ["list", EXEC]


def test_the_proxy_of_a_kubeconfig_is_used(folder: Path, tmp_path: Path) -> None:
    with both(folder, "127.0.0.1", "https") as (server, proxy):
        cluster = connect(tmp_path, server, folder, **{"proxy-url": proxy.url})
        start_command(cluster)
        assert proxy.verbs() == ["CONNECT", "CONNECT"]


def test_a_proxy_that_hangs_or_refuses_ends_a_session_in_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)
    with both(folder, "127.0.0.1", "https") as (server, proxy), ExitStack() as undo:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        cluster = connect(tmp_path, server, folder)
        proxy.accepted = lambda _: False
        refused = Session(cluster, "tpc-1", 0.2, lambda _: None)
        with pytest.raises(SessionError, match="status: 407"):
            refused.ask("clock")
        hang = threading.Event()
        undo.callback(hang.set)
        proxy.accepted = lambda _: hang.wait()
        hung = Session(cluster, "tpc-1", 60.0, lambda _: None)
        with pytest.raises(SessionError, match="has not answered"):
            hung.ask("clock", 0.1)
        hung.close()  # it returns


# Credentials


PLUGIN = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
test -e "$(dirname "$0")/token" || { echo the identity provider is down >&2; exit 1; }
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {"token": "'$(cat "$(dirname "$0")/token")'"%s}}'
"""
MINUTE = ', "expirationTimestamp": "2026-01-01T00:01:00Z"'


@pytest.mark.parametrize("kind", ["plugin", "plugin of a minute", "tokenFile", "kubeconfig"])
def test_a_sweep_goes_on_when_its_token_is_replaced(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    token, place = tmp_path / "token", tmp_path / "kubeconfig"
    with Server(folder=folder) as server:
        valid = ""

        def rotate(name: str) -> None:
            nonlocal valid
            valid = name
            token.write_text(f"{name}\n")
            user: dict[str, Any] = {"token": name}
            if kind == "tokenFile":
                user = {"tokenFile": "token"}
            elif kind.startswith("plugin"):
                plugin = tmp_path / "plugin"
                plugin.write_text(PLUGIN % (MINUTE if "minute" in kind else ""))
                plugin.chmod(0o755)
                version = "client.authentication.k8s.io/v1"
                user = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}
            kubeconfig(place, server.url, user, **{"certificate-authority": str(folder / "ca.pem")})

        server.accepted = lambda who: who == f"Bearer {valid}"
        rotate("first")
        cluster = api.connect_cluster(kubernetes())
        for name in ("second", "third"):
            rotate(name)
            for _ in range(5):
                call(cluster.batch.list_namespaced_job, "c", seconds=0)
        rotate("fourth")
        session = Session(cluster, "tpc-1", 60.0, lambda _: None)
        with pytest.raises(SessionError, match="has not answered"):
            session.ask("clock", 0.5)
        session.close()
        asked = [who for verb, _, who in server.asked if verb == EXEC]
        assert asked[0] == "Bearer third"
        assert set(asked[1:]) == {"Bearer fourth"}
        if kind.startswith("plugin"):  # once for each token, not for each request
            assert len((tmp_path / "runs").read_text().split()) == 4


def test_threads_that_are_refused_together_renew_once(folder: Path, tmp_path: Path) -> None:
    with Server(folder=folder) as server:
        cluster = connect(tmp_path, server, folder)
        kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "new"})
        server.accepted = lambda who: who == "Bearer new"
        failures = []

        def ask() -> None:
            try:
                call(cluster.batch.list_namespaced_job, "c", seconds=0)
            except ClusterError as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_a_token_that_stays_wrong_is_refused_once(folder: Path, tmp_path: Path) -> None:
    with Server(folder=folder) as server:
        server.accepted = lambda _: False
        with pytest.raises(ClusterError, match="does not accept the credentials"):
            connect(tmp_path, server, folder)
        assert len(server.asked) == 1


# Kubeconfigs


@V6
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_api_server_has_an_address_of_ipv6(scheme: str, folder: Path, tmp_path: Path) -> None:
    with both(folder, "::1", scheme) as (server, _):
        cluster = connect(tmp_path, server, folder)
        start_command(cluster)
        assert server.verbs() == ["list", EXEC]
        assert server.url in cluster.name


def test_kubeconfigs_are_merged(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(folder=folder) as server:
        authority = {"certificate-authority": str(folder / "ca.pem")}
        first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
        kubeconfig(first, server.url, {"token": "one"}, "one", **authority)
        kubeconfig(second, server.url, {"token": "two"}, "two", **authority)
        monkeypatch.setenv("TPCSWEEP_KUBECONFIG", f"{tmp_path}/missing::{first}:{second}")
        for name in ("one", "two"):
            assert api.connect_cluster(kubernetes(context=name)).namespace == name
        assert [who for _, _, who in server.asked] == ["Bearer one", "Bearer two"]
        with pytest.raises(ClusterError, match=r"no usable kubeconfig: .*three"):
            api.connect_cluster(kubernetes(context="three"))
