# SPDX-License-Identifier: Apache-2.0
"""The way to an API server over real sockets: proxies, credentials that rotate, kubeconfigs, IPv6, refusals."""

from __future__ import annotations

import base64
import http.client
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.testbeds.kubernetes import api
from tpcsweep.testbeds.kubernetes import session as module
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call
from tpcsweep.testbeds.kubernetes.session import Session, SessionError

from tests.support.played_api import Handler, PlayedApi
from tests.support.testbeds import kubernetes

EXEC = "/exec?"


class Proxy(PlayedApi):
    """A proxy that carries both tunnels and plain requests."""

    class handler(Handler):  # noqa: N801
        def do_CONNECT(self) -> None:  # noqa: N802
            who = self.headers.get("Proxy-Authorization", "")
            self.played.asked.append(("CONNECT", self.path, who))
            if not self.played.accepted(who):
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

        def do_GET(self) -> None:  # noqa: N802
            who = self.headers.get("Proxy-Authorization", "")
            self.played.asked.append(("GET", self.path, who))
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


def connect(tmp_path: Path, server: PlayedApi, folder: Path, **cluster: Any) -> Cluster:
    authority = {"certificate-authority": str(folder / "ca.pem"), **cluster}
    kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "t"}, **authority)
    return api.connect_cluster(kubernetes())


def kinds(server: PlayedApi) -> list[str]:
    return [EXEC if EXEC in path else "list" for _, path, _ in server.asked]


def start_command(cluster: Cluster) -> None:
    with pytest.raises(RefusedError):
        cluster.execute("p", "c", ["x"])


@contextmanager
def both(folder: Path, scheme: str = "https") -> Iterator[tuple[PlayedApi, Proxy]]:
    with PlayedApi(folder=folder if scheme == "https" else None) as server, Proxy() as proxy:
        yield server, proxy


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("exempt", "proxied"), [("127.0.0.1", False), ("", True), ("10.0.0.0/8", True)])
def test_rest_and_exec_go_by_the_proxy_with_its_password(
    scheme: str, exempt: str, proxied: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with both(folder, scheme) as (server, proxy):
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://user:p%40ss@{urlsplit(proxy.url).netloc}")
        monkeypatch.setenv("NO_PROXY", exempt)
        cluster = connect(tmp_path, server, folder)
        start_command(cluster)
        basic = f"Basic {base64.b64encode(b'user:p@ss').decode()}"
        assert [who for _, _, who in proxy.asked] == [basic, basic] * proxied
        assert kinds(server) == ["list", EXEC]


def test_the_proxy_of_a_kubeconfig_is_used(folder: Path, tmp_path: Path) -> None:
    with both(folder) as (server, proxy):
        cluster = connect(tmp_path, server, folder, **{"proxy-url": proxy.url})
        start_command(cluster)
        assert [verb for verb, *_ in proxy.asked] == ["CONNECT", "CONNECT"]


def test_a_proxy_that_hangs_or_refuses_ends_a_session_in_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)
    with both(folder) as (server, proxy), ExitStack() as undo:
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
    with PlayedApi(folder=folder) as server:
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
        for _ in range(60):  # a plugin is a process, which takes its time on a busy machine
            with pytest.raises(SessionError, match="has not answered"):
                session.ask("clock", 0.5)
            asked = [who for _, path, who in server.asked if EXEC in path]
            if len(asked) > 1:
                break
        session.close()
        assert asked[0] == "Bearer third"
        assert set(asked[1:]) == {"Bearer fourth"}
        if kind.startswith("plugin"):  # once for each token, not for each request
            assert len((tmp_path / "runs").read_text().split()) == 4


def test_threads_that_are_refused_together_renew_once(folder: Path, tmp_path: Path) -> None:
    with PlayedApi(folder=folder) as server:
        cluster = connect(tmp_path, server, folder)
        kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "new"})
        server.accepted = lambda who: who == "Bearer new"
        ask = partial(call, cluster.batch.list_namespaced_job, "c", seconds=0)
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask) for _ in range(8)]
        assert [future.exception() for future in asked] == [None] * 8


# Kubeconfigs


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_api_server_has_an_address_of_ipv6(scheme: str, folder: Path, tmp_path: Path) -> None:
    with PlayedApi("::1", folder if scheme == "https" else None) as server:
        cluster = connect(tmp_path, server, folder)
        start_command(cluster)
        assert kinds(server) == ["list", EXEC]
        assert server.url in cluster.name


def test_kubeconfigs_are_merged(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PlayedApi(folder=folder) as server:
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


def test_a_missing_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_KUBECONFIG", str(tmp_path / "nowhere"))
    names = r"\$TPCSWEEP_KUBECONFIG names .*nowhere, which does not exist: correct"
    with pytest.raises(ClusterError, match=names):
        api.connect_cluster(kubernetes())
    for name in ("TPCSWEEP_KUBECONFIG", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClusterError, match=r"there is no ~/\.kube/config, and this is not a pod"):
        api.connect_cluster(kubernetes())
