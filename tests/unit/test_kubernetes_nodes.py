# SPDX-License-Identifier: Apache-2.0
"""Nodes that other deployments use: how they are told, and what a deployment does until they are free."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import V1Pod
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.kubernetes import testbed, watch
from tpcsweep.testbeds.kubernetes.api import RefusedError
from tpcsweep.testbeds.kubernetes.faults import nodes_in_use
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.watch import OccupiedError, PodError, PodWatch

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes

NAMING = Naming("aaaaaa", "a sweep", "rtt=20")
SETTINGS = kubernetes()
SAID = (
    "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't match Pod's node "
    "affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful.",
    "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
)
"""What the scheduler of Kubernetes 1.34 says of a node that others have: by a pod's own rule, by that of others."""


def waiting(message: str) -> V1Pod:
    """A pod that the scheduler has not placed."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    content = {
        "metadata": {"name": "tpc-aaaaaa-src1", "uid": "u"},
        "spec": {"containers": [{"name": "servers"}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return V1Pod.model_validate(content)


def test_nodes_that_others_use_are_told_by_the_scheduler_from_other_reasons() -> None:
    affinity = "didn't match Pod's node affinity/selector"
    others = f"1 Insufficient cpu, 2 node(s) {affinity}.", "3 node(s) didn't match pod affinity rules.", ""
    assert [nodes_in_use(waiting(message)) for message in SAID] == [*SAID]
    assert not any(nodes_in_use(waiting(f"0/3 nodes are available: {message}")) for message in others)
    assert nodes_in_use(waiting("")) is nodes_in_use(V1Pod()) is None


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Iterator[PodWatch]:
    """A watch that sees what it is shown."""
    for name, answer in {"_list": None, "_run": None, "_unready": "its pods", "_job_problem": None}.items():
        monkeypatch.setattr(PodWatch, name, lambda *_, answer=answer, **__: answer)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.01)
    made = PodWatch(None, NAMING)  # type: ignore[arg-type]
    yield made
    made.close()


def test_pods_hold_their_nodes_for_a_while_only(looking: PodWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    looking._see(waiting(SAID[0]))
    # There is time; there is none left; a trial.
    for seconds, hold, patient in ((600.0, 0.02, True), (0.0, 0.02, True), (600.0, 3600.0, False)):
        monkeypatch.setattr(watch, "HOLD_SECONDS", hold)
        looking._patient = patient
        with pytest.raises(OccupiedError, match="didn't match pod anti-affinity rules"):
            looking.running(2, seconds)


def test_a_full_node_is_none_that_others_use(looking: PodWatch) -> None:
    looking._see(waiting("0/1 nodes are available: 1 Insufficient cpu."))
    with pytest.raises(PodError, match="not running after 0 s: its pods") as raised:
        looking.running(1, 0.1)
    assert not isinstance(raised.value, OccupiedError)


def test_waiting_for_nodes_in_use_holds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, stages = list[str](), list[str]()
    in_use = [True, True, False]

    @contextlib.contextmanager
    def placed(_settings: object, _request: object, turn: int) -> Iterator[Any]:
        log.append(f"placed {turn}")
        try:
            yield SimpleNamespace(everywhere=True)
        finally:
            log.append(f"given back {turn}")

    @contextlib.contextmanager
    def running(*_: object) -> Iterator[str]:
        if in_use.pop(0):
            raise OccupiedError("0/3 nodes are available")
        yield "pods"
        log.append("torn down")

    monkeypatch.setattr(testbed, "placed", placed)
    monkeypatch.setattr(testbed, "running", running)
    monkeypatch.setattr(testbed, "LET_GO_SECONDS", 0.0)
    monkeypatch.setattr(testbed.signals, "heed", lambda: log.append("heeded"))
    wanted = DeploymentParameters(rtt=20, bandwidth=1, mtu=1500)
    request = Request("a sweep", "rtt=20", wanted, [], 60, tmp_path, stages.append)
    with testbed.standing(SETTINGS, request) as (_, pods):
        assert pods == "pods"
        log.append("up")
    assert log == [
        *("placed 0", "given back 0", "heeded"),
        *("placed 1", "given back 1", "heeded"),
        *("placed 2", "up", "torn down", "given back 2"),
    ]
    said = "waiting for nodes that other deployments use: 0/3 nodes are available"
    assert stages == ["deploying rtt=20", said]


def test_no_pod_is_made_to_see_whether_nodes_can_be_kept_from_all_namespaces(server: PlayedApi) -> None:
    assert testbed._everywhere(server.cluster(), SETTINGS, NAMING)
    assert [verb for verb, _ in server.asked] == ["POST"]
    assert server.get("pods", "tpc-aaaaaa-src1") is None
    # What keeps pods from being made at all is raised.
    for status in (403, 404):
        server.refuse = lambda *_, status=status: status
        with pytest.raises(RefusedError, match="refused"):
            testbed._everywhere(server.cluster(), SETTINGS, NAMING)
