# SPDX-License-Identifier: Apache-2.0
"""Faults of pods in one line each, from the conditions, states and events that `kubectl describe` shows. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubernetes import client as k8s

from tpcsweep.deploying.xrootd.server_config import without_secrets
from tpcsweep.testbeds.kubernetes.metadata import node_name, object_metadata, object_name

ENDED = ("Failed", "Succeeded")  # phases of a pod that does not run any more
STARTING = frozenset({"ContainerCreating", "PodInitializing"})  # reasons for which every container waits
HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName"})
"""Reasons for waiting that do not pass. A registry may answer later."""
IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of a Job that names its queue: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/."""
OCCUPIED = "anti-affinity rules"
"""The scheduler's words for nodes with pods of another deployment (its plugin InterPodAffinity)."""
MEASURED = frozenset({"servers", "client"})
"""Containers of servers and tools; all other containers watch these."""
LONGEST = 500  # characters of a quoted message
LOG_TAIL_CHARACTERS = 2000  # characters at the end of a container's log that kubelets keep: 2048 bytes
Events = Iterable[k8s.CoreV1Event]


@dataclass(frozen=True)
class Fault:
    pod: str
    text: str
    final: bool  # whether it does not pass
    own: bool = False
    """Whether a server or tool has ended by itself or for its memory, as a cell may cause.

    All other faults happen to a cell: an eviction, a deletion, a lost node, the end of a container that watches.
    """

    def __str__(self) -> str:
        return f"pod {self.pod}: {self.text}"


def ready(pod: k8s.V1Pod) -> bool:
    running = _status(pod).phase == "Running" and not object_metadata(pod).deletion_timestamp
    return running and _condition(pod, "Ready", "True") is not None


def unscheduled(pod: k8s.V1Pod) -> str:
    """Return the scheduler's words for a pod that has no node; empty if it has one."""
    return _because(_condition(pod, "PodScheduled", "False"))


def unpulled(pod: k8s.V1Pod) -> bool:
    """Return whether a container waits for an image after a failed attempt to pull it."""
    return any(reason in IMAGE for reason in _waiting(pod))


def diagnose(pod: k8s.V1Pod, events: Events = ()) -> Fault | None:
    """Return the fault of a pod that should start or run, or None without one."""
    name, where = object_name(pod), _on_node(pod)
    if _status(pod).phase in ENDED or object_metadata(pod).deletion_timestamp:
        return gone(pod, "is being deleted")
    limited = (object_metadata(pod).annotations or {}).get("kubernetes.io/limit-ranger", "")
    if given := re.search(r"cpu\b[^;]* limit for container (servers|client)(;|$)", limited):
        text = (
            f"a LimitRange of the namespace sets a CPU limit for container {given[1]}: "
            "set one in a podTemplate, or `cores` of the sweep"
        )
        return Fault(name, text, final=True)
    for container, state in _containers(pod):
        if problem := _container(pod, container, state, events):
            text, final = problem
            return Fault(name, f"{text}{where}", final, _own(pod))
    if disruption := _disruption(pod):
        return Fault(name, f"{disruption}{where}", final=True)
    if words := unscheduled(pod):
        return Fault(name, words, final=False)
    # The node controller sets Ready to False, and no other condition, on the pods of a lost node.
    if _condition(pod, "Ready", "False") and _condition(pod, "ContainersReady", "True"):
        return Fault(name, f"NodeNotReady: the node stopped reporting{where}", final=True)
    return None


def gone(pod: k8s.V1Pod, fate: str = "was deleted") -> Fault:
    """Return the fault of a pod that has ended or is deleted, from its last known state."""
    status, ends = _status(pod), _ends(pod)
    why = _disruption(pod) or (_because(status) if status.reason else "")
    if status.phase not in ENDED:
        why = f"{why or 'Deleted: by another process or user'}; it {fate}"
    elif not why:
        why = _termination(pod, *ends[0]) if ends else str(status.phase)
    own = status.phase in ENDED and _own(pod)
    return Fault(object_name(pod), f"{why}{_on_node(pod)}", final=True, own=own)


def progress(pod: k8s.V1Pod, events: Events = ()) -> str:
    """Say how far a pod without a fault has come, with the last warning."""
    phase, reasons = _status(pod).phase, _waiting(pod)
    reason = f" ({reasons[0]})" if reasons else " (not ready)" if phase == "Running" else ""
    warned = [f": {event.reason}: {one_line(event.message)}" for event in events if event.type == "Warning"]
    return f"{phase or 'Unknown'}{reason}{_on_node(pod)}{warned[-1] if warned else ''}"


def diagnose_job(job: k8s.V1Job, events: Events = ()) -> Fault | None:
    """Return the fault of a Job that its pod does not show, or None without one."""
    name = object_name(job)
    for condition in (job.status and job.status.conditions) or []:
        failed = condition.type in ("Failed", "FailureTarget") and condition.status == "True"
        if failed and condition.reason != "BackoffLimitExceeded":
            return Fault(name, f"Job {name}: {condition.reason}: {one_line(condition.message)}", final=True)
    if job.spec and job.spec.suspend:
        queue = (object_metadata(job).labels or {}).get(QUEUE)
        why = (
            f"queue {queue} has not admitted it"
            if queue
            else f"it names no queue ({QUEUE} in metadata.labels)"
        )
        return Fault(name, f"Job {name} is suspended: {why}", final=False)
    refused = [one_line(event.message) for event in events if event.reason == "FailedCreate"]
    if refused and not has_pod(job):
        text = f"Job {name}: FailedCreate: {refused[-1]}"
        # Kubernetes calls it forbidden if a quota, PodSecurity or a missing right refuses a pod.
        return Fault(name, text, final="forbidden" in refused[-1])
    return None


def has_pod(job: k8s.V1Job) -> bool:
    status = job.status or k8s.V1JobStatus()
    return bool(status.active or status.succeeded or status.failed)


def one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _container(
    pod: k8s.V1Pod, container: k8s.V1ContainerStatus, state: k8s.V1ContainerState, events: Events
) -> tuple[str, bool] | None:
    """Return the fault of a container, and whether it is final."""
    setup = container.name in {init.name for init in (pod.spec and pod.spec.init_containers) or []}
    if state.terminated and not (setup and state.terminated.exit_code == 0):
        return _termination(pod, container, state.terminated), True
    waiting = state.waiting
    if waiting is None or not waiting.reason or waiting.reason in STARTING:
        return None
    reason, message = waiting.reason, one_line(waiting.message)
    if reason in IMAGE:
        spec = _container_spec(pod, container.name)
        # The registry's answer is an event; the state says only that the kubelet waits.
        failures = [one_line(event.message) for event in events if event.reason == "Failed"]
        causes = [text for text in failures if "ailed to pull" in text]
        policy = f"{spec.image}, pull policy {spec.image_pull_policy}" if spec else container.image
        text = f"{reason}: image {policy}: {causes[-1] if causes else message}"
    else:
        text = f"{reason}: container {container.name}: {message}"
    return text.rstrip(": "), reason in HOPELESS


def _own(pod: k8s.V1Pod) -> bool:
    """Return whether the first container to fail is a server or tool, and Kubernetes gives no reason of its own."""
    if _status(pod).reason or _disruption(pod):
        return False
    return any(container.name in MEASURED for container, _ in _ends(pod)[:1])


def _ends(pod: k8s.V1Pod) -> list[tuple[k8s.V1ContainerStatus, k8s.V1ContainerStateTerminated]]:
    ends = [(container, state.terminated) for container, state in _containers(pod) if state.terminated]
    return sorted(ends, key=lambda each: not each[1].exit_code)


def _termination(
    pod: k8s.V1Pod, container: k8s.V1ContainerStatus, ended: k8s.V1ContainerStateTerminated
) -> str:
    reason = ended.reason or ("Error" if ended.exit_code else "Completed")
    text = f"{reason}: container {container.name} ended with exit code {ended.exit_code}"
    if reason == "OOMKilled":
        spec = _container_spec(pod, container.name)
        limits = (spec and spec.resources and spec.resources.limits) or {}
        text += f", its memory limit is {limits.get('memory', 'none')}"
    log = ended.message or ""  # the end of its log (FallbackToLogsOnError)
    if len(log) >= LOG_TAIL_CHARACTERS:
        log = log.partition("\n")[2]  # the first line may begin in the middle of a token
    line = " ".join(without_secrets(log).split())
    return f"{text}: {line if len(line) <= LONGEST else f'...{line[3 - LONGEST :]}'}" if line else text


def _containers(pod: k8s.V1Pod) -> list[tuple[k8s.V1ContainerStatus, k8s.V1ContainerState]]:
    """Return all containers with a state, in the order in which they start."""
    every = [*(_status(pod).init_container_statuses or []), *(_status(pod).container_statuses or [])]
    return [(container, container.state) for container in every if container.state]


def _waiting(pod: k8s.V1Pod) -> list[str]:
    waits = [state.waiting for _, state in _containers(pod) if state.waiting]
    return [waiting.reason for waiting in waits if waiting.reason]


def _disruption(pod: k8s.V1Pod) -> str:
    return _because(_condition(pod, "DisruptionTarget", "True"))


def _because(state: k8s.V1PodCondition | k8s.V1PodStatus | None) -> str:
    return f"{state.reason}: {one_line(state.message)}".rstrip(": ") if state else ""


def _on_node(pod: k8s.V1Pod) -> str:
    return f" (node {node_name(pod)})" if node_name(pod) else ""


def _container_spec(pod: k8s.V1Pod, name: str) -> k8s.V1Container | None:
    every = [*(pod.spec.init_containers or []), *pod.spec.containers] if pod.spec else []
    return next((container for container in every if container.name == name), None)


def _condition(pod: k8s.V1Pod, kind: str, status: str) -> k8s.V1PodCondition | None:
    conditions = _status(pod).conditions or []
    return next((each for each in conditions if (each.type, each.status) == (kind, status)), None)


def _status(pod: k8s.V1Pod) -> k8s.V1PodStatus:
    return pod.status or k8s.V1PodStatus()
