# SPDX-License-Identifier: Apache-2.0
"""Pairs that a cluster's nodes make: which there are, which a deployment takes or waits for, where its client goes."""

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import V1Job
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.kubernetes import testbed
from tpcsweep.testbeds.kubernetes.api import ClusterError
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.nodes import disjoint, node_pairs
from tpcsweep.testbeds.kubernetes.objects import chosen_nodes, client_job
from tpcsweep.testbeds.kubernetes.pod_templates import node_selector
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair
from tpcsweep.testbeds.kubernetes.watch import OccupiedError

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes, pods, selecting

DTN = selecting({"role": "dtn"})
BROKEN = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OURS = {"key": "dedicated", "value": "dtn", "effect": "NoSchedule"}


def settings(source: dict[str, Any] = DTN, destination: dict[str, Any] = DTN, **changes: Any) -> Kubernetes:
    each = {"rtt": 20, "source": source, "destination": destination}
    return kubernetes(**{"paths": {"kind": "nodes", "pairs": "all", "each": each}, **changes})


def put(server: PlayedApi, name: str, *taints: dict[str, str], **labels: str) -> None:
    meta = {"name": name, "labels": {"kubernetes.io/hostname": f"{name}-host", **labels}}
    server.put("nodes", {"metadata": meta, "spec": {"taints": list(taints)}})


def put_dtns(server: PlayedApi, count: int, **tainted: dict[str, str]) -> None:
    """Nodes n0, n1, … with the role dtn, some of them by their names with a taint."""
    for name in (f"n{number}" for number in range(count)):
        put(server, name, *([tainted[name]] if name in tainted else []), role="dtn")


def hosts(pairs: tuple[Pair, ...]) -> list[list[str]]:
    return [
        [node_selector(placed.podTemplate)["kubernetes.io/hostname"] for _, placed in pair.sides]
        for pair in pairs
    ]


names = st.sets(st.integers(0, 12).map(str))


@given(sources=names, destinations=names)
def test_pairs_share_no_name_and_are_as_many_as_can_be(sources: set[str], destinations: set[str]) -> None:
    found = disjoint(sources, destinations)
    used = list(itertools.chain.from_iterable(found))
    assert len(set(used)) == len(used)
    assert all(source in sources and destination in destinations for source, destination in found)
    # No matching is larger than either side, nor than half of all names.
    assert len(found) == min(len(sources), len(destinations), len(sources | destinations) // 2)
    assert found == disjoint(sorted(sources, reverse=True), sorted(destinations, reverse=True))


def test_one_selector_for_both_sides_pairs_nodes_with_each_other(server: PlayedApi) -> None:
    put_dtns(server, 5)
    put(server, "other", role="web")
    found = node_pairs(server.cluster(), settings())
    assert hosts(found) == [["n0-host", "n1-host"], ["n2-host", "n3-host"]]
    assert all(pair.rtt == 20 for pair in found)
    # Who names one of these nodes himself chooses the same ones.
    by_hand = selecting({"kubernetes.io/hostname": "n0-host"})
    named = Pair.model_validate({"rtt": 1, "source": by_hand, "destination": by_hand})
    assert chosen_nodes(named) < chosen_nodes(found[0])


def test_two_selectors_pair_two_sites(server: PlayedApi) -> None:
    for site, number in itertools.product(("near", "far"), range(3)):
        put(server, f"{site}{number}", site=site)
    given = settings(selecting({"site": "near"}), selecting({"site": "far"}))
    expected = [[f"near{number}-host", f"far{number}-host"] for number in range(3)]
    assert hosts(node_pairs(server.cluster(), given)) == expected


def test_pairs_are_the_same_while_a_node_is_not_ready(server: PlayedApi) -> None:
    put_dtns(server, 6, n2=BROKEN)
    assert hosts(node_pairs(server.cluster(), settings())) == [["n0-host", "n1-host"], ["n4-host", "n5-host"]]


def test_nodes_of_others_are_in_no_pair_unless_they_are_tolerated(server: PlayedApi) -> None:
    put_dtns(server, 3, n1=OURS)
    dedicated = {"key": "dedicated"}
    tolerant = [[dedicated | {"value": "dtn"}], [{"operator": "Exists"}]]
    others = [[dedicated | {"value": "web"}], [dedicated | {"effect": "NoExecute"}], []]
    for tolerations in (*tolerant, *others):
        placed = pods(nodeSelector={"role": "dtn"}, tolerations=tolerations)
        partner = "n1-host" if tolerations in tolerant else "n2-host"
        assert hosts(node_pairs(server.cluster(), settings(placed, placed))) == [["n0-host", partner]]


def test_too_few_nodes_are_refused_with_their_names(server: PlayedApi) -> None:
    put_dtns(server, 2, n1=OURS)
    with pytest.raises(ClusterError, match=r"no pair of nodes.*found: role=dtn: 2, 1 of them tolerated"):
        node_pairs(server.cluster(), settings())
    # Who may not list nodes is told what to do.
    server.refuse = lambda path: 403 if path.endswith("/nodes") else None
    with pytest.raises(ClusterError, match=r"config/kubernetes/nodes\.yaml .* paths\.pairs"):
        node_pairs(server.cluster(), settings())


def test_pairs_that_are_given_ask_nobody(server: PlayedApi) -> None:
    given = settings(paths={"kind": "nodes", "pairs": [{"rtt": 1}]})
    assert node_pairs(server.cluster(), given) == given.pairs
    assert server.asked == []


def test_deployments_and_attempts_begin_with_different_pairs_and_take_any_free_one(server: PlayedApi) -> None:
    put_dtns(server, 6)
    pairs = node_pairs(server.cluster(), settings())
    jobs: list[V1Job] = []
    assert [testbed.first_free(jobs, pairs, preferred) for preferred in range(4)] == [*pairs, pairs[0]]
    for pair, other in ((pairs[1], pairs[2]), (pairs[2], pairs[0])):
        jobs.append(client_job(Naming.new("a sweep", "rtt=20", settings()), settings(), 60.0, pair))
        assert testbed.first_free(jobs, pairs, 1) == other
    jobs.append(client_job(Naming.new("a sweep", "rtt=20", settings()), settings(), 60.0, pairs[0]))
    with pytest.raises(OccupiedError, match=r"^[0-9a-f]{10}: rtt=20 of sweep a sweep by .* and 2 more$"):
        testbed.first_free(jobs, pairs, 1)


def test_the_client_is_beside_the_source_unless_the_testbed_says_where_it_is(server: PlayedApi) -> None:
    put_dtns(server, 2, n0=OURS, n1=OURS)
    anything = [{"operator": "Exists"}]
    tolerant = pods(nodeSelector={"role": "dtn"}, tolerations=anything)
    annotated = {"podTemplate": {"metadata": {"annotations": {"a": "b"}}}}
    given = settings(tolerant, tolerant, client=annotated)
    elsewhere = settings(tolerant, tolerant, client=selecting({"role": "client"}))
    by_hand = settings(paths={"kind": "nodes", "pairs": [{"rtt": 1}]})
    [pair], [told], [alone] = (node_pairs(server.cluster(), one) for one in (given, elsewhere, by_hand))
    beside = {"nodeSelector": {"kubernetes.io/hostname": "n0-host"}, "tolerations": anything}
    assert pair.client.podTemplate == {**annotated["podTemplate"], "spec": beside}
    assert node_selector(told.client.podTemplate) == {"role": "client"}
    assert alone.client.podTemplate == {}


def test_nothing_watches_pods_of_a_deployment_that_was_refused(server: PlayedApi, tmp_path: Path) -> None:
    server.refuse = lambda path: 403 if path.endswith("/networkpolicies") else None
    wanted = DeploymentParameters(rtt=20, bandwidth=1, mtu=1500)
    request = Request("a sweep", "rtt=20", wanted, [], 60, tmp_path, lambda _: None)
    with pytest.raises(ClusterError), testbed.running_pods(server.cluster(), kubernetes(), request):
        pass
    assert "pods" not in {thread.name for thread in threading.enumerate()}
