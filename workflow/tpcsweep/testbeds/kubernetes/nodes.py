# SPDX-License-Identifier: Apache-2.0
"""The pairs that a cluster's nodes make, for `pairs: all` of a testbed's file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from kubernetes.client import V1Node

from tpcsweep.configuration.kubernetes import Kubernetes, Pair
from tpcsweep.configuration.placements import Role
from tpcsweep.configuration.templates import merged, node_selector, spec_of
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call
from tpcsweep.testbeds.kubernetes.metadata import meta_of
from tpcsweep.testbeds.kubernetes.objects import NODE

Placed = TypeVar("Placed", bound=Role)
PASSING = "node.kubernetes.io/"
"""What the taints begin with that a cluster sets, and takes away again: of a node that is not ready, or is drained.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"""
BARRING = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods off a node."""
RIGHT = (
    "config/kubernetes/nodes.yaml gives the right to list nodes; or name the pairs one by one in paths.pairs"
)


class Node(NamedTuple):
    """A node as pods find it."""

    host: str
    """The value of its label NODE."""
    taints: tuple[Mapping[str, str], ...]
    """Those that keep pods off it."""


def pairs_of(cluster: Cluster, settings: Kubernetes) -> tuple[Pair, ...]:
    """Give the pairs of a testbed that can be used now, each with its nodes by their names where they are found.

    Raises:
        ClusterError: There is no such pair, or nodes cannot be listed, and what to do about it.
    """
    if settings.paths.pairs != "all":
        return settings.pairs
    [each] = settings.pairs
    listed = {side: _list(cluster, node_selector(placed.podTemplate)) for side, placed in each.sides}
    fit = {
        side: {node.host: node for node in listed[side] if not _barred(node, placed, of_its_own=True)}
        for side, placed in each.sides
    }
    found = disjoint(fit["source"], fit["destination"])
    usable = [
        (source, destination)
        for source, destination in found
        if not _barred(fit["source"][source], each.source)
        and not _barred(fit["destination"][destination], each.destination)
    ]
    if not usable:
        counts = ", ".join(
            f"{_labels(node_selector(placed.podTemplate)) or 'no label'}: {len(listed[side])}, "
            f"{len(fit[side])} of them tolerated"
            for side, placed in each.sides
        )
        raise ClusterError(
            f"paths.each: no pair of nodes: of {len(found)} that there are none is ready; nodes found: {counts}"
        )
    return tuple(_between(each, *hosts) for hosts in usable)


def disjoint(sources: Collection[str], destinations: Collection[str]) -> list[tuple[str, str]]:
    """Make as many pairs as there can be of a source and a destination, no name in two of them. Pure.

    The same names make the same pairs, whatever their order.
    """
    both = sorted(set(sources) & set(destinations))
    first, second = sorted(set(sources) - set(both)), sorted(set(destinations) - set(both))
    # Those that can be either fill up the shorter side, and are paired with one another then.
    lacking = min(abs(len(first) - len(second)), len(both))
    filling, rest = both[:lacking], both[lacking:]
    shorter = first if len(first) < len(second) else second
    shorter.extend(filling)
    return [*zip(first, second, strict=False), *zip(rest[::2], rest[1::2], strict=False)]


def _between(each: Pair, source: str, destination: str) -> Pair:
    client = each.client
    # Unless it is said where the client is: anywhere but beside the source it would take a node from another pair.
    said = client.podTemplate
    if not (node_selector(said) or spec_of(said, "affinity")):
        beside = merged(said, {"spec": {"tolerations": tolerations(each.source)}})
        client = _on(client.model_copy(update={"podTemplate": beside}), source)
    sides = {"source": _on(each.source, source), "destination": _on(each.destination, destination)}
    return each.model_copy(update={**sides, "client": client})


def _on(placed: Placed, host: str) -> Placed:
    """Put pods on one node: in the words of those who name it themselves, so that all wait for one another."""
    template = placed.podTemplate
    spec = {**(template.get("spec") or {}), "nodeSelector": {NODE: host}}
    return placed.model_copy(update={"podTemplate": {**template, "spec": spec}})


def tolerations(placed: Role) -> list[Mapping[str, Any]]:
    return list(spec_of(placed.podTemplate, "tolerations") or [])


def _list(cluster: Cluster, labels: Mapping[str, str]) -> list[Node]:
    try:
        # As the server remembers them: of many who ask for a thousand nodes none needs the very last word.
        listed = call(cluster.core.list_node, label_selector=_labels(labels), resource_version="0")
    except RefusedError as error:
        if error.status != 403:
            raise
        raise ClusterError(f"pairs: all lists nodes: {error}: {RIGHT}") from error
    return list(_nodes(listed.items))


def _nodes(items: Iterable[V1Node]) -> Iterator[Node]:
    for item in items:
        taints = (item.spec and item.spec.taints) or []
        barring = tuple(taint.to_dict() for taint in taints if taint.effect in BARRING)
        if host := (meta_of(item).labels or {}).get(NODE):
            yield Node(host, barring)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _barred(node: Node, placed: Role, *, of_its_own: bool = False) -> bool:
    """Whether a taint keeps pods off a node; `of_its_own`: one that it does not have in passing."""
    return any(
        not any(_tolerates(toleration, taint) for toleration in tolerations(placed))
        for taint in node.taints
        if not (of_its_own and taint["key"].startswith(PASSING))
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
    if not key:
        return exists
    return key == taint["key"] and (exists or toleration.get("value", "") == taint.get("value", ""))
