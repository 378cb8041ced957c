"""What has gone wrong with pods, in Kubernetes' own terms: one line, with what is needed to act on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes.client import (
    CoreV1Event,
    V1ContainerStatus,
    V1Job,
    V1Node,
    V1ObjectMeta,
    V1Pod,
    V1PodCondition,
    V1PodSpec,
    V1PodStatus,
)

from tpcsweep.xrootd.servers import without_secrets

STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""What containers wait for in the course of things."""
HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"})
"""What containers wait for in vain. A registry that does not answer, or a full cluster, may come round."""
IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
LONGEST = 500
"""Characters of somebody else's words."""
KEPT = 2000
"""Characters of a container's log that kubelets keep of its end: 2048 bytes."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with a pod; `final` where waiting does not heal it."""

    pod: str
    text: str
    final: bool

    def __str__(self) -> str:
        return f"pod {self.pod}: {self.text}"


def ready(pod: V1Pod) -> bool:
    """Whether a pod runs and is ready."""
    status = _status(pod)
    condition = _condition(pod, "Ready")
    up = status.phase == "Running" and not meta_of(pod).deletion_timestamp
    return up and condition is not None and condition.status == "True"


def unpulled(pod: V1Pod) -> bool:
    """Whether a container waits for an image that could not be pulled, at least at first."""
    states = [container.state for container in containers_of(pod) if container.state]
    return any(state.waiting and state.waiting.reason in IMAGE for state in states)


def diagnose(pod: V1Pod, events: Iterable[CoreV1Event] = ()) -> Fault | None:
    """What is wrong with a pod that should be on its way or running; None where nothing is."""
    status = _status(pod)
    if status.phase in ("Failed", "Succeeded"):
        return Fault(name_of(pod), _ended(pod), final=True)
    if meta_of(pod).deletion_timestamp:
        return Fault(name_of(pod), _deleted(pod, "is being deleted"), final=True)
    for container in containers_of(pod):
        if found := _container(pod, container, events):
            return Fault(name_of(pod), *found)
    disruption = _condition(pod, "DisruptionTarget")
    if disruption and disruption.status == "True":
        return Fault(name_of(pod), f"{_because(disruption)}{_on_node(pod)}", final=True)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled and scheduled.status == "False":
        return Fault(
            name_of(pod),
            f"{_because(scheduled)}; it requests {', '.join(requested(pod)) or 'nothing'}",
            final=False,
        )
    # The node controller takes Ready from the pods of a node that it has not heard of, and nothing else.
    containers, whole = _condition(pod, "ContainersReady"), _condition(pod, "Ready")
    if whole and whole.status == "False" and containers and containers.status == "True":
        why = f" ({whole.reason})" if whole.reason and whole.reason != "ReadinessGatesNotReady" else ""
        if why or not (spec_of(pod).readiness_gates or []):
            return Fault(
                name_of(pod), f"NodeNotReady: nothing is heard of it any more{why}{_on_node(pod)}", final=True
            )
    return None


def progress(pod: V1Pod, events: Iterable[CoreV1Event] = ()) -> str:
    """How far a pod has come that nothing is known to be wrong with, and what was last warned of."""
    reasons = [
        status.state.waiting.reason
        for status in containers_of(pod)
        if status.state and status.state.waiting and status.state.waiting.reason
    ]
    reason = f" ({reasons[0]})" if reasons else " (not ready)" if _status(pod).phase == "Running" else ""
    warned = [event for event in events if event.type == "Warning"]
    last = f": {warned[-1].reason}: {one_line(warned[-1].message)}" if warned else ""
    return f"{_status(pod).phase or 'Unknown'}{reason}{_on_node(pod)}{last}"


def gone(pod: V1Pod) -> Fault:
    """A pod that is not there any more, by its last known state."""
    found = _ended(pod) if _status(pod).phase in ("Failed", "Succeeded") else _deleted(pod, "was deleted")
    return Fault(name_of(pod), found, final=True)


def diagnose_job(name: str, job: V1Job | None, events: Iterable[CoreV1Event] = ()) -> Fault | None:
    """What is wrong with the Job that makes the client pod; its pod has no name where it was never made."""
    for condition in (job.status.conditions or []) if job and job.status else []:
        if condition.type in ("Failed", "FailureTarget") and condition.status == "True":
            return Fault(
                "client", f"Job {name}: {condition.reason}: {one_line(condition.message)}", final=True
            )
    refused = [event for event in events if event.reason == "FailedCreate" and not (job and _made(job))]
    if refused:
        message = one_line(refused[-1].message)
        # Quotas, PodSecurity and missing rights are all said to be "forbidden".
        return Fault("client", f"Job {name}: FailedCreate: {message}", final="forbidden" in message)
    return None


def requested(pod: V1Pod) -> list[str]:
    """What a pod needs of its node, in words."""
    needs: dict[str, list[str]] = {}
    for container in spec_of(pod).containers if pod.spec else []:
        resources = container.resources
        for key, value in ((resources and (resources.requests or resources.limits)) or {}).items():
            needs.setdefault(key, []).append(str(value))
    words = [f"{key} {' + '.join(values)}" for key, values in sorted(needs.items())]
    return words + [
        f"node label {key}={value}" for key, value in sorted((spec_of(pod).node_selector or {}).items())
    ]


def room(nodes: Sequence[V1Node], needs: Iterable[str]) -> str:
    """What nodes have in total of what is needed, whoever uses it now."""
    if not nodes:
        return "no node has these labels"
    kinds = [need.partition(" ")[0] for need in needs if not need.startswith("node label ")] or [
        "cpu",
        "memory",
    ]
    words = []
    for node in nodes[:4]:
        has = (node.status and node.status.allocatable) or {}
        barred = "unschedulable, " if node.spec and node.spec.unschedulable else ""
        amounts = ", ".join(f"{kind} {has.get(kind, 'none')}" for kind in kinds)
        words.append(f"{meta_of(node).name} ({barred}{amounts})")
    more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
    return f"nodes to choose from: {', '.join(words)}{more}"


def _container(
    pod: V1Pod, container: V1ContainerStatus, events: Iterable[CoreV1Event]
) -> tuple[str, bool] | None:
    """What is wrong with a container, and whether that is final."""
    state = container.state
    waiting, ended = (state.waiting, state.terminated) if state else (None, None)
    setup = container.name in {each.name for each in spec_of(pod).init_containers or []}
    if ended and not (setup and ended.exit_code == 0):
        return f"{_termination(pod, container)}{_on_node(pod)}", True
    if container.restart_count and container.last_state and container.last_state.terminated:
        return f"{_termination(pod, container)}, and was started again{_on_node(pod)}", True
    if waiting is None or not waiting.reason or waiting.reason in STARTING:
        return None
    reason, message = waiting.reason, one_line(waiting.message)
    if reason in IMAGE:
        spec = _container_spec(pod, container.name)
        # The back-off says only that it backs off; what the registry has said is an event.
        said = [one_line(event.message) for event in events if event.reason == "Failed" and event.message]
        causes = [text for text in said if "ailed to pull" in text]
        policy = f"{spec.image}, pull policy {spec.image_pull_policy}" if spec else container.image
        text = f"{reason}: image {policy}: {causes[-1] if causes else message}"
    else:
        text = f"{reason}: container {container.name}: {message}"
    return f"{text.rstrip(': ')}{_on_node(pod)}", reason in HOPELESS


def _ended(pod: V1Pod) -> str:
    """Why a pod has ended: what the kubelet says of the pod, else what became of its containers."""
    status = _status(pod)
    if status.reason:
        return f"{status.reason}: {one_line(status.message)}".rstrip(": ") + _on_node(pod)
    disruption = _condition(pod, "DisruptionTarget")
    if disruption and disruption.status == "True":
        return f"{_because(disruption)}{_on_node(pod)}"
    ended = [each for each in containers_of(pod) if each.state and each.state.terminated]
    ended.sort(key=lambda each: not exit_code(each))  # those that failed first
    text = (
        _termination(pod, ended[0]) if ended else f"{status.phase}: {one_line(status.message)}".rstrip(": ")
    )
    return text + _on_node(pod)


def _termination(pod: V1Pod, container: V1ContainerStatus) -> str:
    """How a container has ended."""
    states = [state for state in (container.state, container.last_state) if state and state.terminated]
    ended = states[0].terminated if states else None
    if ended is None:
        return f"container {container.name} is not running"
    reason = ended.reason or ("Error" if ended.exit_code else "Completed")
    text = f"{reason}: container {container.name} ended with exit code {ended.exit_code}"
    if reason == "OOMKilled":
        spec = _container_spec(pod, container.name)
        limits = (spec and spec.resources and spec.resources.limits) or {}
        text += f", its memory limit is {limits.get('memory', 'none')}"
    return f"{text}: {_last(ended.message)}" if ended.message else text


def _deleted(pod: V1Pod, how: str) -> str:
    """Why a pod goes or has gone that has not ended by itself."""
    status = _status(pod)
    disruption = _condition(pod, "DisruptionTarget")
    if disruption and disruption.status == "True":
        why = _because(disruption)
    elif status.reason:
        why = f"{status.reason}: {one_line(status.message)}".rstrip(": ")
    else:
        why = "Deleted: not by this process"
    return f"{why}; it {how}{_on_node(pod)}"


def _because(condition: V1PodCondition) -> str:
    return f"{condition.reason or condition.type}: {one_line(condition.message)}".rstrip(": ")


def _on_node(pod: V1Pod) -> str:
    node = spec_of(pod).node_name if pod.spec else None
    return f" (node {node})" if node else ""


def containers_of(pod: V1Pod) -> list[V1ContainerStatus]:
    """States of all containers, in the order in which they start."""
    status = _status(pod)
    return [*(status.init_container_statuses or []), *(status.container_statuses or [])]


def _container_spec(pod: V1Pod, name: str) -> Any:
    every = [*(spec_of(pod).init_containers or []), *spec_of(pod).containers] if pod.spec else []
    return next((container for container in every if container.name == name), None)


def exit_code(container: V1ContainerStatus) -> int:
    ended = container.state and container.state.terminated
    return ended.exit_code if ended else 0


def message_of(container: V1ContainerStatus) -> str | None:
    ended = container.state and container.state.terminated
    return ended.message if ended else None


def _condition(pod: V1Pod, kind: str) -> V1PodCondition | None:
    return next((each for each in _status(pod).conditions or [] if each.type == kind), None)


def _made(job: V1Job) -> bool:
    """Whether a Job has made its pod in the end."""
    status = job.status
    return bool(status and (status.active or status.succeeded or status.failed))


def one_line(text: str | None) -> str:
    """Somebody else's words in one line of bearable length."""
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _last(text: str) -> str:
    """The end of what a container has said, where its reason is, without the tokens that servers log."""
    if len(text) >= KEPT:
        text = text.partition("\n")[2]  # the first line may begin in the midst of a token
    line = " ".join(without_secrets(text).split())
    return line if len(line) <= LONGEST else f"...{line[3 - LONGEST :]}"


def name_of(pod: V1Pod) -> str:
    return meta_of(pod).name or ""


def meta_of(item: V1Pod | V1Node) -> V1ObjectMeta:
    return item.metadata or V1ObjectMeta()


def spec_of(pod: V1Pod) -> V1PodSpec:
    return pod.spec or V1PodSpec(containers=[])


def _status(pod: V1Pod) -> V1PodStatus:
    return pod.status or V1PodStatus()
