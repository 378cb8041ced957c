# SPDX-License-Identifier: Apache-2.0
"""Networks of pods: those that Multus attaches, by each way of assigning addresses, and pods' own of IPv6."""

import ipaddress
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from tpcsweep.configuration.templates import merged
from tpcsweep.testbeds.kubernetes.objects import NETWORK, NETWORK_STATUS

from tests.cluster import local
from tests.cluster.local import attached
from tests.cluster.local.settings import Node
from tests.cluster.sweeps import FASTER, ONE, RATE, Space, local_testbed, recipe, space

MTU = 9000
RECIPE = recipe("networks")
ASSIGNED, STATIC = RECIPE["paths"]["pairs"]
DEFAULT = "v1.multus-cni.io/default-network"
"""The annotation by which a pod's own network, to Multus, is another than the nodes'."""
Networked = tuple[Space, list[Node]]


@pytest.fixture(scope="module")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networked]:
    """Two nodes 20 ms apart, and a namespace with the networks of each."""
    folder = tmp_path_factory.mktemp("networked")
    with local.cluster(folder, 2, networks=True) as cluster, space(cluster.kubeconfig, "networked") as made:
        for node in cluster.nodes:
            for definition in attached.definitions(node, MTU):
                cluster.kubectl("create", "-n", made.name, "-f", "-", input=json.dumps(definition))
        yield made, cluster.nodes


def on_own(kind: str, placed: Mapping[str, Any], site: str) -> dict[str, Any]:
    """A role or side whose pods have a network of this kind as their own."""
    annotations = {DEFAULT: f"networked/{kind}-{site}"}
    return {
        **placed,
        "podTemplate": merged(placed["podTemplate"], {"metadata": {"annotations": annotations}}),
    }


def with_network(kind: str, nodes: list[Node]) -> dict[str, Any]:
    """A testbed's part: the pair of the recipe that fits, with networks of a kind."""
    pair = {**(STATIC if kind.startswith("static") else ASSIGNED), "rtt": "20 ms"}
    six = kind == "static6"
    client = {**RECIPE["client"], "network": f"{'six' if six else 'assigned'}-near"}
    for side, site, node in zip(("source", "destination"), ("near", "far"), nodes, strict=True):
        pair[side] = {**pair[side], "network": f"{kind}-{site}"}
        if six:
            pair[side]["addresses"] = [attached.address_6(node, number) for number in (1, 2, 3)]
    return {"paths": {"kind": "networks", "pairs": [pair]}, "client": client}


def of_own(kind: str) -> dict[str, Any]:
    """A testbed's part: paths between nodes, by pods' own networks of a kind."""
    sides = {
        name: on_own(kind, {"podTemplate": ASSIGNED[name]["podTemplate"]}, site)
        for name, site in (("source", "near"), ("destination", "far"))
    }
    client = on_own(kind, {"podTemplate": RECIPE["client"]["podTemplate"]}, "near")
    return {"paths": {"kind": "nodes", "pairs": [{"rtt": "20 ms", **sides}]}, "client": client}


def networks_of(pod: client.V1Pod) -> Mapping[str, list[str]]:
    """Return a pod's addresses by interface, as Multus tells them."""
    assert pod.metadata and pod.metadata.annotations
    told = json.loads(pod.metadata.annotations[NETWORK_STATUS])
    return {each["interface"]: each["ips"] for each in told if each.get("interface")}


def measured(
    networked: Networked, folder: Path, settings: dict[str, Any], **parameters: Any
) -> dict[str, Mapping[str, list[str]]]:
    """Run a sweep, hold its cells to the path, and return the addresses of its pods, by server or `client`."""
    namespace, _ = networked
    testbed = local_testbed(namespace.name, bandwidth=FASTER, **settings)
    sweep = namespace.sweep(folder, testbed, parameters={**ONE, "rtt": "20 ms", "origins": 2, **parameters})
    run = sweep.measuring()
    pods = namespace.core.list_namespaced_pod(namespace.name).items
    assert run.wait(600) == 0, sweep.output()
    found = {}
    for pod in pods:
        name = str(pod.metadata.name).split("-")[2]
        found[name if name[:3] in ("src", "dst") else "client"] = networks_of(pod)
    interface = NETWORK if settings["paths"]["kind"] == "networks" else "eth0"
    for cell in sweep.records():
        assert cell["status"] == "ok", cell["message"]
        assert cell["summary"]["transfers"] > 0
        assert cell["summary"]["retransmits"] >= 0
        assert 19 < cell["summary"]["rtt_idle"] < 23
        assert cell["summary"]["rtt_loaded"] > 19
        assert "path_slow" in cell["flags"]
        assert cell["summary"]["bandwidth_found"] == pytest.approx(RATE, rel=0.05)
        told = cell["provenance"]["kubernetes"]["pods"]
        assert {name: told[name]["address"] for name in found if name != "client"} == {
            name: addresses[interface][0] for name, addresses in found.items() if name != "client"
        }
    namespace.check_empty()
    return found


def inside(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


def test_the_testbed_assigns_the_addresses_of_attached_networks(networked: Networked, tmp_path: Path) -> None:
    settings = with_network("static", networked[1])
    tools = {"tool": ["curl", "gfal-copy"], "authorization": "none"}
    found = measured(networked, tmp_path, settings, **tools)
    for end, name in (("src", "source"), ("dst", "destination")):
        expected = [address.partition("/")[0] for address in STATIC[name]["addresses"]]
        assert [found[f"{end}{server}"][NETWORK] for server in "m12"] == [[address] for address in expected]


def test_the_testbed_assigns_addresses_of_ipv6(networked: Networked, tmp_path: Path) -> None:
    _, (near, far) = networked
    found = measured(networked, tmp_path, with_network("static6", [near, far]))
    for end, node in (("src", near), ("dst", far)):
        expected = [attached.address_6(node, number).partition("/")[0] for number in (1, 2, 3)]
        assert [found[f"{end}{server}"][NETWORK] for server in "m12"] == [[address] for address in expected]


def test_an_attached_network_assigns_the_addresses_itself(networked: Networked, tmp_path: Path) -> None:
    _, nodes = networked
    found = measured(networked, tmp_path, with_network("assigned", nodes))
    for name, addresses in found.items():
        assert inside(addresses[NETWORK][0], attached.addresses(nodes[name.startswith("dst")]))


def test_a_dhcp_server_assigns_the_addresses_of_attached_networks(
    networked: Networked, tmp_path: Path
) -> None:
    _, nodes = networked
    found = measured(networked, tmp_path, with_network("dhcp", nodes), origins=1)
    for name in ("src1", "dst1"):
        [address] = found[name][NETWORK]
        assert inside(address, attached.addresses(nodes[name == "dst1"]))
        assert 200 <= int(address.rpartition(".")[2]) <= 240  # what the server has to give


@pytest.mark.parametrize("kind", ["six", "dual"])
def test_a_sweep_runs_over_the_pods_own_network(kind: str, networked: Networked, tmp_path: Path) -> None:
    _, nodes = networked
    tools = ["curl", "gfal-copy"] if kind == "six" else ["curl"]
    found = measured(networked, tmp_path, of_own(kind), tool=tools)
    for name, addresses in found.items():
        own = attached.addresses_6 if kind == "six" else attached.addresses
        assert inside(addresses["eth0"][0], own(nodes[name.startswith("dst")]))
        assert len(addresses["eth0"]) == (1 if kind == "six" else 2)


def test_bandwidth_is_limited_towards_addresses_of_ipv6(networked: Networked, tmp_path: Path) -> None:
    six = on_own("six", {"podTemplate": ASSIGNED["source"]["podTemplate"]}, "near")
    paths = {"kind": "netem", "pairs": [{"source": six, "destination": six}]}
    with space(networked[0].kubeconfig, "emulating", security="privileged") as namespace:
        settings = local_testbed(namespace.name, paths=paths, client=six)
        sweep = namespace.sweep(tmp_path, settings, parameters={**ONE, "bandwidth": "100 Mbit/s"})
        done = sweep.run("cells")
        assert done.returncode == 0, done.stdout
        [cell] = sweep.records()
        assert cell["status"] == "ok", cell["message"]
        assert "match ip6 dst fd00:245:1::" in json.dumps(cell["provenance"]["path"]["qdiscs"])
        # A little more than the rate passes while a full bucket empties.
        assert 0.02 < cell["summary"]["throughput"] < 0.11
        namespace.check_empty()
