# SPDX-License-Identifier: Apache-2.0
"""The pods of a deployment, followed by a thread, and the first fault of any of them."""

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any

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
from tpcsweep.testbeds.kubernetes.metadata import Naming, object_metadata, object_name, selector

WATCH_SECONDS = 60  # a watch begins again after this time, in case that its connection is dead
ASK = (2.0, 3.0)  # seconds to connect and to wait, for requests that only improve a message
POLL_SECONDS = 2.0
"""Seconds until the first look at Jobs, because a watch of pods does not show Jobs without pods."""
MOST_POLL_SECONDS = 15.0  # seconds between later looks: a hundred deployments may ask a slow server
REPORT_SECONDS = 4.0
"""Seconds until people are told why pods do not run: the scheduler needs a moment, and a pull is repeated at once."""
SLOW_SECONDS = 20.0
"""Seconds until people are told how far pods have come that have neither started nor a fault."""
HOLD_SECONDS = 20.0
"""About how long pods keep their nodes while others of the deployment wait for nodes in use: of two deployments that
wait for each other, one lets go first."""


class PodError(ClusterError):
    """Pods do not start."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class OccupiedError(PodError):
    """Other deployments use the nodes that pods wait for."""


class PodWatch:
    """The pods of a deployment as they are now, followed by a thread. Close it before you delete them."""

    def __init__(
        self,
        cluster: Cluster,
        naming: Naming,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """List the pods for the first time; raises ClusterError.

        `tell` is called with the reason for which pods have not run for REPORT_SECONDS.
        """
        self._tell = tell
        self._cluster = cluster
        self._selector = selector(naming.identifier)
        self._changed = threading.Condition()
        self._pods: dict[str, V1Pod] = {}
        self._ran: set[str] = set()
        self._first: faults.Fault | None = None
        self._fault_text: str | None = None
        self._refused: tuple[float, str] | None = None
        self._watch: Watch | None = None
        self._ended = threading.Event()
        self._list(seconds=PATIENCE)
        self._thread = threading.Thread(target=self._run, daemon=True, name="pods")
        self._thread.start()

    def pods(self) -> dict[str, V1Pod]:
        with self._changed:
            return dict(self._pods)

    def wait_for(self, condition: Callable[[dict[str, V1Pod]], bool], seconds: float) -> bool:
        """Return whether a condition has become true within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(dict(self._pods)), seconds)

    def wait_until_ready(self, count: int, seconds: float) -> dict[str, V1Pod]:
        """Wait until `count` pods run and are ready, and return them.

        Raises OccupiedError if pods wait for nodes that other deployments use for HOLD_SECONDS, and
        PodError if the time is over, or a fault is final.
        """
        give_up = time.monotonic() + seconds
        hold = HOLD_SECONDS * random.uniform(0.5, 1.5)
        until = hindered = math.inf
        pause, reported = POLL_SECONDS, ""

        def settled(pods: dict[str, V1Pod]) -> bool:
            return self._first is not None or sum(map(faults.ready, pods.values())) >= count

        while not self.wait_for(settled, max(0.0, min(pause, min(give_up, until) - time.monotonic()))):
            pause = min(2 * pause, MOST_POLL_SECONDS if reported else REPORT_SECONDS)
            now, pods = time.monotonic(), self.pods()
            late = now >= give_up
            unscheduled = list(filter(None, map(faults.unscheduled, pods.values())))
            occupied = next((words for words in unscheduled if faults.OCCUPIED in words), None)
            if occupied and now >= min(give_up, until):
                raise OccupiedError(occupied)
            until = min(until, now + hold) if occupied else math.inf
            job = next(iter(self.job_faults()), None) if late or len(pods) < count else None
            if job and (late or job.final):
                raise PodError(job.text, final=job.final)
            if late:
                raise PodError(f"not running after {seconds:.0f} s: {self._unready(pods, count)}")
            slow = now >= give_up - seconds + SLOW_SECONDS  # by a volume or network, which only events report
            waits = slow or unscheduled or job or any(map(faults.unpulled, pods.values()))
            hindered = min(hindered, now) if waits else math.inf
            if not occupied and now >= hindered + REPORT_SECONDS:
                words = job.text if job else self._unready(pods, len(pods))
                if words != reported:
                    self._tell(f"waiting: {words}")
                reported = words
        if why := self.fault():
            raise PodError(why)
        return self.pods()

    def fault(self) -> str | None:
        """Return the first fault of any pod, in one line, or None without one.

        It asks the API server once, for the Job, when there is a fault.
        """
        if self._first and self._fault_text is None:
            job = next(iter(self.job_faults()), None)
            self._fault_text = f"{self._first}; {job.text}" if job else str(self._first)
        since, refusal = self._refused or (math.inf, None)
        return self._fault_text or (refusal if time.monotonic() - since > REFUSED_SECONDS else None)

    def own(self) -> bool:
        return self._first is not None and self._first.own

    def close(self) -> None:
        self._ended.set()
        if self._watch:
            self._watch.stop()
        self._thread.join(2.0)

    def _run(self) -> None:
        pause = 0.1
        while not self._ended.wait(0.2):  # a proxy may end watches at once
            try:
                self._follow(self._list(seconds=0))
                self._refused, pause = None, 0.1
            except (ApiException, HTTPError, ClusterError) as error:
                status = getattr(error, "status", None)
                if status in (401, 403):
                    since = self._refused[0] if self._refused else time.monotonic()
                    text = RefusedError(error) if isinstance(error, ApiException) else error
                    self._refused = since, f"pods cannot be watched: {text}"
                self._ended.wait(pause)
                pause = min(2 * pause, 2.0)

    def _list(self, seconds: float) -> str | None:
        """Store the pods of now, and return the version from which to watch them."""
        space, ours = self._cluster.namespace, self._selector
        pods = call(self._cluster.core.list_namespaced_pod, space, label_selector=ours, seconds=seconds)
        with self._changed:
            for name in set(self._pods) - set(map(object_name, pods.items)):
                self._lose(self._pods[name])
            for pod in pods.items:
                self._see(pod)
            self._changed.notify_all()
        return object_metadata(pods).resource_version

    def _follow(self, version: str | None) -> None:
        self._watch = watch = Watch()
        events = watch.stream(
            self._cluster.core.list_namespaced_pod,
            self._cluster.namespace,
            label_selector=self._selector,
            resource_version=version,
            timeout_seconds=WATCH_SECONDS,
            _request_timeout=(5.0, WATCH_SECONDS + 10.0),
        )
        for event in events:
            if self._ended.is_set():
                watch.stop()
            elif event:
                with self._changed:
                    (self._lose if event["type"] == "DELETED" else self._see)(event["object"])
                    self._changed.notify_all()

    def _see(self, pod: V1Pod) -> None:
        """Store a pod's state; the lock is held."""
        known = self._pods.get(object_name(pod))
        # A pod of the same name has replaced it unseen.
        if known and object_metadata(known).uid != object_metadata(pod).uid:
            self._lose(known)
        self._pods[object_name(pod)] = pod
        fault = faults.diagnose(pod)
        # Before a pod has run, faults may pass; afterwards every fault counts.
        if fault and (fault.final or object_metadata(pod).uid in self._ran):
            self._first = self._first or fault
        elif faults.ready(pod):
            self._ran.add(object_metadata(pod).uid or "")

    def _lose(self, pod: V1Pod) -> None:
        """Store a pod's end; the lock is held."""
        self._pods.pop(object_name(pod), None)
        self._first = self._first or faults.gone(pod)

    def _unready(self, pods: dict[str, V1Pod], count: int) -> str:
        """Say why pods do not run, with the same reason once."""
        alike: dict[str, list[str]] = {}
        for name, pod in sorted(pods.items()):
            if not faults.ready(pod):
                events = self.events("Pod", name)
                fault = faults.diagnose(pod, events)
                alike.setdefault(fault.text if fault else faults.progress(pod, events), []).append(name)
        texts = [f"pod{'s' * (len(names) > 1)} {', '.join(names)}: {text}" for text, names in alike.items()]
        if len(pods) < count:
            texts.append(f"{count - len(pods)} of {count} pods do not exist")
        return "; ".join(texts)

    def job_faults(self) -> list[faults.Fault]:
        """Ask the API server for the faults of Jobs that their pods do not show."""
        jobs = self._ask(self._cluster.batch.list_namespaced_job, label_selector=self._selector)
        events = {
            object_name(job): self.events("Job", object_name(job)) for job in jobs if not faults.has_pod(job)
        }
        found = (faults.diagnose_job(job, events.get(object_name(job), ())) for job in jobs)
        return [fault for fault in found if fault]

    def events(self, kind: str, name: str) -> list[CoreV1Event]:
        of = f"involvedObject.kind={kind},involvedObject.name={name}"
        return self._ask(self._cluster.core.list_namespaced_event, field_selector=of)

    def _ask(self, listing: Callable[..., Any], **selector: str) -> list[Any]:
        """Return objects that only improve a message; none if the server does not answer."""
        with contextlib.suppress(ClusterError):
            page = call(listing, self._cluster.namespace, seconds=0, _request_timeout=ASK, **selector)
            return list(page.items)
        return []
