# SPDX-License-Identifier: Apache-2.0
"""The pods of a deployment, followed by a thread, and the first thing that goes wrong with any of them."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kubernetes.client import ApiException, CoreV1Event, V1Pod
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from tpcsweep.testbeds.kubernetes import faults
from tpcsweep.testbeds.kubernetes.api import (
    PATIENCE,
    REFUSED_SECONDS,
    Cluster,
    ClusterError,
    RefusedError,
    call,
)
from tpcsweep.testbeds.kubernetes.metadata import Naming, meta_of, name_of, selector
from tpcsweep.xrootd.servers import without_secrets

WATCH_SECONDS = 60
"""A watch is begun anew after so long, in case that it is dead and nobody has noticed."""
ASK = (2.0, 3.0)
"""Seconds to connect and to wait, for what only makes a message better."""
LOOK_SECONDS = 2.0
"""Until the first look for what no watch of pods shows: Jobs that may not make their pods."""
MOST_LOOK_SECONDS = 15.0
"""Between later looks: a hundred may ask a server why it is slow, and each has it read everybody's events."""
TELL_SECONDS = 4.0
"""Until it is told what keeps pods from running: the scheduler needs a moment, and an image is pulled again at once."""
SCALING = "TriggeredScaleUp"
"""The event of a cluster's autoscaler that is making a node for a pod."""
LOG_LINES = 5
HOLD_SECONDS = 20.0
"""About so long pods keep their nodes while others wait for nodes in use: of two deployments that wait for each other,
one lets go first."""

T = TypeVar("T")


class PodError(ClusterError):
    """Pods do not come up, and why."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class OccupiedError(PodError):
    """Other deployments have the nodes that pods wait for."""


class PodWatch:
    """The pods of a deployment as they are now, followed by a thread. Close it before they are deleted on purpose."""

    def __init__(
        self,
        cluster: Cluster,
        naming: Naming,
        *,
        patient: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Look for the first time. Raises ClusterError where pods cannot be listed.

        An image that cannot be pulled now, and nodes that are in use or do not fit, are waited for if that is to be
        `patient`. `tell` is called with what pods wait for, when that has lasted for TELL_SECONDS.
        """
        self._tell = tell
        self._cluster = cluster
        self._patient = patient
        self._selector = selector(naming.identifier)
        self._changed = threading.Condition()
        self._pods: dict[str, V1Pod] = {}
        self._ran: set[str] = set()
        self._first: tuple[faults.Fault, V1Pod] | None = None
        self._told: str | None = None
        self._refused: tuple[float, str] | None = None
        self._version: str | None = None
        self._watch: Watch | None = None
        self._ended = threading.Event()
        self._list(seconds=PATIENCE)
        self._thread = threading.Thread(target=self._run, daemon=True, name="pods")
        self._thread.start()

    def pods(self) -> dict[str, V1Pod]:
        with self._changed:
            return dict(self._pods)

    def wait_for(self, condition: Callable[[dict[str, V1Pod]], bool], seconds: float) -> bool:
        """Whether the condition has come true within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(dict(self._pods)), seconds)

    def running(self, count: int, seconds: float) -> dict[str, V1Pod]:
        """Wait until so many pods run and are ready, and return them.

        Raises:
            OccupiedError: Some wait for nodes that other deployments have; for HOLD_SECONDS, if that is to be patient.
            PodError: The time is over, or something has gone wrong that no waiting heals.
        """
        give_up = time.monotonic() + seconds
        hold = HOLD_SECONDS * random.uniform(0.5, 1.5) if self._patient else 0.0
        until = math.inf

        def settled(pods: dict[str, V1Pod]) -> bool:
            return self._first is not None or sum(map(faults.ready, pods.values())) >= count

        pause = LOOK_SECONDS
        told, hindered = "", math.inf
        while not self.wait_for(settled, max(0.0, min(pause, min(give_up, until) - time.monotonic()))):
            pause = min(2 * pause, MOST_LOOK_SECONDS if told else TELL_SECONDS)
            now = time.monotonic()
            late = now >= give_up
            pods = self.pods()
            occupied = next(filter(None, map(faults.nodes_in_use, pods.values())), None)
            if occupied and now >= min(give_up, until):
                raise OccupiedError(occupied)
            until = min(until, now + hold) if occupied else math.inf
            job = self._job_problem() if late or len(pods) < count else None
            if job and (late or job.final):
                raise PodError(job.text, final=job.final)
            hindered = min(hindered, now) if any(map(faults.hindered, pods.values())) else math.inf
            if not late and not occupied and now >= hindered + TELL_SECONDS:
                words = self._unready(pods, len(pods))
                if not self._patient and "Unschedulable" in words and SCALING not in words:
                    raise PodError(words)
                if words != told:
                    self._tell(f"waiting: {words}")
                told = words
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

    def own(self) -> bool:
        """Whether what went wrong first is the end of a server or a tool."""
        with self._changed:
            return self._first is not None and self._first[0].own

    def close(self) -> None:
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
                    text = RefusedError(error) if isinstance(error, ApiException) else error
                    self._refused = since, f"pods cannot be watched: {text}"
                self._ended.wait(pause)
                pause = min(2 * pause, 2.0)

    def _list(self, seconds: float) -> None:
        space, ours = self._cluster.namespace, self._selector
        pods = call(self._cluster.core.list_namespaced_pod, space, label_selector=ours, seconds=seconds)
        with self._changed:
            for name in set(self._pods) - set(map(name_of, pods.items)):
                self._lose(self._pods[name])
            for pod in pods.items:
                self._see(pod)
            self._changed.notify_all()
        self._version = meta_of(pods).resource_version

    def _follow(self) -> None:
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
        known = self._pods.get(name_of(pod))
        # Another of the same name: the first one went unseen.
        if known and meta_of(known).uid != meta_of(pod).uid:
            self._lose(known)
        self._pods[name_of(pod)] = pod
        fault = faults.diagnose(pod)
        # Before a pod has run, there is time for what may heal; afterwards nothing may be wrong.
        hopeless = (fault and fault.final) or (faults.unpulled(pod) and not self._patient)
        if fault and (hopeless or meta_of(pod).uid in self._ran):
            self._blame(fault, pod)
        elif faults.ready(pod):
            self._ran.add(meta_of(pod).uid or "")

    def _lose(self, pod: V1Pod) -> None:
        """Take note of a pod's end; the lock is held."""
        self._pods.pop(name_of(pod), None)
        self._blame(faults.gone(pod), pod)

    def _blame(self, fault: faults.Fault, pod: V1Pod) -> None:
        if self._first is None:
            self._first = (fault, pod)

    def _explain(self, fault: faults.Fault, pod: V1Pod) -> str:
        parts = [str(fault)]
        if log := self._log(pod):
            parts.append(f"its last words: {log}")
        if job := self._job_problem():
            parts.append(job.text)
        return "; ".join(parts)

    def _unready(self, pods: dict[str, V1Pod], count: int) -> str:
        alike: dict[str, list[V1Pod]] = {}
        for pod in sorted(pods.values(), key=name_of):
            if not faults.ready(pod):
                events = self._events("Pod", name_of(pod))
                fault = faults.diagnose(pod, events)
                alike.setdefault(fault.text if fault else faults.progress(pod, events), []).append(pod)
        texts = []
        for text, members in alike.items():
            names = ", ".join(map(name_of, members))
            nodes = f"; {self._room(members[0])}" if text.startswith("Unschedulable") else ""
            texts.append(f"{'pods' if len(members) > 1 else 'pod'} {names}: {text}{nodes}")
        if len(pods) < count:
            texts.append(f"{count - len(pods)} of {count} pods do not exist")
        return "; ".join(texts)

    def _room(self, pod: V1Pod) -> str:
        labels = sorted((faults.spec_of(pod).node_selector or {}).items())
        chosen = ",".join(f"{key}={value}" for key, value in labels)
        try:
            nodes = call(self._cluster.core.list_node, label_selector=chosen, _request_timeout=ASK, seconds=0)
        except ClusterError as error:
            return f"nodes cannot be listed: {error}"
        return faults.room(nodes.items, faults.requested(pod))

    def _job_problem(self) -> faults.Fault | None:
        listing, space = self._cluster.batch.list_namespaced_job, self._cluster.namespace
        jobs = self._ask(listing, space, label_selector=self._selector)
        for job in jobs.items if jobs else []:
            events = [] if faults.has_pod(job) else self._events("Job", name_of(job))
            if problem := faults.diagnose_job(job, events):
                return problem
        return None

    def _events(self, kind: str, name: str) -> list[CoreV1Event]:
        of = f"involvedObject.kind={kind},involvedObject.name={name}"
        core, space = self._cluster.core, self._cluster.namespace
        events = self._ask(core.list_namespaced_event, space, field_selector=of)
        return events.items if events else []

    def _log(self, pod: V1Pod) -> str:
        """What a container that failed has said last, unless that is known already."""
        ends = [(container.name, faults.terminated(container)) for container in faults.containers_of(pod)]
        silent = [name for name, end in ends if end and end.exit_code and not end.message]
        if not silent:
            return ""
        read, space = self._cluster.core.read_namespaced_pod_log, self._cluster.namespace
        log = self._ask(read, name_of(pod), space, container=silent[0], tail_lines=LOG_LINES)
        return faults.one_line(without_secrets(log or ""))

    def _ask(self, question: Callable[..., T], *arguments: str, **options: Any) -> T | None:
        """An answer that only makes a message better, and that may be missing."""
        try:
            return call(question, *arguments, seconds=0, _request_timeout=ASK, **options)
        except ClusterError:
            return None
