# SPDX-License-Identifier: Apache-2.0
"""The deployments of a namespace, and their removal.

A client's Job owns all other objects of its deployment. Its annotations name the deployment's nodes, and the process
that made it. Removal deletes Jobs and pods by the label of their deployment; the cluster collects all other objects
with the client's Job. A sweep therefore needs no right to delete them.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from kubernetes.client import V1Job, V1Pod

from tpcsweep.testbeds.interface import TeardownError, take_all_steps
from tpcsweep.testbeds.kubernetes import metadata
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call

FORCE_SECONDS = 15.0  # seconds after which a pod counts as gone whose kubelet does not confirm it
GONE_SECONDS = 60.0
DELETIONS: Mapping[type, Mapping[str, Any]] = {
    V1Job: {"propagation_policy": "Background"},  # first, or it would replace its pod
    V1Pod: {"grace_period_seconds": 1},
}
"""Kinds of objects in the order of their deletion, with its options."""


def deployments(cluster: Cluster) -> list[V1Job]:
    """Return the clients' Jobs of all deployments of a namespace. Raises ClusterError."""
    clients = f"{metadata.SELECTOR},{metadata.ROLE}=client"
    return call(cluster.batch.list_namespaced_job, cluster.namespace, label_selector=clients).items


def leftovers(cluster: Cluster) -> dict[str, str]:
    """Describe the deployments of this machine whose process has ended, by identifier. Raises ClusterError.

    The cluster removes those of other machines, `orphan_time` after their last sign of life.
    """
    ended = filter(metadata.owner_ended, deployments(cluster))
    return {metadata.deployment_identifier(job): metadata.deployment_text(job) for job in ended}


def users(jobs: Iterable[V1Job], nodes: Collection[str], before: V1Job | None = None) -> list[str]:
    """Describe the deployments of some clients' Jobs that chose one of some nodes (annotation NODES). Pure.

    With `before`, describe only others that are as old as the one of this Job, in seconds of the API server, or older.
    """

    def created(job: V1Job) -> Any:
        return metadata.object_metadata(job).creation_timestamp

    def chosen(job: V1Job) -> list[str]:
        return (metadata.object_metadata(job).annotations or {}).get(metadata.NODES, "").splitlines()

    using = [job for job in jobs if not set(nodes).isdisjoint(chosen(job))]
    if before:
        own = metadata.object_name(before)
        using = [job for job in using if metadata.object_name(job) != own and created(job) <= created(before)]
    return list(map(metadata.deployment_text, using))


def reap(cluster: Cluster) -> list[str]:
    """Remove leftovers, and describe them and every use of force. Raises ClusterError, and at last TeardownError."""
    removed: list[str] = []
    problems: list[str] = []
    for identifier, whose in leftovers(cluster).items():
        try:
            removed += [whose, *teardown(cluster, identifier)]
        except TeardownError as error:
            problems.append(str(error))
    if problems:
        raise TeardownError("; ".join(problems))
    return removed


def teardown(cluster: Cluster, identifier: str) -> list[str]:
    """Remove the Jobs and pods of a deployment, and wait until they are gone; raises TeardownError if some remain.

    Returns a line for each pod that was removed by force, as its node does not answer.
    """
    forced: dict[str, str] = {}
    ours = metadata.selector(identifier)

    def delete(kind: type, **which: Any) -> None:
        call(cluster.verb("delete_collection", kind), cluster.namespace, seconds=GONE_SECONDS, **which)

    def listed(kind: type) -> Any:
        return call(cluster.verb("list", kind), cluster.namespace, label_selector=ours).items

    def wait() -> None:
        began, pause = time.monotonic(), 0.1
        while remaining := listed(V1Pod) or listed(V1Job):
            waited = time.monotonic() - began
            if waited > GONE_SECONDS:
                raise TeardownError("; ".join(map(_describe, remaining)))
            for item in remaining:
                name, node = metadata.object_name(item), metadata.node_name(item) or "(none)"
                if waited > FORCE_SECONDS and isinstance(item, V1Pod) and name not in forced:
                    delete(V1Pod, field_selector=f"metadata.name={name}", grace_period_seconds=0)
                    why = f"node {node} did not end it, and may still run it"
                    forced[name] = f"pod {name} removed by force: {why}"
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    deletions = [partial(delete, kind, label_selector=ours, **how) for kind, how in DELETIONS.items()]
    take_all_steps(identifier, [*deletions, wait], ClusterError)
    return list(forced.values())


def _describe(item: Any) -> str:
    meta = metadata.object_metadata(item)
    pod = isinstance(item, V1Pod)
    named = f"pod {meta.name} on node {metadata.node_name(item) or '(none)'}" if pod else f"job {meta.name}"
    kept = f", kept by finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    return f"{named} is still there{kept}"
