# SPDX-License-Identifier: Apache-2.0
"""What an API server refuses, in one line, and how soon a conversation with the hub gives up because of it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiException, Configuration
from tpcsweep.testbeds.kubernetes import session as module
from tpcsweep.testbeds.kubernetes.api import Cluster, explain_error
from tpcsweep.testbeds.kubernetes.session import Session, SessionError

from tests.support.workflow import Sweep, finished

FORBIDDEN = (
    'pods "tpc-0a1b2c" is forbidden: User "jane" cannot get resource "pods/exec" in API group "" '
    'in the namespace "sweeps"'
)
Answering = Callable[..., tuple[Cluster, list[str]]]


def status(code: int, reason: str, message: str) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


REFUSED = 403, status(403, "Forbidden", FORBIDDEN)
BUSY = 503, status(503, "ServiceUnavailable", "the server is starting")


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A cluster whose API server gives these answers, the last one for ever, and what it was asked."""
    running: list[ThreadingHTTPServer] = []

    def answer(*answers: tuple[int, bytes]) -> tuple[Cluster, list[str]]:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = answers[min(len(asked), len(answers) - 1)]
                asked.append(self.path)
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any, **__: Any) -> None:
                """Nothing."""

        running.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{running[-1].server_port}"
        return Cluster(configuration, "sweeps", "a cluster"), asked

    yield answer
    for server in running:
        server.shutdown()
        server.server_close()


def told(cluster: Cluster) -> str:
    """Why the hub cannot be asked anything."""
    talk = Session(cluster, "tpc-0a1b2c", 3600.0, lambda _: None)
    with pytest.raises(SessionError) as raised:
        talk.ask("clock")
    talk.close()
    return str(raised.value)


def test_a_right_that_is_lacking_ends_a_conversation_soon_and_is_told_in_one_line(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.1)
    cluster, asked = answering(REFUSED)
    lacks = r"jane lacks the right to get pods/exec in namespace sweeps \(403\)"
    assert re.fullmatch(rf"tpc-0a1b2c is out of reach for \d+ s: {lacks}", told(cluster))
    assert asked[0].startswith("/api/v1/namespaces/sweeps/pods/tpc-0a1b2c/exec?")


def test_a_server_that_is_starting_is_waited_for(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.01)
    cluster, asked = answering(REFUSED, BUSY, BUSY, BUSY, REFUSED)
    assert "lacks the right" in told(cluster)
    assert len(asked) == 6  # what is refused is asked once more


def test_a_namespace_that_is_not_there_is_named_with_what_to_do() -> None:
    missing = status(404, "NotFound", 'namespaces "nowhere" not found').decode()
    assert explain_error(ApiException(status=404, reason="Not Found", body=missing)) == (
        "there is no namespace nowhere: kubectl create namespace nowhere, or correct `namespace` of the testbed"
    )


def test_a_missing_kubeconfig_is_told_once_however_many_deployments_there_are(tmp_path: Path) -> None:
    paths = {"kind": "netem", "pairs": [{}]}
    testbed = {"kind": "kubernetes", "image": "example/tpcsweep:1", "bandwidth": "1 Gbit/s", "paths": paths}
    (tmp_path / "nowhere.yaml").write_text(yaml.safe_dump(testbed))
    sweep = Sweep(tmp_path).define(parameters={"cores": [0.5, 1], "bandwidth": "1 Gbit/s", "tool": "curl"})
    missing = f"{tmp_path}/kubeconfig"
    command = sweep.command("--profile", "k8s", "cells")
    done = finished(["env", f"TPCSWEEP_KUBECONFIG={missing}", *command, f"testbed={tmp_path}/nowhere.yaml"])
    assert done.returncode != 0
    said = f"$TPCSWEEP_KUBECONFIG names {missing}, which does not exist: correct it or unset it"
    assert done.stdout.count(said) == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "Error in rule" not in done.stdout
