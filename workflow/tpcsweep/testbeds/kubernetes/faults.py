"""What has gone wrong with a deployment's pods, in Kubernetes' own terms: one line, with what is needed to act on it.

First the watching, then, from `diagnose` on, pure functions of what the API says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes.client import (
    ApiException,
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
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from tpcsweep.testbeds.kubernetes.api import DEPLOYMENT, PATIENCE, Cluster, ClusterError, RefusedError, call

STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""What containers wait for in the course of things."""
HOPELESS = frozenset({"ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"})
"""What containers wait for in vain. A registry that does not answer, or a full cluster, may come round."""
IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
WATCH_SECONDS = 60
"""A watch is begun anew after so long, in case that it is dead and nobody has noticed."""
ASK = (2.0, 3.0)
"""Seconds to connect and to wait, for what only makes a message better."""
LOOK_SECONDS = 2.0
"""Until the first look for what no watch of pods shows: a Job that may not make its pod."""
MOST_LOOK_SECONDS = 15.0
"""Between later looks: a hundred may ask a server why it is slow, and each has it read everybody's events."""
LOG_LINES = 5
LONGEST = 500
"""Characters of somebody else's words."""
REFUSED_SECONDS = 10.0
"""An API server that has just been started may refuse what it has not yet read that it should allow."""


T = TypeVar("T")


class PodError(ClusterError):
    """Pods do not come up, and why."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with a pod; `final` where waiting does not heal it."""

    pod: str
    text: str
    final: bool

    def __str__(self) -> str:
        return f"pod {self.pod}: {self.text}"


class PodWatch:
    """The pods of a deployment as they are now, followed by a thread. Close it before they are deleted on purpose."""

    def __init__(self, cluster: Cluster, identifier: str) -> None:
        """Raises ClusterError where pods cannot be listed."""
        self._cluster = cluster
        self._identifier = identifier
        self._selector = f"{DEPLOYMENT}={identifier}"
        self._changed = threading.Condition()
        self._pods: dict[str, V1Pod] = {}
        self._ran: set[str] = set()
        self._first: tuple[Fault, V1Pod] | None = None
        self._told: str | None = None
        self._refused: tuple[float, str] | None = None
        self._version: str | None = None
        self._watch: Watch | None = None
        self._ended = threading.Event()
        self._list(seconds=PATIENCE)
        self._thread = threading.Thread(target=self._run, daemon=True, name="pods")
        self._thread.start()

    def pods(self) -> dict[str, V1Pod]:
        """The pods by name, in their latest state."""
        with self._changed:
            return dict(self._pods)

    def wait_for(self, condition: Callable[[dict[str, V1Pod]], bool], seconds: float) -> bool:
        """Whether the condition has come true within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(dict(self._pods)), seconds)

    def running(self, count: int, seconds: float) -> dict[str, V1Pod]:
        """Wait until so many pods run and are ready, and return them.

        Raises PodError when the time is over, or as soon as something has gone wrong that no waiting heals.
        """
        give_up = time.monotonic() + seconds

        def settled(pods: dict[str, V1Pod]) -> bool:
            return self._first is not None or sum(map(ready, pods.values())) >= count

        pause = LOOK_SECONDS
        while not self.wait_for(settled, min(pause, max(0.0, give_up - time.monotonic()))):
            pause = min(2 * pause, MOST_LOOK_SECONDS)
            late = time.monotonic() >= give_up
            pods = self.pods()
            job = self._job_problem() if late or len(pods) < count else None
            if job and (late or job.final):
                raise PodError(str(job))
            if late:
                raise PodError(f"not running after {seconds:.0f} s: {self._unready(pods, count)}")
        if why := self.fault():
            raise PodError(why)
        return self.pods()

    def fault(self) -> str | None:
        """The first thing that has gone wrong with any pod, in one line; None while all is well.

        Costs nothing while all is well; the first time that it is not, events and logs are asked for.
        """
        with self._changed:
            first, told = self._first, self._told
        if told is None and first is not None:
            told = self._told = self._explain(*first)
        if told is None and (refused := self._refused) and time.monotonic() - refused[0] > REFUSED_SECONDS:
            told = refused[1]
        return told

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._watch:
            self._watch.stop()
        self._thread.join(2.0)

    def _run(self) -> None:
        pause = 0.1
        while not self._ended.wait(0.05):  # never faster, should something on the way end watches at once
            try:
                if self._version is None:
                    self._list(seconds=0)
                self._follow()
                self._refused, pause = None, 0.1
            except (ApiException, HTTPError, ClusterError) as error:
                status = getattr(error, "status", None)
                if status == 410:  # what happened since is forgotten: see how it is now
                    self._version = None
                elif status in (401, 403):
                    since = self._refused[0] if self._refused else time.monotonic()
                    self._refused = since, f"pods cannot be watched: {_refusal(error)}"
                self._ended.wait(pause)
                pause = min(2 * pause, 2.0)

    def _list(self, seconds: float) -> None:
        found = call(
            lambda: self._cluster.core.list_namespaced_pod(
                self._cluster.namespace, label_selector=self._selector
            ),
            seconds,
        )
        there = {_name(pod): pod for pod in found.items}
        with self._changed:
            for name in set(self._pods) - set(there):
                self._lose(self._pods[name])
            for pod in there.values():
                self._see(pod)
            self._changed.notify_all()
        self._version = found.metadata.resource_version if found.metadata else None

    def _follow(self) -> None:
        """Follow the pods until the connection ends, in whatever way."""
        self._watch = watch = Watch()
        events = watch.stream(
            self._cluster.core.list_namespaced_pod,
            self._cluster.namespace,
            label_selector=self._selector,
            resource_version=self._version,
            allow_watch_bookmarks=True,
            timeout_seconds=WATCH_SECONDS,
            _request_timeout=(5.0, WATCH_SECONDS + 10.0),
        )
        for event in events:
            if self._ended.is_set():
                watch.stop()
            elif event and event["type"] != "BOOKMARK":
                with self._changed:
                    (self._lose if event["type"] == "DELETED" else self._see)(event["object"])
                    self._changed.notify_all()
            self._version = watch.resource_version

    def _see(self, pod: V1Pod) -> None:
        """Take note of a pod's state; the lock is held."""
        known = self._pods.get(_name(pod))
        if (
            known and _meta(known).uid != _meta(pod).uid
        ):  # another of the same name: the first one went unseen
            self._lose(known)
        self._pods[_name(pod)] = pod
        found = diagnose(pod)
        # Before a pod has run, there is time for what may heal; afterwards nothing may be wrong.
        if found and (found.final or _meta(pod).uid in self._ran):
            self._blame(found, pod)
        elif ready(pod):
            self._ran.add(_meta(pod).uid or "")

    def _lose(self, pod: V1Pod) -> None:
        """Take note of a pod's end; the lock is held."""
        self._pods.pop(_name(pod), None)
        self._blame(gone(pod), pod)

    def _blame(self, fault: Fault, pod: V1Pod) -> None:
        if self._first is None:
            self._first = (fault, pod)

    def _explain(self, fault: Fault, pod: V1Pod) -> str:
        """A fault with what else the API knows about it."""
        parts = [str(fault)]
        if log := self._log(pod):
            parts.append(f"its last words: {log}")
        if job := self._job_problem():
            parts.append(job.text)
        return "; ".join(parts)

    def _unready(self, pods: dict[str, V1Pod], count: int) -> str:
        """Why the pods that do not run do not, when the time is over."""
        alike: dict[str, list[V1Pod]] = {}
        for pod in sorted(pods.values(), key=_name):
            if not ready(pod):
                events = self._events("Pod", _name(pod))
                found = diagnose(pod, events)
                alike.setdefault(found.text if found else progress(pod, events), []).append(pod)
        texts = []
        for text, those in alike.items():
            names = ", ".join(map(_name, those))
            nodes = f"; {self._room(those[0])}" if text.startswith("Unschedulable") else ""
            texts.append(f"{'pods' if len(those) > 1 else 'pod'} {names}: {text}{nodes}")
        if len(pods) < count:
            texts.append(f"{count - len(pods)} of {count} pods do not exist")
        return "; ".join(texts)

    def _room(self, pod: V1Pod) -> str:
        """What the nodes have on which a pod may run."""
        chosen = ",".join(f"{key}={value}" for key, value in sorted((_spec(pod).node_selector or {}).items()))
        try:
            found = call(
                lambda: self._cluster.core.list_node(label_selector=chosen, _request_timeout=ASK), seconds=0
            )
        except ClusterError as error:
            return f"nodes cannot be listed: {error}"
        return room(found.items, requested(pod))

    def _job_problem(self) -> Fault | None:
        """What is wrong with the Job, or with its making of its pod."""
        name = f"tpc-{self._identifier}"
        job = self._ask(
            lambda: self._cluster.batch.read_namespaced_job(
                name, self._cluster.namespace, _request_timeout=ASK
            )
        )
        return diagnose_job(name, job, self._events("Job", name))

    def _events(self, kind: str, name: str) -> list[CoreV1Event]:
        """What is said of an object, as far as that may be read."""
        of = f"involvedObject.kind={kind},involvedObject.name={name}"
        found = self._ask(
            lambda: self._cluster.core.list_namespaced_event(
                self._cluster.namespace, field_selector=of, _request_timeout=ASK
            )
        )
        return found.items if found else []

    def _log(self, pod: V1Pod) -> str:
        """What a container that failed has said last, unless that is known already."""
        silent = [each.name for each in _containers(pod) if _exit_code(each) and not _message(each)]
        if not silent:
            return ""
        log = self._ask(
            lambda: self._cluster.core.read_namespaced_pod_log(
                _name(pod),
                self._cluster.namespace,
                container=silent[0],
                tail_lines=LOG_LINES,
                _request_timeout=ASK,
            )
        )
        return _line(log)

    def _ask(self, question: Callable[[], T]) -> T | None:
        """An answer that only makes a message better, and that may be missing."""
        try:
            return call(question, seconds=0)
        except ClusterError:
            return None


def ready(pod: V1Pod) -> bool:
    """Whether a pod runs and is ready."""
    status = _status(pod)
    condition = _condition(pod, "Ready")
    up = status.phase == "Running" and not _meta(pod).deletion_timestamp
    return up and condition is not None and condition.status == "True"


def diagnose(pod: V1Pod, events: Iterable[CoreV1Event] = ()) -> Fault | None:
    """What is wrong with a pod that should be on its way or running; None where nothing is."""
    status = _status(pod)
    if status.phase in ("Failed", "Succeeded"):
        return Fault(_name(pod), _ended(pod), final=True)
    if _meta(pod).deletion_timestamp:
        return Fault(_name(pod), _deleted(pod, "is being deleted"), final=True)
    for container in _containers(pod):
        if found := _container(pod, container, events):
            return Fault(_name(pod), *found)
    disruption = _condition(pod, "DisruptionTarget")
    if disruption and disruption.status == "True":
        return Fault(_name(pod), f"{_because(disruption)}{_on_node(pod)}", final=True)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled and scheduled.status == "False":
        return Fault(
            _name(pod),
            f"{_because(scheduled)}; it requests {', '.join(requested(pod)) or 'nothing'}",
            final=False,
        )
    # The node controller takes Ready from the pods of a node that it has not heard of, and nothing else.
    containers, whole = _condition(pod, "ContainersReady"), _condition(pod, "Ready")
    if whole and whole.status == "False" and containers and containers.status == "True":
        why = f" ({whole.reason})" if whole.reason and whole.reason != "ReadinessGatesNotReady" else ""
        if why or not (_spec(pod).readiness_gates or []):
            return Fault(
                _name(pod), f"NodeNotReady: nothing is heard of it any more{why}{_on_node(pod)}", final=True
            )
    return None


def progress(pod: V1Pod, events: Iterable[CoreV1Event] = ()) -> str:
    """How far a pod has come that nothing is known to be wrong with, and what was last warned of."""
    reasons = [
        status.state.waiting.reason
        for status in _containers(pod)
        if status.state and status.state.waiting and status.state.waiting.reason
    ]
    reason = f" ({reasons[0]})" if reasons else " (not ready)" if _status(pod).phase == "Running" else ""
    warned = [event for event in events if event.type == "Warning"]
    last = f": {warned[-1].reason}: {_line(warned[-1].message)}" if warned else ""
    return f"{_status(pod).phase or 'Unknown'}{reason}{_on_node(pod)}{last}"


def gone(pod: V1Pod) -> Fault:
    """A pod that is not there any more, by its last known state."""
    found = _ended(pod) if _status(pod).phase in ("Failed", "Succeeded") else _deleted(pod, "was deleted")
    return Fault(_name(pod), found, final=True)


def diagnose_job(name: str, job: V1Job | None, events: Iterable[CoreV1Event] = ()) -> Fault | None:
    """What is wrong with the Job that makes the client pod; its pod has no name where it was never made."""
    for condition in (job.status.conditions or []) if job and job.status else []:
        if condition.type in ("Failed", "FailureTarget") and condition.status == "True":
            return Fault("client", f"Job {name}: {condition.reason}: {_line(condition.message)}", final=True)
    refused = [event for event in events if event.reason == "FailedCreate" and not (job and _made(job))]
    if refused:
        message = _line(refused[-1].message)
        # Quotas, PodSecurity and missing rights are all said to be "forbidden".
        return Fault("client", f"Job {name}: FailedCreate: {message}", final="forbidden" in message)
    return None


def requested(pod: V1Pod) -> list[str]:
    """What a pod needs of its node, in words."""
    needs: dict[str, list[str]] = {}
    for container in _spec(pod).containers if pod.spec else []:
        resources = container.resources
        for key, value in ((resources and (resources.requests or resources.limits)) or {}).items():
            needs.setdefault(key, []).append(str(value))
    words = [f"{key} {' + '.join(values)}" for key, values in sorted(needs.items())]
    return words + [
        f"node label {key}={value}" for key, value in sorted((_spec(pod).node_selector or {}).items())
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
        words.append(f"{_meta(node).name} ({barred}{amounts})")
    more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
    return f"nodes to choose from: {', '.join(words)}{more}"


def _container(
    pod: V1Pod, container: V1ContainerStatus, events: Iterable[CoreV1Event]
) -> tuple[str, bool] | None:
    """What is wrong with a container, and whether that is final."""
    state = container.state
    waiting, ended = (state.waiting, state.terminated) if state else (None, None)
    setup = container.name in {each.name for each in _spec(pod).init_containers or []}
    if ended and not (setup and ended.exit_code == 0):
        return f"{_termination(pod, container)}{_on_node(pod)}", True
    if container.restart_count and container.last_state and container.last_state.terminated:
        return f"{_termination(pod, container)}, and was started again{_on_node(pod)}", True
    if waiting is None or not waiting.reason or waiting.reason in STARTING:
        return None
    reason, message = waiting.reason, _line(waiting.message)
    if reason in IMAGE:
        spec = _container_spec(pod, container.name)
        # The back-off says only that it backs off; what the registry has said is an event.
        said = [_line(event.message) for event in events if event.reason == "Failed" and event.message]
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
        return f"{status.reason}: {_line(status.message)}".rstrip(": ") + _on_node(pod)
    disruption = _condition(pod, "DisruptionTarget")
    if disruption and disruption.status == "True":
        return f"{_because(disruption)}{_on_node(pod)}"
    ended = [each for each in _containers(pod) if each.state and each.state.terminated]
    ended.sort(key=lambda each: not _exit_code(each))  # those that failed first
    text = _termination(pod, ended[0]) if ended else f"{status.phase}: {_line(status.message)}".rstrip(": ")
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
        why = f"{status.reason}: {_line(status.message)}".rstrip(": ")
    else:
        why = "Deleted: not by this process"
    return f"{why}; it {how}{_on_node(pod)}"


def _because(condition: V1PodCondition) -> str:
    return f"{condition.reason or condition.type}: {_line(condition.message)}".rstrip(": ")


def _on_node(pod: V1Pod) -> str:
    node = _spec(pod).node_name if pod.spec else None
    return f" (node {node})" if node else ""


def _containers(pod: V1Pod) -> list[V1ContainerStatus]:
    """States of all containers, in the order in which they start."""
    status = _status(pod)
    return [*(status.init_container_statuses or []), *(status.container_statuses or [])]


def _container_spec(pod: V1Pod, name: str) -> Any:
    every = [*(_spec(pod).init_containers or []), *_spec(pod).containers] if pod.spec else []
    return next((container for container in every if container.name == name), None)


def _exit_code(container: V1ContainerStatus) -> int:
    ended = container.state and container.state.terminated
    return ended.exit_code if ended else 0


def _message(container: V1ContainerStatus) -> str | None:
    ended = container.state and container.state.terminated
    return ended.message if ended else None


def _condition(pod: V1Pod, kind: str) -> V1PodCondition | None:
    return next((each for each in _status(pod).conditions or [] if each.type == kind), None)


def _made(job: V1Job) -> bool:
    """Whether a Job has made its pod in the end."""
    status = job.status
    return bool(status and (status.active or status.succeeded or status.failed))


def _refusal(error: Exception) -> ClusterError | Exception:
    return RefusedError(error) if isinstance(error, ApiException) else error


def _line(text: str | None) -> str:
    """Somebody else's words in one line of bearable length."""
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _last(text: str) -> str:
    """The end of what a container has said, where its reason is."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"...{line[3 - LONGEST :]}"


def _name(pod: V1Pod) -> str:
    return _meta(pod).name or ""


def _meta(item: V1Pod | V1Node) -> V1ObjectMeta:
    return item.metadata or V1ObjectMeta()


def _spec(pod: V1Pod) -> V1PodSpec:
    return pod.spec or V1PodSpec(containers=[])


def _status(pod: V1Pod) -> V1PodStatus:
    return pod.status or V1PodStatus()
