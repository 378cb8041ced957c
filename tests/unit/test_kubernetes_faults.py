# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import CoreV1Event, V1Job, V1Node, V1Pod
from tpcsweep.testbeds.kubernetes.faults import (
    Fault,
    diagnose,
    diagnose_job,
    gone,
    progress,
    ready,
    requested,
    room,
    unpulled,
)


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> V1Pod:
    container = {
        "name": "xrootd",
        "image": "registry.example/tpcsweep:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
    }
    made = V1Pod.from_dict(
        {
            "metadata": {"name": "tpc-0a1b2c-src1", "uid": "u", **metadata},
            "spec": {"containers": [container], "nodeName": "worker1", **(spec or {})},
            "status": status,
        }
    )
    assert made is not None
    return made


def container(restarts: int = 0, last: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    return {
        "name": "xrootd",
        "image": "",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }


def waiting(reason: str, message: str = "", phase: str = "Pending") -> V1Pod:
    state = container(waiting={"reason": reason, "message": message})
    return pod({"phase": phase, "containerStatuses": [state]})


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def event(reason: str, message: str, kind: str = "Warning") -> CoreV1Event:
    made = CoreV1Event.from_dict(
        {"metadata": {"name": "e"}, "involvedObject": {}, "reason": reason, "message": message, "type": kind}
    )
    assert made is not None
    return made


RUNNING = {
    "phase": "Running",
    "containerStatuses": [container(running={})],
    "conditions": [condition("Ready", "True"), condition("ContainersReady", "True")],
}
ENDED = {"startedAt": None, "finishedAt": None}


def text(fault: Fault | None, final: bool) -> str:
    assert fault is not None
    assert fault.final is final
    assert "\n" not in str(fault)
    assert str(fault).startswith("pod tpc-0a1b2c-src1: ")
    return fault.text


@pytest.mark.parametrize("state", [{}, {"phase": "Pending"}, RUNNING])
def test_nothing_is_wrong(state: dict[str, Any]) -> None:
    assert diagnose(pod(state)) is None
    assert diagnose(waiting("ContainerCreating")) is None
    assert ready(pod(state)) is (state is RUNNING)


def test_containers_that_are_not_ready_yet_are_no_fault() -> None:
    starting = pod(
        {
            "phase": "Running",
            "containerStatuses": [container(running={})],
            "conditions": [
                condition("Ready", "False", "ContainersNotReady"),
                condition("ContainersReady", "False"),
            ],
        }
    )
    assert diagnose(starting) is None
    assert not ready(starting)
    assert progress(starting) == "Running (not ready) (node worker1)"


def test_images() -> None:
    slow = waiting("ImagePullBackOff", 'Back-off pulling image "registry.example/tpcsweep:1"')
    said = [
        event("Pulling", "Pulling image", "Normal"),
        event("Failed", 'Failed to pull image "registry.example/tpcsweep:1": not\n found'),
        event("Failed", "Error: ImagePullBackOff"),
    ]
    expected = "ImagePullBackOff: image registry.example/tpcsweep:1, pull policy IfNotPresent: "
    assert text(diagnose(slow), final=False).startswith(expected + "Back-off")
    assert text(diagnose(slow, said), final=False) == (
        expected + 'Failed to pull image "registry.example/tpcsweep:1": not found (node worker1)'
    )
    for reason in ("ErrImageNeverPull", "InvalidImageName"):
        assert f"{reason}: image registry.example/tpcsweep:1" in text(diagnose(waiting(reason)), final=True)


def test_configuration_that_is_missing_may_come() -> None:
    fault = diagnose(waiting("CreateContainerConfigError", 'secret "x" not found'))
    assert text(fault, final=False) == (
        'CreateContainerConfigError: container xrootd: secret "x" not found (node worker1)'
    )


def test_unschedulable_says_what_was_requested() -> None:
    words = "0/3 nodes are available: 3 Insufficient cpu."
    crowded = pod(
        {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable", words)]},
        {"nodeName": None, "nodeSelector": {"site": "a"}},
    )
    assert text(diagnose(crowded), final=False) == (
        f"Unschedulable: {words}; it requests cpu 2, memory 4Gi, node label site=a"
    )


def test_room_on_nodes() -> None:
    small = V1Node.from_dict(
        {
            "metadata": {"name": "a"},
            "spec": {"unschedulable": True},
            "status": {"allocatable": {"cpu": "1", "memory": "2Gi"}},
        }
    )
    assert small is not None
    needs = [*requested(pod({})), "example.com/vf 1", "node label site=a"]
    assert room([small], needs) == (
        "nodes to choose from: a (unschedulable, cpu 1, memory 2Gi, example.com/vf none)"
    )
    assert room([], needs) == "no node has these labels"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Evicted", "The node was low on resource: memory."),
        ("SysctlForbidden", 'forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted'),
        ("UnexpectedAdmissionError", "Allocate failed due to no device"),
        ("OutOfcpu", "Node didn't have enough resource: cpu"),
        ("NodeShutdown", "Pod was terminated in response to imminent node shutdown."),
        ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
    ],
)
def test_what_the_kubelet_says_of_a_pod(reason: str, message: str) -> None:
    failed = pod({"phase": "Failed", "reason": reason, "message": message})
    assert text(diagnose(failed), final=True) == f"{reason}: {message} (node worker1)"


def test_out_of_memory_names_the_limit() -> None:
    killed = container(terminated={"reason": "OOMKilled", "exitCode": 137, **ENDED})
    assert text(diagnose(pod({"phase": "Failed", "containerStatuses": [killed]})), final=True) == (
        "OOMKilled: container xrootd ended with exit code 137, its memory limit is 4Gi (node worker1)"
    )


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_an_error_has_an_exit_code_and_a_message(phase: str) -> None:
    ended = container(terminated={"reason": "Error", "exitCode": 3, "message": "no\nport\n", **ENDED})
    assert text(diagnose(pod({"phase": phase, "containerStatuses": [ended]})), final=True) == (
        "Error: container xrootd ended with exit code 3: no port (node worker1)"
    )


def test_of_a_traceback_the_end_is_told() -> None:
    traceback = "\n".join(["Traceback:", *["  in a line"] * 100, "PermissionError: denied"])
    ended = container(terminated={"reason": "Error", "exitCode": 1, "message": traceback, **ENDED})
    told = text(diagnose(pod({"phase": "Failed", "containerStatuses": [ended]})), final=True)
    assert told.endswith("in a line PermissionError: denied (node worker1)")


@pytest.mark.parametrize("noise", [1, 100])
def test_no_token_is_told(noise: int) -> None:
    lines = ["a.token cut by the kubelet"] * (noise > 1) + [
        "GET /file?authz=Bearer%20secret.token HTTP/1.1"
    ] * noise
    message = "\n".join([*lines, "xrootd ended with exit code 1"])
    ended = container(terminated={"reason": "Error", "exitCode": 1, "message": message, **ENDED})
    told = text(diagnose(pod({"phase": "Failed", "containerStatuses": [ended]})), final=True)
    assert told.endswith("authz=[removed] HTTP/1.1 xrootd ended with exit code 1 (node worker1)")
    assert "token" not in told


def test_a_server_that_ends_well_has_ended_all_the_same() -> None:
    ended = container(terminated={"reason": "Completed", "exitCode": 0, **ENDED})
    fault = diagnose(pod({"phase": "Succeeded", "containerStatuses": [ended]}))
    assert text(fault, final=True).startswith("Completed: container xrootd ended with exit code 0")


def test_a_container_that_was_started_again() -> None:
    before = {"terminated": {"reason": "Error", "exitCode": 1, **ENDED}}
    again = pod({"phase": "Running", "containerStatuses": [container(1, before, running={})]})
    assert "exit code 1, and was started again" in text(diagnose(again), final=True)


def test_an_init_container_may_end_but_not_fail() -> None:
    spec = {"initContainers": [{"name": "xrootd", "image": "i"}]}
    for code, wrong in ((0, False), (1, True)):
        ended = container(terminated={"exitCode": code, **ENDED})
        fault = diagnose(pod({"phase": "Pending", "initContainerStatuses": [ended]}, spec))
        assert (fault is not None) is wrong


def test_a_node_that_is_not_heard_of() -> None:
    silent = pod(
        {**RUNNING, "conditions": [condition("Ready", "False"), condition("ContainersReady", "True")]}
    )
    assert text(diagnose(silent), final=True) == (
        "NodeNotReady: nothing is heard of it any more (node worker1)"
    )


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
        ("EvictionByEvictionAPI", "Eviction API: evicting"),
    ],
)
def test_disruptions(reason: str, message: str) -> None:
    conditions = [condition("DisruptionTarget", "True", reason, message)]
    before = pod({**RUNNING, "conditions": conditions})
    assert text(diagnose(before), final=True) == f"{reason}: {message} (node worker1)"
    going = pod({**RUNNING, "conditions": conditions}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert text(diagnose(going), final=True) == f"{reason}: {message}; it is being deleted (node worker1)"
    assert text(gone(going), final=True) == f"{reason}: {message}; it was deleted (node worker1)"


def test_deletion_by_somebody() -> None:
    going = pod(RUNNING, deletionTimestamp="2026-01-01T00:00:00Z")
    assert not ready(going)
    assert text(diagnose(going), final=True) == (
        "Deleted: not by this process; it is being deleted (node worker1)"
    )
    lost = pod({**RUNNING, "reason": "NodeLost", "message": "Node worker1 is unresponsive"})
    assert text(gone(lost), final=True) == (
        "NodeLost: Node worker1 is unresponsive; it was deleted (node worker1)"
    )


def test_progress_names_the_last_warning() -> None:
    stuck = waiting("ContainerCreating")
    said = [event("FailedMount", "first"), event("FailedCreatePodSandBox", "no\nnetwork")]
    assert progress(stuck, said) == (
        "Pending (ContainerCreating) (node worker1): FailedCreatePodSandBox: no network"
    )


def job(**status: Any) -> V1Job:
    return V1Job.from_dict({"metadata": {"name": "tpc-0a1b2c"}, "status": status})


def test_jobs() -> None:
    over = condition("Failed", "True", "DeadlineExceeded", "Job was active too long")
    text = "Job tpc-0a1b2c: DeadlineExceeded: Job was active too long"
    assert diagnose_job(job(conditions=[over])) == Fault("tpc-0a1b2c", text, final=True)
    quota = [event("FailedCreate", 'Error creating: pods "x" is forbidden: exceeded quota: q')]
    refused = diagnose_job(job(), quota)
    assert refused is not None
    assert refused.final
    assert "exceeded quota: q" in refused.text
    assert diagnose_job(job(active=1), quota) is None
    passing = diagnose_job(job(), [event("FailedCreate", "Internal error occurred: webhook")])
    assert passing is not None
    assert not passing.final


def test_a_job_adds_nothing_to_how_its_pod_has_ended() -> None:
    failed = condition(
        "Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    )
    assert diagnose_job(job(failed=1, conditions=[failed])) is None


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"]
)
def test_an_image_that_cannot_be_pulled_is_known_from_its_first_failure_on(reason: str) -> None:
    assert unpulled(waiting(reason))


@pytest.mark.parametrize("reason", ["ContainerCreating", "CreateContainerConfigError"])
def test_an_image_that_is_being_pulled_is_waited_for(reason: str) -> None:
    assert not unpulled(waiting(reason))


# Whose fault it is: a cell fails by the end of a server or a tool alone


def named(name: str, code: int, reason: str = "Error") -> dict[str, Any]:
    return {**container(terminated={"reason": reason, "exitCode": code, **ENDED}), "name": name}


OWN = [named("agent", 0), named("servers", 139)]


@pytest.mark.parametrize(
    ("status", "own"),
    [
        ({"phase": "Failed", "containerStatuses": OWN}, True),
        ({"phase": "Running", "containerStatuses": OWN}, True),
        ({"phase": "Failed", "containerStatuses": [named("client", 137, "OOMKilled")]}, True),
        # What watches takes what it watches along.
        ({"phase": "Failed", "containerStatuses": [named("agent", 137), named("servers", 1)]}, False),
        ({"phase": "Failed", "containerStatuses": [named("client", 0), named("hub", 1)]}, False),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": OWN}, False),
        ({"phase": "Failed", "reason": "NodeShutdown", "containerStatuses": OWN}, False),
        (
            {
                "phase": "Failed",
                "containerStatuses": OWN,
                "conditions": [condition("DisruptionTarget", "True", "TerminationByKubelet", "")],
            },
            False,
        ),
        (
            {**RUNNING, "conditions": [condition("Ready", "False"), condition("ContainersReady", "True")]},
            False,
        ),
        (
            {**RUNNING, "conditions": [condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "")]},
            False,
        ),
    ],
)
def test_whether_a_server_or_a_tool_has_ended_or_was_ended(status: dict[str, Any], own: bool) -> None:
    fault = diagnose(pod(status))
    assert fault is not None
    assert fault.own is own


def test_a_pod_that_was_deleted_had_ended_before_or_not() -> None:
    assert gone(pod({"phase": "Failed", "containerStatuses": OWN})).own
    assert not gone(pod(RUNNING)).own
    going = pod({"phase": "Running", "containerStatuses": OWN}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert not gone(going).own
    fault = diagnose(going)
    assert fault is not None
    assert not fault.own
