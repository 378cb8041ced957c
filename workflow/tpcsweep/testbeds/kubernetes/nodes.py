# SPDX-License-Identifier: Apache-2.0
"""The pairs that a cluster's nodes make, for `pairs: all` of a testbed's file."""

from collections.abc import Collection, Mapping
from typing import Any

from kubernetes.client import V1Node, V1Taint

from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call
from tpcsweep.testbeds.kubernetes.metadata import object_metadata
from tpcsweep.testbeds.kubernetes.objects import NODE
from tpcsweep.testbeds.kubernetes.placements import Role, RoleType
from tpcsweep.testbeds.kubernetes.pod_templates import merged, node_selector, template_field
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair

PASSING = "node.kubernetes.io/"
"""The prefix of taints that a cluster sets and removes itself, as for a node that is not ready.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"""
BARRING = ("NoSchedule", "NoExecute")  # effects of taints that keep pods off a node


def node_pairs(cluster: Cluster, settings: Kubernetes) -> tuple[Pair, ...]:
    """Return the pairs of a testbed that can be used now.

    Raises ClusterError if there is none, or if nodes cannot be listed.
    """
    if settings.paths.pairs != "all":
        return settings.pairs
    [each] = settings.pairs
    fit, ready, counts = [], [], []
    for _, placed in each.sides:
        nodes = _list(cluster, _labels(placed))
        fit.append({host for host, node in nodes.items() if not _barrier(node, placed, passing=False)})
        ready.append({host for host, node in nodes.items() if not _barrier(node, placed)})
        counts.append(f"{_labels(placed) or 'no label'}: {len(nodes)}, {len(fit[-1])} of them tolerated")
    pairs = disjoint(*fit)
    usable = [pair for pair in pairs if pair[0] in ready[0] and pair[1] in ready[1]]
    if not usable:
        words = f"no pair of nodes is ready, of {len(pairs)}; nodes found: {', '.join(counts)}"
        raise ClusterError(f"paths.each: {words}")
    return tuple(_between(each, *hosts) for hosts in usable)


def disjoint(sources: Collection[str], destinations: Collection[str]) -> list[tuple[str, str]]:
    """Return as many pairs of a source and a destination as possible, each name in at most one. Pure.

    The order of the names does not matter.
    """
    both = sorted(set(sources) & set(destinations))
    first, second = sorted(set(sources) - set(both)), sorted(set(destinations) - set(both))
    # Names that can be either join the shorter side, and are then paired with each other.
    lacking = min(abs(len(first) - len(second)), len(both))
    filling, rest = both[:lacking], both[lacking:]
    shorter = first if len(first) < len(second) else second
    shorter.extend(filling)
    return [*zip(first, second, strict=False), *zip(rest[::2], rest[1::2], strict=False)]


def _between(each: Pair, source: str, destination: str) -> Pair:
    client = each.client
    # Unless its template places the client, it runs with the source: elsewhere it would use a node of another pair.
    given = client.podTemplate
    if not (node_selector(given) or template_field(given, "spec", "affinity")):
        tolerations = template_field(each.source.podTemplate, "spec", "tolerations") or []
        beside = merged(given, {"spec": {"tolerations": tolerations}})
        client = _on(client.model_copy(update={"podTemplate": beside}), source)
    sides = {"source": _on(each.source, source), "destination": _on(each.destination, destination)}
    return each.model_copy(update={**sides, "client": client})


def _on(placed: RoleType, host: str) -> RoleType:
    """Put pods on one node, as users name it, so that all call it the same."""
    template = placed.podTemplate
    spec = {**(template.get("spec") or {}), "nodeSelector": {NODE: host}}
    return placed.model_copy(update={"podTemplate": {**template, "spec": spec}})


def _list(cluster: Cluster, labels: str) -> dict[str, V1Node]:
    """Return nodes by their label NODE."""
    try:
        # From the server's cache: many deployments may list a thousand nodes.
        listed = call(cluster.core.list_node, label_selector=labels, resource_version="0")
    except RefusedError as error:
        if error.status != 403:
            raise
        remedy = "config/kubernetes/nodes.yaml gives the right to do so; or list the pairs in paths.pairs"
        raise ClusterError(f"pairs: all lists nodes: {error}: {remedy}") from error
    named = {(object_metadata(node).labels or {}).get(NODE, ""): node for node in listed.items}
    return {host: node for host, node in named.items() if host}


def _labels(placed: Role) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(node_selector(placed.podTemplate).items()))


def _barrier(node: V1Node, placed: Role, *, passing: bool = True) -> str:
    """Return the taint that keeps pods off a node, as kubectl writes it, or nothing. Pure.

    Taints that a cluster sets for a while count only with `passing`.
    """
    tolerations = template_field(placed.podTemplate, "spec", "tolerations") or []
    for taint in (node.spec and node.spec.taints) or []:
        counts = taint.effect in BARRING and (passing or not taint.key.startswith(PASSING))
        if counts and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"{taint.key}{'=' if taint.value else ''}{taint.value or ''}:{taint.effect}"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: V1Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
    if not key:
        return exists
    return key == taint.key and (exists or toleration.get("value", "") == (taint.value or ""))
