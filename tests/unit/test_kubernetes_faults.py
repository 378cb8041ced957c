# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from kubernetes.client import CoreV1Event, V1Job, V1Pod
from tpcsweep.testbeds.kubernetes.faults import (
    OCCUPIED,
    Fault,
    diagnose,
    diagnose_job,
    gone,
    progress,
    ready,
    unpulled,
    unscheduled,
)


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> V1Pod:
    container = {
        "name": "servers",
        "image": "registry.example/tpcsweep:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
    }
    content = {
        "metadata": {"name": "tpc-0a1b2c-src1", "uid": "u", **metadata},
        "spec": {"containers": [container], "nodeName": "worker1", **(spec or {})},
        "status": status,
    }
    return V1Pod.model_validate(content)


def container(name: str = "servers", **state: Any) -> dict[str, Any]:
    of = {"name": name, "image": "", "imageID": "", "ready": "running" in state, "restartCount": 0}
    return {**of, "state": state}


def ended(code: int, reason: str = "Error", message: str = "", name: str = "servers") -> dict[str, Any]:
    times = {"startedAt": None, "finishedAt": None}
    return container(name, terminated={"reason": reason, "exitCode": code, "message": message, **times})


def of(*containers: dict[str, Any], phase: str = "Failed", **status: Any) -> dict[str, Any]:
    """The status of a pod with containers."""
    return {"phase": phase, "containerStatuses": list(containers), **status}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def event(reason: str, message: str, kind: str = "Warning") -> CoreV1Event:
    about = {"metadata": {"name": "e"}, "involvedObject": {}}
    return CoreV1Event.model_validate({**about, "reason": reason, "message": message, "type": kind})


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return of(container(waiting={"reason": reason, "message": message}), phase="Pending")


def disrupted(reason: str, message: str = "") -> dict[str, Any]:
    return {"conditions": [condition("DisruptionTarget", "True", reason, message)]}


def running(ready: str, containers: str) -> dict[str, Any]:
    """The status of a running pod, with the status of its conditions."""
    conditions = [condition("Ready", ready), condition("ContainersReady", containers)]
    return of(container(running={}), phase="Running", conditions=conditions)


RUNNING, SILENT, STARTING = running("True", "True"), running("False", "True"), running("False", "False")
EVICTED = "EvictionByEvictionAPI", "Eviction API: evicting"
ENDED_WITH = "container servers ended with exit code"
IMAGE = "image registry.example/tpcsweep:1, pull policy IfNotPresent"


def described(fault: Fault) -> tuple[str, bool, bool]:
    assert str(fault) == f"pod tpc-0a1b2c-src1: {fault.text}"
    return fault.text, fault.final, fault.own


@pytest.mark.parametrize("status", [{"phase": "Pending"}, waiting("ContainerCreating"), STARTING, RUNNING])
def test_nothing_is_wrong(status: dict[str, Any]) -> None:
    assert diagnose(pod(status)) is None
    assert ready(pod(status)) is (status is RUNNING)


PASSING, FINAL, OURS = (False, False), (True, False), (True, True)
"""Whether a fault is final, and whether it is a server's or a tool's own: by these alone a cell fails."""
WRONG: dict[tuple[bool, bool], list[Any]] = {
    PASSING: [
        (waiting("ImagePullBackOff", "Back-off"), f"ImagePullBackOff: {IMAGE}: Back-off"),
        (waiting("CreateContainerConfigError", "x"), "CreateContainerConfigError: container servers: x"),
    ],
    FINAL: [
        (waiting("ErrImageNeverPull"), f"ErrImageNeverPull: {IMAGE}"),
        (waiting("InvalidImageName"), f"InvalidImageName: {IMAGE}"),
        # What the kubelet says of a pod
        ({"phase": "Failed", "reason": "SysctlForbidden", "message": "a\nb"}, "SysctlForbidden: a b"),
        (of(ended(139), reason="Evicted", message="low"), "Evicted: low"),
        (of(ended(139), reason="NodeShutdown"), "NodeShutdown"),
        # What watches takes what it watches along.
        (of(ended(137, name="agent"), ended(1)), "Error: container agent ended with exit code 137"),
        (of(ended(0, name="client"), ended(1, name="hub")), "Error: container hub ended with exit code 1"),
        # What becomes of pods whose containers run
        (SILENT, "NodeNotReady: the node stopped reporting"),
        ({**RUNNING, **disrupted(*EVICTED)}, ": ".join(EVICTED)),
        (of(ended(139), **disrupted("TerminationByKubelet")), "TerminationByKubelet"),
    ],
    OURS: [
        (of(ended(137, "OOMKilled")), f"OOMKilled: {ENDED_WITH} 137, its memory limit is 4Gi"),
        (of(ended(3, message="no\nport\n"), phase="Running"), f"Error: {ENDED_WITH} 3: no port"),
        (of(ended(0, "")), f"Completed: {ENDED_WITH} 0"),
        (of(ended(0, name="agent"), ended(139)), f"Error: {ENDED_WITH} 139"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "status", "text"), [(kind, *row) for kind, rows in WRONG.items() for row in rows]
)
def test_faults_of_a_pod_are_reported(kind: tuple[bool, bool], status: dict[str, Any], text: str) -> None:
    assert described(diagnose(pod(status))) == (f"{text} (node worker1)", *kind)


def test_an_unpullable_image_is_reported_with_the_registrys_answer() -> None:
    said = [
        event("Pulling", "Pulling image", "Normal"),
        event("Failed", "Failed to pull image: not\n found"),
        event("Failed", "Error: ImagePullBackOff"),
    ]
    text, *_ = described(diagnose(pod(waiting("ImagePullBackOff", "Back-off")), said))
    assert text.startswith(f"ImagePullBackOff: {IMAGE}: Failed to pull image: not found")


@pytest.mark.parametrize(
    ("said", "occupied"),
    [
        ("1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't match Pod's node affinity.", True),
        ("1 node(s) didn't satisfy existing pods anti-affinity rules.", True),
        ("1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.", False),
        ("3 node(s) didn't match pod affinity rules.", False),
    ],
)
def test_unschedulable_pods_are_reported_in_the_schedulers_words(said: str, occupied: bool) -> None:
    """The words are those of Kubernetes 1.34."""
    words = f"0/3 nodes are available: {said}"
    conditions = [condition("PodScheduled", "False", "Unschedulable", words)]
    waits = pod({"phase": "Pending", "conditions": conditions}, {"nodeName": None})
    assert described(diagnose(waits)) == (f"Unschedulable: {words}", False, False)
    assert (OCCUPIED in unscheduled(waits)) is occupied


@pytest.mark.parametrize(("cut", "noise"), [("", 1), ("a.token cut by the kubelet\n", 100)])
def test_a_containers_last_output_is_reported_without_tokens(cut: str, noise: int) -> None:
    request = "GET /file?authz=Bearer%20secret.token HTTP/1.1\n"
    said = f"{cut}{request * noise}xrootd ended with exit code 1"
    told, *_ = described(diagnose(pod(of(ended(1, message=said)))))
    assert told.endswith("authz=[removed] HTTP/1.1 xrootd ended with exit code 1 (node worker1)")
    assert "token" not in told


@pytest.mark.parametrize(("code", "wrong"), [(0, False), (1, True)])
def test_an_init_container_may_end_but_not_fail(code: int, wrong: bool) -> None:
    status = {"phase": "Pending", "initContainerStatuses": [ended(code)]}
    fault = diagnose(pod(status, {"initContainers": [{"name": "servers", "image": "i"}]}))
    assert (fault is not None) is wrong


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (RUNNING, "Deleted: by another process or user"),
        ({**RUNNING, "reason": "NodeLost", "message": "n is silent"}, "NodeLost: n is silent"),
        ({**RUNNING, **disrupted(*EVICTED)}, ": ".join(EVICTED)),
        (of(ended(139), phase="Running"), "Deleted: by another process or user"),
    ],
)
def test_a_pod_that_is_being_deleted_and_one_that_was(status: dict[str, Any], why: str) -> None:
    going = pod(status, deletionTimestamp="2026-01-01T00:00:00Z")
    assert not ready(going)
    assert described(diagnose(going)) == (f"{why}; it is being deleted (node worker1)", True, False)
    assert described(gone(going)) == (f"{why}; it was deleted (node worker1)", True, False)
    assert gone(pod(of(ended(139)))).own  # it had ended before


def test_progress_names_the_last_warning() -> None:
    said = [event("FailedMount", "first"), event("FailedCreatePodSandBox", "no\nnetwork")]
    where = "Pending (ContainerCreating) (node worker1)"
    assert progress(pod(waiting("ContainerCreating")), said) == f"{where}: FailedCreatePodSandBox: no network"
    assert progress(pod(STARTING)) == "Running (not ready) (node worker1)"


OVER = condition("Failed", "True", "DeadlineExceeded", "Job was active too long")
ENDED = condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
QUOTA = 'Error creating: pods "x" is forbidden: exceeded quota: q'
WEBHOOK = "Internal error occurred: webhook"
LARGE = (
    'Error creating: pods "x" is forbidden: [maximum cpu usage per Container is 500m, but limit is 2, '
    "memory max limit to request ratio per Container is 4, but provided ratio is 25.600000]"
)
"""What a LimitRange refuses (plugin/pkg/admission/limitranger/admission.go)."""


@pytest.mark.parametrize(
    ("status", "refused", "text", "final"),
    [
        ({"conditions": [OVER]}, None, "DeadlineExceeded: Job was active too long", True),
        ({}, QUOTA, f"FailedCreate: {QUOTA}", True),
        ({}, LARGE, f"FailedCreate: {LARGE}", True),
        ({}, WEBHOOK, f"FailedCreate: {WEBHOOK}", False),
        ({"active": 1}, QUOTA, None, False),
        # It adds nothing to how its pod has ended.
        ({"failed": 1, "conditions": [ENDED]}, None, None, False),
    ],
)
def test_jobs(status: dict[str, Any], refused: str | None, text: str | None, final: bool) -> None:
    job = V1Job.model_validate({"metadata": {"name": "tpc-0a1b2c"}, "status": status})
    fault = diagnose_job(job, [event("FailedCreate", refused)] if refused else [])
    assert fault == (text and Fault("tpc-0a1b2c", f"Job tpc-0a1b2c: {text}", final))


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "it names no queue (kueue.x-k8s.io/queue-name in metadata.labels)"),
        ({"kueue.x-k8s.io/queue-name": "storage"}, "queue storage has not admitted it"),
    ],
)
def test_a_suspended_job_is_named_with_its_queue(labels: dict[str, str], why: str) -> None:
    template = {"spec": {"containers": []}}
    spec = {"suspend": True, "template": template}
    job = V1Job.model_validate({"metadata": {"name": "tpc-0a1b2c", "labels": labels}, "spec": spec})
    assert diagnose_job(job) == Fault("tpc-0a1b2c", f"Job tpc-0a1b2c is suspended: {why}", False)


@pytest.mark.parametrize(
    ("added", "limited"),
    [
        ("cpu request for container agent; cpu, memory limit for container servers", "servers"),
        ("cpu limit for container client", "client"),
        ("cpu request for container servers", None),
        ("cpu limit for container agent", None),
        ("memory limit for container servers; cpu limit for container agent", None),
    ],
)
def test_a_limit_that_a_namespace_adds_to_a_server_is_refused(added: str, limited: str | None) -> None:
    fault = diagnose(
        pod(RUNNING, annotations={"kubernetes.io/limit-ranger": f"LimitRanger plugin set: {added}"})
    )
    assert bool(fault) == bool(limited)
    if fault:
        assert fault.final
        assert f"LimitRange of the namespace sets a CPU limit for container {limited}" in fault.text
        assert "`cores` of the sweep" in fault.text


def test_an_image_that_cannot_be_pulled_is_known_from_its_first_failure_on() -> None:
    failed = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"]
    others = ["ContainerCreating", "CreateContainerConfigError"]
    assert [each for each in (*failed, *others) if unpulled(pod(waiting(each)))] == failed
