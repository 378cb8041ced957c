# SPDX-License-Identifier: Apache-2.0
"""Objects of deployments in a namespace, and their removal.

Removal deletes Jobs and pods by the label of their deployment. The cluster collects all other objects with the client's
Job, which owns them. A sweep therefore needs no right to delete Secrets, which would be one to read them: the API
returns the deleted object. A deployment is alive while it holds a Lease, from before its first object until after its
last one.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes.client import V1Job, V1ObjectMeta, V1Pod

from tpcsweep.testbeds import TeardownError, take_all_steps
from tpcsweep.testbeds.kubernetes import leases, metadata
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call

FORCE_SECONDS = 15.0
"""Seconds after which a pod counts as gone whose kubelet does not confirm it."""
GONE_SECONDS = 60.0
DELETIONS: Mapping[type, Mapping[str, Any]] = {
    V1Job: {"propagation_policy": "Background"},  # first, or it would replace its pod
    V1Pod: {"grace_period_seconds": 1},
}
"""Kinds of objects in the order of their deletion, with its options."""


@dataclass(frozen=True)
class Leftover:
    """A deployment without an owner."""

    identifier: str
    notes: Mapping[str, str]
    """Annotations of its objects, which name the owner."""
    age: float
    """Seconds since its first object was created."""

    def __str__(self) -> str:
        return f"{metadata.whose(self.identifier, self.notes)}, {self.age:.0f} s old"


def leftovers(cluster: Cluster) -> list[Leftover]:
    """Return the deployments that hold no Lease, not even an expired one. Raises ClusterError."""
    owned: dict[str, list[Any]] = {}
    for item in _objects(cluster, leases.holders(cluster)):
        owned.setdefault(metadata.deployment_of(item), []).append(item)
    # A deployment has its Lease before its first object, so those that are alive have one now.
    alive = leases.holders(cluster) if owned else set()
    return [_leftover(name, items) for name, items in sorted(owned.items()) if name and name not in alive]


def reap(cluster: Cluster) -> list[str]:
    """Remove the objects of dead deployments, and describe them and every use of force.

    Takes up to leases.DURATION if Leases have expired.

    Raises:
        ClusterError: The API server refuses, or does not answer.
        TeardownError: Objects remain, after all others are gone.
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
    """Remove the Jobs and pods of a deployment, and wait until they are gone.

    Returns:
        A line for each pod that was removed by force, as its node does not answer.

    Raises:
        TeardownError: Objects remain.
    """
    forced: dict[str, str] = {}
    ours = metadata.selector(identifier)

    def delete(kind: type) -> None:
        function = cluster.verb("delete_collection", kind)
        call(function, cluster.namespace, label_selector=ours, seconds=GONE_SECONDS, **DELETIONS[kind])

    deletions = [partial(delete, kind) for kind in DELETIONS]
    take_all_steps(identifier, [*deletions, partial(_wait, cluster, identifier, forced)], ClusterError)
    return list(forced.values())


def _wait(cluster: Cluster, identifier: str, forced: dict[str, str]) -> None:
    """Wait until pods and Jobs are gone; add pods that were removed by force to `forced`."""
    began, pause = time.monotonic(), 0.1
    while remaining := _remaining(cluster, identifier):
        waited = time.monotonic() - began
        if waited > GONE_SECONDS:
            raise TeardownError("; ".join(map(_describe, remaining)))
        for item in remaining:
            name = metadata.name_of(item)
            if waited > FORCE_SECONDS and isinstance(item, V1Pod) and name not in forced:
                delete = cluster.verb("delete_collection", V1Pod)
                named = f"metadata.name={name}"
                call(delete, cluster.namespace, field_selector=named, grace_period_seconds=0)
                node = metadata.node_of(item) or "(none)"
                forced[name] = (
                    f"pod {name} removed by force: node {node} did not end it, and may still run it"
                )
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def _remaining(cluster: Cluster, identifier: str) -> list[Any]:
    """Return the pods that remain; without pods the Jobs."""
    ours = metadata.selector(identifier)
    for kind in (V1Pod, V1Job):
        if items := call(cluster.verb("list", kind), cluster.namespace, label_selector=ours).items:
            return list(items)
    return []


def _objects(cluster: Cluster, others: set[str]) -> list[Any]:
    """Return all Jobs and pods but those of `others`."""
    names = ",".join(sorted(others))
    chosen = f"{metadata.SELECTOR},{metadata.DEPLOYMENT} notin ({names})" if names else metadata.SELECTOR
    listings = (
        call(cluster.verb("list", kind), cluster.namespace, label_selector=chosen) for kind in DELETIONS
    )
    return [item for listing in listings for item in listing.items]


def _leftover(identifier: str, items: list[Any]) -> Leftover:
    metas: list[V1ObjectMeta] = [metadata.meta_of(item) for item in items]
    notes = next((meta.annotations for meta in metas if metadata.SWEEP in (meta.annotations or {})), None)
    now = datetime.datetime.now(datetime.UTC)
    ages = [(now - meta.creation_timestamp).total_seconds() for meta in metas if meta.creation_timestamp]
    return Leftover(identifier, notes or {}, age=max([0.0, *ages]))


def _describe(item: Any) -> str:
    meta = metadata.meta_of(item)
    pod = isinstance(item, V1Pod)
    named = f"pod {meta.name} on node {metadata.node_of(item) or '(none)'}" if pod else f"job {meta.name}"
    kept = f", kept by finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    deleted = "" if meta.deletion_timestamp else ", not deleted"
    return f"{named} is still there{deleted}{kept}"
