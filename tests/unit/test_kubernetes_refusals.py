# SPDX-License-Identifier: Apache-2.0
"""What an API server refuses, in one line, and how soon a conversation with the hub gives up because of it."""

import re
from pathlib import Path

import pytest
from tpcsweep.testbeds.kubernetes import api
from tpcsweep.testbeds.kubernetes import session as module
from tpcsweep.testbeds.kubernetes.api import ClusterError
from tpcsweep.testbeds.kubernetes.session import Session, SessionError

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes

FORBIDDEN = (
    'pods "tpc-0a1b2c" is forbidden: User "jane" cannot get resource "pods/exec" in API group "" '
    'in the namespace "sweeps"'
)
LACKS = rf"{re.escape(FORBIDDEN)} \(403\)"


def told(server: PlayedApi, *answers: int) -> str:
    """Why the hub cannot be asked anything of a server that gives these answers, and then refuses for ever."""
    server.words = FORBIDDEN
    rest = iter(answers)
    server.refuse = lambda *_: next(rest, 403)
    talk = Session(server.cluster(), "tpc-0a1b2c", 3600.0, lambda _: None)
    with pytest.raises(SessionError) as raised:
        talk.ask("clock")
    talk.close()
    return str(raised.value)


def test_a_right_that_is_lacking_ends_a_conversation_soon_and_is_told_in_one_line(
    server: PlayedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.1)
    assert re.fullmatch(rf"tpc-0a1b2c is out of reach for \d+ s: {LACKS}", told(server))
    assert server.asked[0][1].startswith("/api/v1/namespaces/default/pods/tpc-0a1b2c/exec?")


def test_a_server_that_is_starting_is_waited_for(server: PlayedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.01)
    assert re.search(LACKS, told(server, 403, 503, 503, 503))
    assert len(server.asked) == 6  # what is refused is asked once more


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
