# SPDX-License-Identifier: Apache-2.0
"""Paths of kind networks, on a cluster whose pods Multus attaches to networks, with the addresses that they ask for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from tpcsweep.testbeds.kubernetes.objects import NETWORK, NETWORK_STATUS

from tests.cluster import local
from tests.cluster.local import attached
from tests.cluster.local.settings import Node
from tests.cluster.sweeps import FASTER, ONE, RATE, Space, local_testbed, on, space

MTU = 9000


@pytest.fixture(scope="module")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Space, list[Node]]]:
    """Two nodes 20 ms apart, and a namespace with a network on each."""
    folder = tmp_path_factory.mktemp("networked")
    with local.cluster(folder, 2, networks=True) as cluster, space(cluster.kubeconfig, "networked") as made:
        for node in cluster.nodes:
            definition = json.dumps(attached.definition(node, MTU))
            cluster.kubectl("create", "-n", made.name, "-f", "-", input=definition)
        yield made, cluster.nodes


def placed(node: Node, *numbers: int) -> dict[str, Any]:
    """On a node, with so many of its addresses."""
    addresses = [attached.address(node, number) for number in numbers]
    return {**on(node.name), "network": f"{attached.BRIDGE}-{node.name}", "addresses": addresses}


def test_a_sweep_runs_over_attached_networks(networked: tuple[Space, list[Node]], tmp_path: Path) -> None:
    namespace, (near, far) = networked
    pair = {"rtt": "20 ms", "source": placed(near, 1, 2, 3), "destination": placed(far, 1, 2, 3)}
    settings = local_testbed(
        namespace.name, bandwidth=FASTER, client=placed(near, 9), paths={"kind": "networks", "pairs": [pair]}
    )
    parameters = {**ONE, "rtt": "20 ms", "origins": 2, "tool": ["curl", "gfal-copy"], "authorization": "none"}
    sweep = namespace.sweep(tmp_path, settings, parameters=parameters)
    run = sweep.measuring()
    pods = namespace.core.list_namespaced_pod(namespace.name).items
    assert run.wait(600) == 0, sweep.output()
    expected = {"client": attached.address(near, 9)}
    for number, name in enumerate("m12", 1):
        expected |= {
            f"src{name}": attached.address(near, number),
            f"dst{name}": attached.address(far, number),
        }
    assert {name: where for pod in pods for name, where in ours(pod)} == expected
    for cell in sweep.records():
        assert cell["status"] == "ok", cell["message"]
        assert cell["summary"]["transfers"] > 0
        assert 19 < cell["summary"]["rtt_idle"] < 23
        assert "path_slow" in cell["flags"]
        assert cell["summary"]["bandwidth_found"] == pytest.approx(RATE, rel=0.05)


def ours(pod: client.V1Pod) -> Iterator[tuple[str, str]]:
    """The pod's name in its deployment, and the address by which it is attached."""
    assert pod.metadata and pod.metadata.annotations
    for network in json.loads(pod.metadata.annotations[NETWORK_STATUS]):
        if network.get("interface") == NETWORK:
            name = str(pod.metadata.name).split("-")[2]
            yield (name if name[:3] in ("src", "dst") else "client", f"{network['ips'][0]}/24")
