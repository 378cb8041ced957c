# SPDX-License-Identifier: Apache-2.0
"""What has gone wrong with pods, in Kubernetes' own terms: one line, with what is needed to act on it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubernetes import client as k8s

from tpcsweep.testbeds.kubernetes.metadata import meta_of, name_of, node_of
from tpcsweep.xrootd.servers import without_secrets

ENDED = ("Failed", "Succeeded")
"""Phases of a pod that runs no more."""
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""What containers wait for in the course of things."""
HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"})
"""What containers wait for in vain. A registry that does not answer, or a full cluster, may come round."""
IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
OCCUPIED = "anti-affinity rules"
"""What the scheduler says of nodes with pods that others must keep away from (its plugin InterPodAffinity)."""
MEASURED = frozenset({"servers", "client"})
"""Containers of servers and tools; what is beside them watches."""
FIT = "change `resources` in a podTemplate, or `memory` of the testbed, or `cores` of the sweep"
LONGEST = 500
"""Characters of somebody else's words."""
KEPT = 2000
"""Characters of a container's log that kubelets keep of its end: 2048 bytes."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with a pod."""

    pod: str
    text: str
    final: bool
    """Whether waiting does not heal it."""
    own: bool = False
    """Whether a server or a tool has ended, by itself or for the memory that it took: a cell may bring that about.

    All else happens to a cell: its pod is evicted or deleted, its node is gone, what watches has ended.
    """

    def __str__(self) -> str:
        return f"pod {self.pod}: {self.text}"


def ready(pod: k8s.V1Pod) -> bool:
    up = _status(pod).phase == "Running" and not meta_of(pod).deletion_timestamp
    return up and _holds(_condition(pod, "Ready"))


def nodes_in_use(pod: k8s.V1Pod) -> str | None:
    """The scheduler's words for a pod whose node other deployments have; None where that is not what it waits for."""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False" or OCCUPIED not in (scheduled.message or ""):
        return None
    return one_line(scheduled.message)


def unpulled(pod: k8s.V1Pod) -> bool:
    """Whether a container waits for an image that could not be pulled, at least at first."""
    return any(reason in IMAGE for reason in _waiting(pod))


def hindered(pod: k8s.V1Pod) -> bool:
    """Whether a pod waits for a node or an image that it does not get now."""
    scheduled = _condition(pod, "PodScheduled")
    return unpulled(pod) or (scheduled is not None and scheduled.status == "False")


def diagnose(pod: k8s.V1Pod, events: Iterable[k8s.CoreV1Event] = ()) -> Fault | None:
    """What is wrong with a pod that should be on its way or running; None where nothing is."""
    if _status(pod).phase in ENDED:
        return Fault(name_of(pod), _ended(pod), final=True, own=_own(pod))
    if meta_of(pod).deletion_timestamp:
        return Fault(name_of(pod), _deleted(pod, "is being deleted"), final=True)
    given = re.search(
        r"cpu\b[^;]* limit for container (servers|client)(;|$)",
        (meta_of(pod).annotations or {}).get("kubernetes.io/limit-ranger", ""),
    )
    if given:
        text = f"a LimitRange of the namespace limits the CPU of container {given[1]}, which nobody asked for: {FIT}"
        return Fault(name_of(pod), text, final=True)
    for container in containers_of(pod):
        if problem := _container(pod, container, events):
            return Fault(name_of(pod), *problem, own=_own(pod))
    if disruption := _disruption(pod):
        return Fault(name_of(pod), f"{disruption}{_on_node(pod)}", final=True)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled and scheduled.status == "False":
        needs = ", ".join(requested(pod)) or "nothing"
        scaled = next((f"; {event.reason}" for event in events if event.reason == "TriggeredScaleUp"), "")
        return Fault(name_of(pod), f"{_because(scheduled)}; it requests {needs}{scaled}", final=False)
    # The node controller takes Ready from the pods of a node that it has not heard of, and nothing else.
    whole = _condition(pod, "Ready")
    if whole and whole.status == "False" and _holds(_condition(pod, "ContainersReady")):
        why = f" ({whole.reason})" if whole.reason and whole.reason != "ReadinessGatesNotReady" else ""
        if why or not (spec_of(pod).readiness_gates or []):
            text = f"NodeNotReady: nothing is heard of it any more{why}{_on_node(pod)}"
            return Fault(name_of(pod), text, final=True)
    return None


def progress(pod: k8s.V1Pod, events: Iterable[k8s.CoreV1Event] = ()) -> str:
    """How far a pod has come that nothing is known to be wrong with, and what was last warned of."""
    phase, reasons = _status(pod).phase, _waiting(pod)
    reason = f" ({reasons[0]})" if reasons else " (not ready)" if phase == "Running" else ""
    warned = [f": {event.reason}: {one_line(event.message)}" for event in events if event.type == "Warning"]
    return f"{phase or 'Unknown'}{reason}{_on_node(pod)}{warned[-1] if warned else ''}"


def gone(pod: k8s.V1Pod) -> Fault:
    """A pod that is not there any more, by its last known state."""
    if _status(pod).phase in ENDED:
        return Fault(name_of(pod), _ended(pod), final=True, own=_own(pod))
    return Fault(name_of(pod), _deleted(pod, "was deleted"), final=True)


def diagnose_job(job: k8s.V1Job, events: Iterable[k8s.CoreV1Event] = ()) -> Fault | None:
    """What is wrong with a Job that makes one pod, beside how that has ended; the pod has no name if never made."""
    name = name_of(job)
    for condition in (job.status and job.status.conditions) or []:
        failed = condition.type in ("Failed", "FailureTarget") and _holds(condition)
        if failed and condition.reason != "BackoffLimitExceeded":
            text = f"Job {name}: {condition.reason}: {one_line(condition.message)}"
            return Fault(name, text, final=True)
    refused = [one_line(event.message) for event in events if event.reason == "FailedCreate"]
    if refused and not has_pod(job):
        # Quotas, PodSecurity and missing rights are all said to be "forbidden".
        text = f"Job {name}: FailedCreate: {refused[-1]}{limit_range(refused[-1])}"
        return Fault(name, text, final="forbidden" in refused[-1])
    return None


def limit_range(words: str) -> str:
    """What to do about the words in which a LimitRange refuses a pod; empty if they are not."""
    if not re.search(r" per (Container|Pod) is ", words):
        return ""
    return f" (a LimitRange of the namespace): {FIT}"


def has_pod(job: k8s.V1Job) -> bool:
    """Whether a Job has made its pod, whatever has become of it."""
    status = job.status or k8s.V1JobStatus()
    return bool(status.active or status.succeeded or status.failed)


def requested(pod: k8s.V1Pod) -> list[str]:
    """What a pod needs of its node, in words."""
    needs: dict[str, list[str]] = {}
    for container in spec_of(pod).containers:
        resources = container.resources
        for key, value in ((resources and (resources.requests or resources.limits)) or {}).items():
            needs.setdefault(key, []).append(str(value))
    amounts = [f"{key} {' + '.join(values)}" for key, values in sorted(needs.items())]
    labels = sorted((spec_of(pod).node_selector or {}).items())
    return amounts + [f"node label {key}={value}" for key, value in labels]


def room(nodes: Sequence[k8s.V1Node], needs: Iterable[str]) -> str:
    """What nodes have in total of what is needed, whoever uses it now."""
    if not nodes:
        return "no node has these labels"
    kinds = [need.partition(" ")[0] for need in needs if not need.startswith("node label ")]
    words = []
    for node in nodes[:4]:
        has = (node.status and node.status.allocatable) or {}
        barred = "unschedulable, " if node.spec and node.spec.unschedulable else ""
        amounts = ", ".join(f"{kind} {has.get(kind, 'none')}" for kind in kinds or ["cpu", "memory"])
        words.append(f"{name_of(node)} ({barred}{amounts})")
    more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
    return f"nodes to choose from: {', '.join(words)}{more}"


def containers_of(pod: k8s.V1Pod) -> list[k8s.V1ContainerStatus]:
    """States of all containers, in the order in which they start."""
    status = _status(pod)
    return [*(status.init_container_statuses or []), *(status.container_statuses or [])]


def terminated(container: k8s.V1ContainerStatus) -> k8s.V1ContainerStateTerminated | None:
    return container.state.terminated if container.state else None


def spec_of(pod: k8s.V1Pod) -> k8s.V1PodSpec:
    return pod.spec or k8s.V1PodSpec(containers=[])


def one_line(text: str | None) -> str:
    """Somebody else's words in one line of bearable length."""
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _container(
    pod: k8s.V1Pod, container: k8s.V1ContainerStatus, events: Iterable[k8s.CoreV1Event]
) -> tuple[str, bool] | None:
    """What is wrong with a container, and whether that is final."""
    ended = terminated(container)
    setup = container.name in {init.name for init in spec_of(pod).init_containers or []}
    if ended and not (setup and ended.exit_code == 0):
        return f"{_termination(pod, container, ended)}{_on_node(pod)}", True
    before = container.last_state.terminated if container.last_state else None
    if container.restart_count and before:
        text = _termination(pod, container, ended or before)
        return f"{text}, and was started again{_on_node(pod)}", True
    waiting = container.state.waiting if container.state else None
    if waiting is None or not waiting.reason or waiting.reason in STARTING:
        return None
    reason, message = waiting.reason, one_line(waiting.message)
    if reason in IMAGE:
        spec = _container_spec(pod, container.name)
        # The back-off says only that it backs off; what the registry has said is an event.
        failures = [one_line(event.message) for event in events if event.reason == "Failed"]
        causes = [text for text in failures if "ailed to pull" in text]
        policy = f"{spec.image}, pull policy {spec.image_pull_policy}" if spec else container.image
        text = f"{reason}: image {policy}: {causes[-1] if causes else message}"
    else:
        text = f"{reason}: container {container.name}: {message}"
    return f"{text.rstrip(': ')}{_on_node(pod)}", reason in HOPELESS


def _ended(pod: k8s.V1Pod) -> str:
    status = _status(pod)
    text = _because(status)
    if not status.reason:
        ends = _ends(pod)
        text = _disruption(pod) or (_termination(pod, *ends[0]) if ends else text)
    return f"{text}{_on_node(pod)}"


def _own(pod: k8s.V1Pod) -> bool:
    """Whether what has ended of a pod is a server or a tool, and nobody has a reason of their own for it."""
    if _status(pod).reason or _disruption(pod):
        return False
    return any(container.name in MEASURED for container, _ in _ends(pod)[:1])


def _ends(pod: k8s.V1Pod) -> list[tuple[k8s.V1ContainerStatus, k8s.V1ContainerStateTerminated]]:
    ends = [(container, end) for container in containers_of(pod) if (end := terminated(container))]
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
    return f"{text}: {_last(ended.message)}" if ended.message else text


def _deleted(pod: k8s.V1Pod, fate: str) -> str:
    status = _status(pod)
    why = _disruption(pod) or (_because(status) if status.reason else "Deleted: not by this process")
    return f"{why}; it {fate}{_on_node(pod)}"


def _waiting(pod: k8s.V1Pod) -> list[str]:
    states = [container.state for container in containers_of(pod) if container.state]
    return [state.waiting.reason for state in states if state.waiting and state.waiting.reason]


def _disruption(pod: k8s.V1Pod) -> str:
    disruption = _condition(pod, "DisruptionTarget")
    return _because(disruption) if disruption and _holds(disruption) else ""


def _because(said: k8s.V1PodCondition | k8s.V1PodStatus) -> str:
    reason = said.reason or (said.type if isinstance(said, k8s.V1PodCondition) else said.phase)
    return f"{reason}: {one_line(said.message)}".rstrip(": ")


def _holds(condition: k8s.V1PodCondition | k8s.V1JobCondition | None) -> bool:
    return condition is not None and condition.status == "True"


def _on_node(pod: k8s.V1Pod) -> str:
    return f" (node {node_of(pod)})" if node_of(pod) else ""


def _container_spec(pod: k8s.V1Pod, name: str) -> k8s.V1Container | None:
    spec = spec_of(pod)
    every = [*(spec.init_containers or []), *spec.containers]
    return next((container for container in every if container.name == name), None)


def _condition(pod: k8s.V1Pod, kind: str) -> k8s.V1PodCondition | None:
    return next((each for each in _status(pod).conditions or [] if each.type == kind), None)


def _last(text: str) -> str:
    """The end of what a container has said, where its reason is, without the tokens that servers log."""
    if len(text) >= KEPT:
        text = text.partition("\n")[2]  # the first line may begin in the midst of a token
    line = " ".join(without_secrets(text).split())
    return line if len(line) <= LONGEST else f"...{line[3 - LONGEST :]}"


def _status(pod: k8s.V1Pod) -> k8s.V1PodStatus:
    return pod.status or k8s.V1PodStatus()
