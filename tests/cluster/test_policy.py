# SPDX-License-Identifier: Apache-2.0
"""What a deployment lets in and out, on nodes that enforce NetworkPolicies, as a cluster's own network plugin may."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tpcsweep.testbeds.kubernetes.objects import PORTS
from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PORT
from tpcsweep.xrootd.servers import PORT, USUAL

from tests.cluster import local
from tests.cluster.local import build
from tests.cluster.local.settings import HUB_ADDRESS, SERVICE_ADDRESS
from tests.cluster.sweeps import LASTING, LONGEST, ONE, ClusterSweep, Space, local_testbed, space
from tests.support.workflow import wait_until

ASKED = "asked-a-name-server"
"""What the rules are called that count who does."""
TABLE = ["iptables", "--wait", "--table", "mangle"]
COUNTED = ["PREROUTING", "-p", "udp", "--dport", "53", "-m", "comment", "--comment", ASKED]
"""Before anything is dropped."""
NODES = ("n1", "n2")
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=4).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
"""
"""Says "open", "ConnectionRefusedError" of whoever is not there, and "TimeoutError" of whoever is not let through."""


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster) -> Iterator[Space]:
    """On the local cluster only, whose nodes enforce policies; with bystanders that are no deployment's."""
    with space(cluster.kubeconfig, "tpcsweep-policy", security="baseline") as made:
        for where in (made.name, "default"):
            container = {
                "name": "c",
                "image": build.IMAGE,
                "imagePullPolicy": "Never",
                "command": ["iperf3", "--server", "--port", str(PORT)],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "bystander", "namespace": where},
                "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]},
            }
            cluster.kubectl("create", "-f", "-", input=json.dumps(pod))
            ready = ["--for=condition=Ready", "--timeout=300s"]
            cluster.kubectl("wait", f"--namespace={where}", "pod/bystander", *ready, timeout=LONGEST)
        yield made
        cluster.kubectl("delete", "--namespace=default", "pod/bystander", "--wait=false")


@dataclass(frozen=True)
class Measuring:
    """A sweep that measures."""

    cluster: local.Cluster
    namespace: Space
    sweep: ClusterSweep
    run: subprocess.Popen[bytes]

    def address(self, pod: str, where: str | None = None) -> str:
        found = self.namespace.core.read_namespaced_pod(pod, where or self.namespace.name)
        assert found.status
        return found.status.pod_ip or ""

    def within(self, pod: str, *command: str, where: str | None = None) -> str:
        """What a command says in a pod, in the container of its servers if it has one."""
        at = f"--namespace={where or self.namespace.name}"
        container = [] if pod == "bystander" else ["--container=servers"]
        return self.cluster.kubectl("exec", at, pod, *container, "--", *command).strip()

    def connect(self, pod: str, address: str, port: int, where: str | None = None) -> str:
        """How a pod gets on that connects to somebody; see CONNECT."""
        python = ["/usr/bin/python3", "-c", CONNECT, address, str(port)]
        return self.within(pod, *python, where=where)

    def server(self, side: str) -> str:
        [pod] = self.namespace.pods(role="origin", side=side)
        return pod

    def asked(self) -> int:
        """Packets for a name server that have passed the nodes."""
        counts = [
            int(line.split()[0])
            for node in NODES
            for line in self.cluster.enter([*TABLE, "-nvxL", "PREROUTING"], node=node).splitlines()
            if ASKED in line
        ]
        assert len(counts) == len(NODES)
        return sum(counts)


@pytest.fixture(scope="module")
def measuring(
    cluster: local.Cluster, namespace: Space, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Measuring]:
    """Within its second cell, of enough of them for all that is tried meanwhile."""
    for node in NODES:
        cluster.enter([*TABLE, "-I", *COUNTED], node=node)
    folder, testbed = tmp_path_factory.mktemp("policy"), local_testbed(namespace.name)
    sweep = namespace.sweep(folder, testbed, measurement=LASTING, parameters=ONE, repetitions=60)
    run = sweep.start("cells")
    try:
        sweep.wait_for_cell(run)
        assert run.poll() is None, sweep.output()
        yield Measuring(cluster, namespace, sweep, run)
        os.killpg(run.pid, signal.SIGINT)
        run.wait(LONGEST)
    finally:
        run.kill()
        for node in NODES:
            cluster.enter([*TABLE, "-D", *COUNTED], node=node)
    wait_until(lambda: not namespace.left(), f"nothing is left: {sweep.output()}", LONGEST)


def test_cells_are_measured_behind_it(measuring: Measuring) -> None:
    for cell in measuring.sweep.records():
        assert cell["status"] == "ok", cell["message"]


def test_nobody_has_asked_a_name_server(measuring: Measuring) -> None:
    assert measuring.asked() == 0
    server = measuring.server("src")
    assert measuring.within(server, "cat", "/etc/resolv.conf").splitlines() == ["nameserver 127.0.0.1"]
    with pytest.raises(local.ClusterError, match="exit code 2"):
        measuring.within(server, "getent", "hosts", "kubernetes.default.svc.cluster.local")
    assert measuring.asked() == 0
    # That asking is counted is seen by somebody who does.
    measuring.within("bystander", "getent", "hosts", "kubernetes.default.svc.cluster.local")
    assert measuring.asked() > 0


@pytest.mark.parametrize("where", [None, "default"], ids=["the same namespace", "another namespace"])
def test_nobody_else_gets_in(measuring: Measuring, where: str | None) -> None:
    there = measuring.address(measuring.server("dst"))
    outcomes = {port: measuring.connect("bystander", there, port, where) for port in PORTS}
    assert outcomes == dict.fromkeys(PORTS, "TimeoutError")
    # It is not for want of a network.
    assert measuring.connect("bystander", measuring.address("bystander"), PORT, where) == "open"


def test_everybody_may_ask_the_client_for_metrics_as_the_testbed_says(measuring: Measuring) -> None:
    [client] = measuring.namespace.pods(role="client")
    for where in (None, "default"):
        assert measuring.connect("bystander", measuring.address(client), METRICS_PORT, where) == "open"
        server = measuring.address(measuring.server("dst"))
        assert measuring.connect("bystander", server, METRICS_PORT, where) == "ConnectionRefusedError"


def test_nothing_gets_out(measuring: Measuring) -> None:
    server = measuring.server("src")
    others = [(measuring.address("bystander"), PORT), (measuring.address("bystander", "default"), PORT)]
    for address, port in (*others, (HUB_ADDRESS, 53), (SERVICE_ADDRESS, 443)):
        assert measuring.connect(server, address, port) == "TimeoutError", address


def test_servers_reach_each_other_and_no_probe_when_the_path_has_been_looked_at(measuring: Measuring) -> None:
    there = measuring.address(measuring.server("dst"))
    assert measuring.connect(measuring.server("src"), there, PORT) == "open"
    assert measuring.connect(measuring.server("src"), there, USUAL.probe) == "ConnectionRefusedError"


def test_a_port_that_is_no_servers_is_shut_to_all(measuring: Measuring) -> None:
    there = measuring.address(measuring.server("dst"))
    assert measuring.connect(measuring.server("src"), there, 9) == "TimeoutError"
