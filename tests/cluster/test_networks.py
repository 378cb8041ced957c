# SPDX-License-Identifier: Apache-2.0
"""Networks of pods: those that Multus attaches, by each way of assigning addresses, and pods' own of IPv6."""

import ipaddress
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from tpcsweep.testbeds.kubernetes.objects import NETWORK, NETWORK_STATUS
from tpcsweep.testbeds.kubernetes.pod_templates import merged

from tests.cluster import local
from tests.cluster.local import attached
from tests.cluster.local.settings import Node
from tests.cluster.sweeps import FASTER, ONE, RATE, Space, local_testbed, recipe, space

RECIPE = recipe("networks")
ASSIGNED, STATIC = RECIPE["paths"]["pairs"]
SIDES = ("source", "destination")
DEFAULT = "v1.multus-cni.io/default-network"
"""The annotation by which a pod's own network, to Multus, is another than the nodes'."""
Networked = tuple[Space, list[Node]]


@pytest.fixture(scope="module")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networked]:
    """Two nodes 20 ms apart, and a namespace with the networks of each."""
    folder = tmp_path_factory.mktemp("networked")
    with local.cluster(folder, 2, networks=True) as cluster, space(cluster.kubeconfig, "networked") as made:
        for node in cluster.nodes:
            for definition in attached.definitions(node):
                cluster.kubectl("create", "-n", made.name, "-f", "-", input=json.dumps(definition))
        yield made, cluster.nodes


def on_own(kind: str, placed: Mapping[str, Any], site: str) -> dict[str, Any]:
    """A role or side of the recipe, whose pods have a network of this kind as their own instead of a second one."""
    own = {"metadata": {"annotations": {DEFAULT: f"networked/{kind}-{site}"}}}
    return {"podTemplate": merged(placed["podTemplate"], own)}


def with_networks(near: str, far: str, addresses: Mapping[str, list[str]]) -> dict[str, Any]:
    """A testbed's part: the pair of the recipe that fits, its sides on networks of a kind, with these addresses."""
    pair = {**(STATIC if addresses else ASSIGNED), "rtt": "20 ms"}
    client = {**RECIPE["client"], "network": f"{'six' if near == 'static6' else 'assigned'}-near"}
    for side, network in (("source", f"{near}-near"), ("destination", f"{far}-far")):
        pair[side] = {**pair[side], "network": network}
        if addresses:
            pair[side]["addresses"] = addresses[side]
    return {"paths": {"kind": "networks", "pairs": [pair]}, "client": client}


def of_own(kind: str) -> dict[str, Any]:
    """A testbed's part: paths between nodes, by pods' own networks of a kind."""
    sides = {
        name: on_own(kind, ASSIGNED[name], site) for name, site in zip(SIDES, ("near", "far"), strict=True)
    }
    paths = {"kind": "nodes", "pairs": [{"rtt": "20 ms", **sides}]}
    return {"paths": paths, "client": on_own(kind, RECIPE["client"], "near")}


def networks_of(pod: client.V1Pod) -> Mapping[str, list[str]]:
    """Return a pod's addresses by interface, as Multus tells them."""
    told = json.loads(pod.metadata.annotations[NETWORK_STATUS])
    return {each["interface"]: each["ips"] for each in told if each.get("interface")}


def measured(
    networked: Networked, folder: Path, settings: dict[str, Any], **parameters: Any
) -> dict[str, Mapping[str, list[str]]]:
    """Run a sweep, hold its cells to the path, and return the addresses of its pods, by server or `client`."""
    namespace, _ = networked
    testbed = local_testbed(namespace.name, **settings)
    sweep = namespace.sweep(folder, testbed, parameters={**ONE, "rtt": "20 ms", **parameters})
    run = sweep.measuring()
    pods = namespace.core.list_namespaced_pod(namespace.name).items
    assert run.wait(600) == 0, sweep.output()
    found = {}
    for pod in pods:
        name = str(pod.metadata.name).split("-")[2]
        found[name if name[:3] in ("src", "dst") else "client"] = networks_of(pod)
    interface = NETWORK if settings["paths"]["kind"] == "networks" else "eth0"
    for cell in sweep.good_records():
        assert cell["summary"]["transfers"] > 0
        assert cell["summary"]["retransmits"] >= 0
        assert 19 < cell["summary"]["rtt_idle"] < 23
        assert cell["summary"]["rtt_loaded"] > 19
        assert ("path_slow" in cell["flags"]) == (settings.get("bandwidth") == FASTER)
        assert cell["summary"]["bandwidth_found"] == pytest.approx(RATE, rel=0.05)
        told = cell["provenance"]["kubernetes"]["pods"]
        assert {name: told[name]["address"] for name in found if name != "client"} == {
            name: addresses[interface][0] for name, addresses in found.items() if name != "client"
        }
    namespace.check_empty()
    return found


def inside(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


@pytest.mark.parametrize("kind", ["static", "static6"])
def test_the_testbed_assigns_the_addresses_of_attached_networks(
    kind: str, networked: Networked, tmp_path: Path
) -> None:
    addresses = {side: STATIC[side]["addresses"] for side in SIDES}
    if kind == "static6":
        six = [[attached.address_6(node, number) for number in (1, 2, 3)] for node in networked[1]]
        addresses = dict(zip(SIDES, six, strict=True))
    settings = with_networks(kind, kind, addresses)
    if kind == "static":
        settings |= {"bandwidth": FASTER}
    tools = ["curl"] if kind == "static6" else ["curl", "gfal-copy"]
    found = measured(networked, tmp_path, settings, origins=2, tool=tools, authorization="none")
    for end, side in zip(("src", "dst"), SIDES, strict=True):
        expected = [address.partition("/")[0] for address in addresses[side]]
        assert [found[f"{end}{server}"][NETWORK] for server in "m12"] == [[address] for address in expected]


def test_attached_networks_assign_the_addresses_themselves(networked: Networked, tmp_path: Path) -> None:
    """From ranges of the network's own on the source's side, by a DHCP server on the destination's."""
    near, far = networked[1]
    found = measured(networked, tmp_path, with_networks("assigned", "dhcp", {}))
    for name in ("client", "src1"):
        assert inside(found[name][NETWORK][0], attached.addresses(near))
    [leased] = found["dst1"][NETWORK]
    assert inside(leased, attached.addresses(far))
    assert 200 <= int(leased.rpartition(".")[2]) <= 240  # what the server has to give


@pytest.mark.parametrize("kind", ["six", "dual"])
def test_a_sweep_runs_over_the_pods_own_network(kind: str, networked: Networked, tmp_path: Path) -> None:
    _, nodes = networked
    more = {"origins": 2, "tool": ["curl", "gfal-copy"]} if kind == "six" else {}
    found = measured(networked, tmp_path, of_own(kind), **more)
    for name, addresses in found.items():
        own = attached.addresses_6 if kind == "six" else attached.addresses
        assert inside(addresses["eth0"][0], own(nodes[name.startswith("dst")]))
        assert len(addresses["eth0"]) == (1 if kind == "six" else 2)


def test_bandwidth_is_limited_towards_addresses_of_ipv6(networked: Networked, tmp_path: Path) -> None:
    six = on_own("six", ASSIGNED["source"], "near")
    paths = {"kind": "netem", "pairs": [{"source": six, "destination": six}]}
    with space(networked[0].kubeconfig, "emulating", security="privileged") as namespace:
        settings = local_testbed(namespace.name, paths=paths, client=six)
        sweep = namespace.sweep(tmp_path, settings, parameters={**ONE, "bandwidth": "100 Mbit/s"})
        [cell] = sweep.measure()
        assert "match ip6 dst fd00:245:1::" in json.dumps(cell["provenance"]["path"]["qdiscs"])
        # A little more than the rate passes while a full bucket empties.
        assert 0.02 < cell["summary"]["throughput"] < 0.11
        namespace.check_empty()
