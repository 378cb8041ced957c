"""Who owns what in a namespace, and how all of it is removed.

Every object of a deployment has its identifier as a label, so the identifier is enough to remove all of them, whoever
made them and however that ended. A deployment is alive exactly while it holds a Lease that is renewed; it takes that
before it makes anything else, and gives it back when everything else is gone.
"""

from __future__ import annotations

import datetime
import getpass
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kubernetes.client import V1ObjectMeta, V1Pod

from tpcsweep.testbeds.kubernetes import leases
from tpcsweep.testbeds.kubernetes.api import DEPLOYMENT, SELECTOR, Cluster, ClusterError, RefusedError, call
from tpcsweep.testbeds.kubernetes.leases import CELLS, OWNER, SWEEP

ROLE = "tpcsweep/role"
SIDE = "tpcsweep/side"
GRACE_SECONDS = 1
"""What processes have to end by themselves; nothing of theirs is worth more."""
FORCE_SECONDS = 15.0
"""Seconds after which a pod whose kubelet does not say that it is gone is taken for gone."""
GONE_SECONDS = 60.0
"""Seconds for everything to be gone."""


class TeardownError(Exception):
    """Something of a deployment is still there, and what it is."""


@dataclass(frozen=True)
class Leftover:
    """A deployment that nobody owns any more."""

    identifier: str
    sweep: str
    cells: str
    owner: str
    age: float
    """Seconds since its first object was made."""


def prefix(identifier: str) -> str:
    """What the names of a deployment's objects begin with."""
    return f"tpc-{identifier}"


def labels(identifier: str, role: str | None = None, side: str | None = None) -> dict[str, str]:
    """Labels of an object of a deployment; pods have a role and a side too."""
    found = {
        "app.kubernetes.io/name": "tpcsweep",
        "app.kubernetes.io/managed-by": "tpcsweep",
        DEPLOYMENT: identifier,
        ROLE: role,
        SIDE: side,
    }
    return {key: value for key, value in found.items() if value is not None}


def ownership(sweep: str, cells: str) -> dict[str, str]:
    """Annotations of every object of a deployment of this process: whose it is."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container the user need not have a name
        user = str(os.getuid())
    return {SWEEP: sweep, CELLS: cells, OWNER: f"{user}@{socket.gethostname()} pid {os.getpid()}"}


def selector(identifier: str) -> str:
    """Selects the objects of one deployment."""
    return f"{DEPLOYMENT}={identifier}"


def describe(leftover: Leftover) -> str:
    """A leftover in words."""
    return (
        f"{leftover.identifier}: {leftover.cells or 'the only deployment'} of sweep "
        f"{leftover.sweep or '(unknown)'} by {leftover.owner or '(unknown)'}, {leftover.age:.0f} s old"
    )


def leftovers(cluster: Cluster) -> list[Leftover]:
    """Deployments that hold no Lease, not even an expired one (`reap` finds those too). Raises ClusterError."""
    # Those that live before are left out by the server, or all who start would read all that everybody has made.
    alive = leases.holders(cluster)
    found: dict[str, list[V1ObjectMeta]] = {}
    for meta in _objects(cluster, alive):
        found.setdefault((meta.labels or {}).get(DEPLOYMENT, ""), []).append(meta)
    # And after: a deployment that was seen and lives has a Lease now, for it had one before any object.
    alive = leases.holders(cluster) if found else set()
    return [_leftover(name, metas) for name, metas in sorted(found.items()) if name and name not in alive]


def reap(cluster: Cluster) -> list[str]:
    """Remove what the dead have left; returns what it was, and what had to be done by force.

    Takes up to leases.DURATION where there are expired Leases. Raises ClusterError and TeardownError.
    """
    removed = [f"Lease of {text}" for text in leases.reap(cluster)]
    problems = []
    for leftover in leftovers(cluster):
        try:
            removed += [describe(leftover), *teardown(cluster, leftover.identifier)]
        except TeardownError as error:
            problems.append(str(error))
    if problems:
        raise TeardownError("; ".join(problems))
    return removed


def teardown(cluster: Cluster, identifier: str) -> list[str]:
    """Remove everything of a deployment but its Lease; returns when it is gone.

    Every step is tried, whatever became of the others; what remains raises TeardownError. The answer says which
    pods had to be taken for gone, because their nodes do not answer.
    """
    problems: list[str] = []
    forced: list[str] = []
    steps: list[Callable[[], object]] = [
        *_deletions(cluster, identifier),
        lambda: forced.extend(_wait(cluster, identifier)),
    ]
    for step in steps:
        try:
            step()
        except (ClusterError, TeardownError) as error:
            problems.append(str(error))
    if problems:
        raise TeardownError(f"deployment {identifier} is not gone: {'; '.join(problems)}")
    return forced


def _deletions(cluster: Cluster, identifier: str) -> list[Callable[[], object]]:
    """All deletions. The Job is first, or it would replace its pod."""
    space, ours = cluster.namespace, selector(identifier)
    core, batch, networking = cluster.core, cluster.batch, cluster.networking
    deletions: list[Callable[[], object]] = [
        lambda: batch.delete_collection_namespaced_job(
            space, propagation_policy="Background", label_selector=ours
        ),
        lambda: core.delete_collection_namespaced_pod(
            space, grace_period_seconds=GRACE_SECONDS, label_selector=ours
        ),
        lambda: core.delete_collection_namespaced_secret(space, label_selector=ours),
        lambda: core.delete_collection_namespaced_config_map(space, label_selector=ours),
        lambda: networking.delete_collection_namespaced_network_policy(space, label_selector=ours),
    ]
    return [_called(deletion) for deletion in deletions]


def _called(deletion: Callable[[], object]) -> Callable[[], object]:
    return lambda: call(deletion, seconds=GONE_SECONDS)


def _wait(cluster: Cluster, identifier: str) -> list[str]:
    """Wait until pods and Job are gone; returns what was done by force."""
    forced: dict[str, str] = {}
    began = time.monotonic()
    pause = 0.1
    while remains := _remains(cluster, identifier):
        waited = time.monotonic() - began
        if waited > GONE_SECONDS:
            raise TeardownError("; ".join(_describe(kind, item) for kind, item in remains))
        for _, item in remains:
            if waited > FORCE_SECONDS and isinstance(item, V1Pod) and _meta(item).name not in forced:
                forced[_meta(item).name or ""] = _force(cluster, item)
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
    return list(forced.values())


def _remains(cluster: Cluster, identifier: str) -> list[tuple[str, Any]]:
    """Pods that are left; only when they are gone, Jobs, which go with them."""
    ours = selector(identifier)
    pods = call(lambda: cluster.core.list_namespaced_pod(cluster.namespace, label_selector=ours))
    if pods.items:
        return [("pod", pod) for pod in pods.items]
    jobs = call(lambda: cluster.batch.list_namespaced_job(cluster.namespace, label_selector=ours))
    return [("job", job) for job in jobs.items]


def _force(cluster: Cluster, pod: V1Pod) -> str:
    """Take a pod for gone that its kubelet does not confirm to be; what this means, in words."""
    meta = _meta(pod)
    try:
        call(
            lambda: cluster.core.delete_namespaced_pod(
                meta.name or "", cluster.namespace, grace_period_seconds=0
            )
        )
    except RefusedError as error:
        if error.status != 404:
            raise
    return f"pod {meta.name} removed by force: node {_node(pod)} did not end it, and may still run it"


def _objects(cluster: Cluster, apart_from: Iterable[str]) -> Iterable[V1ObjectMeta]:
    """Metadata of all our objects but those of some deployments.

    Secrets need a right of their own to be seen, and go with their Job.
    """
    names = ",".join(sorted(apart_from))
    space, others = cluster.namespace, f"{SELECTOR},{DEPLOYMENT} notin ({names})" if names else SELECTOR
    core, batch, networking = cluster.core, cluster.batch, cluster.networking
    listings: list[Callable[[], Any]] = [
        lambda: batch.list_namespaced_job(space, label_selector=others),
        lambda: core.list_namespaced_pod(space, label_selector=others),
        lambda: core.list_namespaced_config_map(space, label_selector=others),
        lambda: networking.list_namespaced_network_policy(space, label_selector=others),
    ]
    for listing in listings:
        yield from (_meta(item) for item in call(listing).items)


def _leftover(identifier: str, metas: list[V1ObjectMeta]) -> Leftover:
    notes = next((meta.annotations for meta in metas if SWEEP in (meta.annotations or {})), None) or {}
    now = datetime.datetime.now(datetime.UTC)
    ages = [(now - meta.creation_timestamp).total_seconds() for meta in metas if meta.creation_timestamp]
    return Leftover(
        identifier,
        sweep=notes.get(SWEEP, ""),
        cells=notes.get(CELLS, ""),
        owner=notes.get(OWNER, ""),
        age=max(0.0, *ages),
    )


def _describe(kind: str, item: Any) -> str:
    """What keeps an object, as far as it says."""
    meta = _meta(item)
    node = f" on node {_node(item)}" if isinstance(item, V1Pod) else ""
    kept = f", kept by finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    deleted = "" if meta.deletion_timestamp else ", not deleted"
    return f"{kind} {meta.name}{node} is still there{deleted}{kept}"


def _node(pod: V1Pod) -> str:
    return (pod.spec and pod.spec.node_name) or "(none)"


def _meta(item: Any) -> V1ObjectMeta:
    return item.metadata or V1ObjectMeta()
