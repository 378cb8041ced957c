# SPDX-License-Identifier: Apache-2.0
"""Origins that share a node and its network: the address that they are asked for decides which way the files go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import local
from tests.cluster.sweeps import ONE, RATE, Space, local_testbed, recipe, space
from tests.support.testbeds import sized

SHORT = 0.1
"""Gbit/s of the second way between n1 and n3, which is no time long. The first one is 20 ms."""
MTU = 1500  # of the second way
RECIPE = recipe("interfaces")
ENDS = RECIPE["paths"]["pairs"][1]
ADDRESSES = {
    node: [origin["address"] for origin in ENDS[side]["origins"]]
    for node, side in (("n1", "source"), ("n3", "destination"))
}
WAYS = {"rtt": 0.0, "bandwidth": SHORT, "mtu": MTU}, {"rtt": 20.0, "bandwidth": RATE, "mtu": 9000}


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster) -> Iterator[Space]:
    """On the local cluster, whose far node gets a link of its own to a near one, as a VLAN would be."""
    ends = {"n1": "far", "n3": "near"}
    veth = ["type", "veth", "peer", "name", "near", "netns", "n3"]
    cluster.enter(["ip", "-n", "n1", "link", "add", "far", *veth])
    for node, link in ends.items():
        for address in ADDRESSES[node]:
            cluster.enter(["ip", "-n", node, "address", "add", f"{address}/29", "dev", link])
            # The client comes by the other way.
            cluster.enter(["ip", "route", "add", address, "via", f"10.200.{node[1]}.2"])
        cluster.enter(["ip", "-n", node, "link", "set", link, "mtu", str(MTU), "up"])
        shaped = ["tbf", "rate", f"{SHORT}gbit", "burst", "32k", "limit", "1m"]
        cluster.enter(["tc", "-n", node, "qdisc", "add", "dev", link, "root", *shaped])
    with space(cluster.kubeconfig, "tpcsweep-origins", security="privileged") as made:
        yield made
    cluster.enter(["ip", "-n", "n1", "link", "delete", "far"])


def test_the_rtt_follows_from_the_address_that_is_asked_for(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(
        namespace.name,
        **RECIPE,
        agent=sized("agent", limits={"cpu": 1}),
        source=sized("servers", requests={"memory": "64Mi"}),
    )
    short, far = WAYS
    parameters = {**ONE, "origins": 2, "streams": 4, **{name: [value] for name, value in short.items()}}
    sweep = namespace.sweep(tmp_path, settings, parameters=parameters, include=[far])
    cells = {cell["spec"]["parameters"]["rtt"]: cell for cell in sweep.measure()}
    assert sorted(cells) == [way["rtt"] for way in WAYS]
    for rtt, cell in cells.items():
        assert abs(cell["summary"]["rtt_idle"] - rtt) < 2
        pods = cell["provenance"]["kubernetes"]["pods"]
        nodes = {name: pod["node"] for name, pod in pods.items() if name != "client"}
        sides = {"src": "n1", "dst": "n3"}
        assert nodes == {f"{side}{n}": node for side, node in sides.items() for n in (1, 2, "m")}
        assert "path_slow" not in cell["flags"]
        # Servers that share an interface count it once: it received little more than the files.
        summary = cell["summary"]
        assert summary["throughput"] <= cell["spec"]["parameters"]["bandwidth"] * 1.05, summary
    namespace.check_empty()
