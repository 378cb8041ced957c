# SPDX-License-Identifier: Apache-2.0
"""Nodes that other deployments use: how they are told, and what a deployment does until they are free."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import V1Pod
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.kubernetes import rehearsal, testbed
from tpcsweep.testbeds.kubernetes.api import RefusedError
from tpcsweep.testbeds.kubernetes.faults import OCCUPIED, unscheduled
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.watch import OccupiedError

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
    assert all(OCCUPIED in unscheduled(waiting(message)) for message in SAID)
    assert not any(OCCUPIED in unscheduled(waiting(message)) for message in others)
    assert unscheduled(V1Pod()) == ""


def test_waiting_for_nodes_in_use_holds_nothing(
    server: PlayedApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, stages, identifiers = list[str](), list[str](), set[str]()
    in_use = [True, True, False]

    @contextlib.contextmanager
    def running(_: object, naming: Naming, *__: object) -> Iterator[str]:
        identifiers.add(naming.identifier)
        if in_use.pop(0):
            raise OccupiedError("0/3 nodes are available")
        yield "pods"
        log.append("torn down")

    monkeypatch.setattr(testbed, "deployed_objects", running)
    monkeypatch.setattr(testbed, "LET_GO_SECONDS", 0.0)
    monkeypatch.setattr(testbed.signals, "restore_signals", lambda: log.append("heeded"))
    wanted = DeploymentParameters(rtt=20, bandwidth=1, mtu=1500)
    request = Request("a sweep", "rtt=20", wanted, [], 60, tmp_path, stages.append)
    with testbed.running_pods(server.cluster(), SETTINGS, request) as pods:
        assert pods == "pods"  # type: ignore[comparison-overlap]
        log.append("up")
    assert log == ["heeded", "heeded", "up", "torn down"]
    assert len(identifiers) == 3
    said = "waiting for nodes that other deployments use: 0/3 nodes are available"
    assert stages == ["deploying rtt=20", said, "deploying rtt=20", "deploying rtt=20"]


def test_no_pod_is_made_to_see_whether_nodes_can_be_kept_from_all_namespaces(server: PlayedApi) -> None:
    assert rehearsal.within_quota(server.cluster(), SETTINGS, NAMING).everywhere
    assert [verb for verb, _ in server.asked] == ["POST"]
    assert server.get("pods", "tpc-aaaaaa") is None
    # What keeps pods from being made at all is raised.
    for status in (403, 404):
        server.refuse = lambda *_, status=status: status
        with pytest.raises(RefusedError, match="refused"):
            rehearsal.within_quota(server.cluster(), SETTINGS, NAMING)
