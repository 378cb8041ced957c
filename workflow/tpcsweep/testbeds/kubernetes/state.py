# SPDX-License-Identifier: Apache-2.0
"""What deployments leave in a namespace, and how all of it is removed.

Every object of a deployment has its identifier as a label, so the identifier is enough to remove all of them, whoever
made them and however that ended. A deployment is alive exactly while it holds a Lease that is renewed; it takes that
before it makes anything else, and gives it back when everything else is gone.

Secrets are not deleted but go with their Job: the right to delete one is one to read it, since the API answers with
what it deletes, in a dry run too.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes.client import V1ConfigMap, V1Job, V1NetworkPolicy, V1ObjectMeta, V1Pod, V1Secret

from tpcsweep.testbeds import TeardownError, take_all_steps
from tpcsweep.testbeds.kubernetes import leases, metadata, objects
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call

GRACE_SECONDS = 1
"""What processes have to end by themselves; nothing of theirs is worth more."""
FORCE_SECONDS = 15.0
"""Seconds after which a pod whose kubelet does not say that it is gone is taken for gone."""
GONE_SECONDS = 60.0
DELETIONS: Mapping[type, Mapping[str, Any]] = {
    V1Job: {"propagation_policy": "Background"},  # first, or it would replace its pod
    V1Pod: {"grace_period_seconds": GRACE_SECONDS},
    V1ConfigMap: {},
    V1NetworkPolicy: {},
}
"""The kinds of objects that are deleted, in this order, and how."""


@dataclass(frozen=True)
class Leftover:
    """A deployment that nobody owns any more."""

    identifier: str
    notes: Mapping[str, str]
    """Annotations of its objects: whose it was."""
    age: float
    """Seconds since its first object was made."""

    def __str__(self) -> str:
        return f"{metadata.whose(self.identifier, self.notes)}, {self.age:.0f} s old"


def leftovers(cluster: Cluster) -> list[Leftover]:
    """Deployments that hold no Lease, not even an expired one (`reap` finds those too). Raises ClusterError."""
    # Those that live before are left out by the server, or all who start would read all that everybody has made.
    alive = leases.holders(cluster)
    owned: dict[str, list[Any]] = {}
    for item in _objects(cluster, alive):
        owned.setdefault(metadata.deployment_of(item), []).append(item)
    # And after: a deployment that was seen and lives has a Lease now, for it had one before any object.
    alive = leases.holders(cluster) if owned else set()
    return [_leftover(name, items) for name, items in sorted(owned.items()) if name and name not in alive]


def reap(cluster: Cluster) -> list[str]:
    """Remove what the dead have left; returns what it was, and what had to be done by force.

    Takes up to leases.DURATION where there are expired Leases.

    Raises:
        ClusterError: The API server refuses, or does not answer.
        TeardownError: What is not gone, when all else is.
    """
    removed = [f"Lease of {text}" for text in leases.reap(cluster)]
    problems = []
    for leftover in leftovers(cluster):
        try:
            removed += [str(leftover), *teardown(cluster, leftover.identifier)]
        except TeardownError as error:
            problems.append(str(error))
    if problems:
        raise TeardownError("; ".join(problems))
    return removed


def teardown(cluster: Cluster, identifier: str) -> list[str]:
    """Remove everything of a deployment but its Lease; returns when it is gone.

    Returns:
        Which pods had to be taken for gone, because their nodes do not answer.

    Raises:
        TeardownError: What remains.
    """
    forced: dict[str, str] = {}
    ours = metadata.selector(identifier)

    def delete(kind: type) -> None:
        function = cluster.verb("delete_collection", kind)
        call(function, cluster.namespace, label_selector=ours, seconds=GONE_SECONDS, **DELETIONS[kind])

    deletions = [partial(delete, kind) for kind in DELETIONS]
    steps = [*deletions, partial(_wait, cluster, identifier, forced)]
    take_all_steps(identifier, steps, ClusterError)
    return list(forced.values())


def _wait(cluster: Cluster, identifier: str, forced: dict[str, str]) -> None:
    """Wait until pods, Job and Secrets are gone; what was done by force goes into `forced`, by pod."""
    began = time.monotonic()
    pause = 0.1
    while remaining := _remaining(cluster, identifier):
        waited = time.monotonic() - began
        if waited > GONE_SECONDS:
            raise TeardownError("; ".join(map(_describe, remaining)))
        for item in remaining:
            if waited > FORCE_SECONDS and isinstance(item, V1Pod) and metadata.name_of(item) not in forced:
                forced[metadata.name_of(item)] = _force(cluster, item)
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def _remaining(cluster: Cluster, identifier: str) -> list[Any]:
    """Pods that are left; only when they are gone, Jobs, which go with them; and then Secrets, which go with those."""
    ours = metadata.selector(identifier)
    for kind in (V1Pod, V1Job):
        if items := call(cluster.verb("list", kind), cluster.namespace, label_selector=ours).items:
            return list(items)
    return _secrets(cluster, identifier)


def _secrets(cluster: Cluster, identifier: str) -> list[V1Secret]:
    """Secrets that are left, by their names: one that may not be seen lets nobody make another of its name."""
    prefix = metadata.Naming(identifier, "", "").prefix
    left = []
    for of in objects.SECRETS:
        secret = V1Secret(metadata=V1ObjectMeta(name=f"{prefix}-{of}"))
        try:
            call(cluster.core.create_namespaced_secret, cluster.namespace, secret, dry_run="All")
        except RefusedError as error:
            if error.status == 409:
                left.append(secret)
            elif error.status not in (403, 404):  # a quota, or a namespace that goes: it is not known
                raise
    return left


def _force(cluster: Cluster, pod: V1Pod) -> str:
    """Take a pod for gone that its kubelet does not confirm to be; what this means, in words."""
    name = metadata.name_of(pod)
    try:
        call(cluster.core.delete_namespaced_pod, name, cluster.namespace, grace_period_seconds=0)
    except RefusedError as error:
        if error.status != 404:
            raise
    node = metadata.node_of(pod) or "(none)"
    return f"pod {name} removed by force: node {node} did not end it, and may still run it"


def _objects(cluster: Cluster, apart_from: Iterable[str]) -> Iterable[Any]:
    """All our objects but those of some deployments, and but Secrets."""
    names = ",".join(sorted(apart_from))
    others = f"{metadata.SELECTOR},{metadata.DEPLOYMENT} notin ({names})" if names else metadata.SELECTOR
    for kind in DELETIONS:
        yield from call(cluster.verb("list", kind), cluster.namespace, label_selector=others).items


def _leftover(identifier: str, items: list[Any]) -> Leftover:
    metas: list[V1ObjectMeta] = [metadata.meta_of(item) for item in items]
    notes = next((meta.annotations for meta in metas if metadata.SWEEP in (meta.annotations or {})), None)
    now = datetime.datetime.now(datetime.UTC)
    ages = [(now - meta.creation_timestamp).total_seconds() for meta in metas if meta.creation_timestamp]
    return Leftover(identifier, notes or {}, age=max([0.0, *ages]))


def _describe(item: Any) -> str:
    meta = metadata.meta_of(item)
    if isinstance(item, V1Secret):
        return f"secret {meta.name} is still there: the cluster has not collected it with its Job"
    pod = isinstance(item, V1Pod)
    named = f"pod {meta.name} on node {metadata.node_of(item) or '(none)'}" if pod else f"job {meta.name}"
    kept = f", kept by finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    deleted = "" if meta.deletion_timestamp else ", not deleted"
    return f"{named} is still there{deleted}{kept}"
