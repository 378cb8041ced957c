# SPDX-License-Identifier: Apache-2.0
"""What a deployment lets in and out, on nodes that enforce NetworkPolicies, as a cluster's own network plugin may."""

import contextlib
import dataclasses
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tpcsweep.deploying.xrootd.server_config import PORT, USUAL
from tpcsweep.testbeds.kubernetes.objects import PORTS

from tests.cluster import local
from tests.cluster.local.settings import HUB_ADDRESS, SERVICE_ADDRESS
from tests.cluster.sweeps import LASTING, LONGEST, ONE, ClusterSweep, Space, local_testbed, pod, space

ASKED = "asked-a-name-server"  # what the rules are called that count who does
TABLE = ["iptables", "--wait", "--table", "mangle"]
COUNTED = ["PREROUTING", "-p", "udp", "--dport", "53", "-m", "comment", "--comment", ASKED]
"""Before anything is dropped."""
NODES = ("n1", "n2")
CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def outcome(address):
    try:
        socket.create_connection(address, timeout=4).close()
        return "open"
    except OSError as error:
        return type(error).__name__

addresses = json.loads(sys.argv[1])
with ThreadPoolExecutor(len(addresses)) as pool:
    print(json.dumps(list(pool.map(outcome, map(tuple, addresses)))))
"""
OPEN, SHUT, REFUSED = "open", "TimeoutError", "ConnectionRefusedError"
"""Somebody listens; a policy lets nothing through; it lets through, and nobody listens."""
Inside = Callable[..., str]


@dataclass(frozen=True)
class Measuring:
    """A sweep that measures, next to pods that are no deployment's: one in its namespace, one in another."""

    cluster: local.Cluster
    namespace: Space
    sweep: ClusterSweep
    bystanders: dict[str, Inside]  # by their addresses, ways to run commands in them

    def address(self, **having: str) -> str:
        [name] = self.namespace.pods(**having)
        return address(self.namespace, name)

    def server(self, *command: str) -> str:
        """What a command says in the container of the source's servers."""
        [name] = self.namespace.pods(role="origin", side="src")
        at = f"--namespace={self.namespace.name}", name, "--container=servers"
        return self.cluster.kubectl("exec", *at, "--", *command)

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


def address(of: Space, name: str) -> str:
    return of.core.read_namespaced_pod(name, of.name).status.pod_ip


def connect(inside: Inside, *addresses: tuple[str, int]) -> list[str]:
    """How a pod gets on that connects to these addresses."""
    return list(json.loads(inside("/usr/bin/python3", "-c", CONNECT, json.dumps(addresses))))


@pytest.fixture(scope="module")
def measuring(cluster: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measuring]:
    """Within its second cell, of enough of them for all that is tried meanwhile; Ctrl-C ends it.

    On the local cluster only, whose nodes enforce policies.
    """
    with contextlib.ExitStack() as undo:
        namespace = undo.enter_context(space(cluster.kubeconfig, "tpcsweep-policy", security="baseline"))
        bystanders = {}
        for where in (namespace, dataclasses.replace(namespace, name="default")):
            listening = ["iperf3", "--server", "--port", str(PORT)]
            inside = undo.enter_context(pod(cluster, "bystander", *listening, namespace=where.name))
            bystanders[address(where, "bystander")] = inside
        for node in NODES:
            cluster.enter([*TABLE, "-I", *COUNTED], node=node)
            undo.callback(cluster.enter, [*TABLE, "-D", *COUNTED], node=node)
        folder, testbed = tmp_path_factory.mktemp("policy"), local_testbed(namespace.name)
        sweep = namespace.sweep(folder, testbed, measurement=LASTING, parameters=ONE, repetitions=60)
        run = sweep.start("cells")
        undo.callback(run.kill)
        sweep.wait_for_cell(run)
        yield Measuring(cluster, namespace, sweep, bystanders)
        os.killpg(run.pid, signal.SIGINT)
        run.wait(LONGEST)
        namespace.check_empty(LONGEST)


def test_cells_are_measured_behind_it(measuring: Measuring) -> None:
    first, *_ = measuring.sweep.staged()  # the job publishes cells at its end
    cell = json.loads(first.read_bytes())
    assert cell["status"] == "ok", cell["message"]


def test_the_log_of_a_client_shows_its_cells(measuring: Measuring) -> None:
    [name] = measuring.namespace.pods(role="client")
    log = measuring.cluster.kubectl("logs", f"--namespace={measuring.namespace.name}", name)
    ready, begins, ended, *_ = log.splitlines()
    assert ready.startswith("sweep ") and "its servers are ready" in ready
    assert begins == "cell with tool=curl streams=1: begins"
    assert re.match(r"ok, \S+ Gbit/s", ended)


def test_nobody_has_asked_a_name_server(measuring: Measuring) -> None:
    assert measuring.asked() == 0
    assert measuring.server("cat", "/etc/resolv.conf").splitlines() == ["nameserver 127.0.0.1"]
    with pytest.raises(local.ClusterError, match="exit code 2"):
        measuring.server("getent", "hosts", "kubernetes.default.svc.cluster.local")
    assert measuring.asked() == 0
    # That asking is counted is seen by somebody who does.
    for bystander in measuring.bystanders.values():
        bystander("getent", "hosts", "kubernetes.default.svc.cluster.local")
    assert measuring.asked() > 0


def test_others_reach_no_pod_of_the_deployment(measuring: Measuring) -> None:
    there, client = measuring.address(role="origin", side="dst"), measuring.address(role="client")
    expected = {
        **{(there, port): SHUT for port in PORTS},
        (client, PORT): SHUT,
        **{(bystander, PORT): OPEN for bystander in measuring.bystanders},  # there is a network
    }
    for inside in measuring.bystanders.values():
        assert dict(zip(expected, connect(inside, *expected), strict=True)) == expected


def test_servers_reach_each_other_by_their_ports_and_nobody_else(measuring: Measuring) -> None:
    there = measuring.address(role="origin", side="dst")
    expected = {
        (there, PORT): OPEN,
        (there, USUAL.probe): REFUSED,  # open while the path is looked at alone
        (there, 9): SHUT,
        (HUB_ADDRESS, 53): SHUT,
        (SERVICE_ADDRESS, 443): SHUT,
        **{(bystander, PORT): SHUT for bystander in measuring.bystanders},
    }
    assert dict(zip(expected, connect(measuring.server, *expected), strict=True)) == expected
