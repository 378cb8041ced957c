# SPDX-License-Identifier: Apache-2.0
"""Who runs where on Kubernetes, by what address and ports, with how much: what may be said of it, and what follows."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity
from tpcsweep.deploying.paths.tcp_rates import probe_connections
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.testbeds.kubernetes import objects
from tpcsweep.testbeds.kubernetes.objects import chosen_nodes
from tpcsweep.testbeds.kubernetes.placements import BLOCK, resource_amount, resources, server_placements
from tpcsweep.testbeds.kubernetes.pod import pod_files
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

from tests.support.projects import cases
from tests.support.testbeds import kubernetes, selecting, sized

SUFFIXES = ["", *"numkMGTPE", *(f"{prefix}i" for prefix in "KMGTPE")]
HOST = {"host_network": True, "tcp_buffer": "4 MiB"}


def settings(pair: dict[str, Any], kind: str = "nodes", **changes: Any) -> Kubernetes:
    return kubernetes(**{"paths": {"kind": kind, "pairs": [pair]}, **changes})


def refused(pair: dict[str, Any], kind: str = "nodes", **changes: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        settings(pair, kind, **changes)
    return str(error.value).splitlines()


@given(st.integers(0, 10**9), st.integers(0, 999), st.sampled_from(SUFFIXES))
def test_quantities_amount_to_what_kubernetes_takes_them_for(whole: int, part: int, suffix: str) -> None:
    text = f"{whole}.{part:03}{suffix}"
    assert resource_amount(text) == parse_quantity(text)


def test_what_is_no_quantity_amounts_to_nothing() -> None:
    assert not any(map(resource_amount, ["", "1 Gi", "-1", "1e3", "Gi", "1GiB", "1,5", "٣"]))


@given(
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 64), max_size=2),
    st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/vf"]), st.integers(64, 128), max_size=3),
    st.sampled_from(["guaranteed", "near", "burstable"]),
)
def test_no_request_exceeds_its_limit(requests: dict[str, int], limits: dict[str, int], qos: str) -> None:
    said = {
        kind: {name: str(value) for name, value in values.items()}
        for kind, values in (("requests", requests), ("limits", limits))
    }
    made = resources({"cpu": "2", "memory": "64Mi"}, said["limits"], said["requests"], qos)
    for name, limit in made["limits"].items():
        assert resource_amount(made["requests"][name]) <= resource_amount(limit)
    for kind, values in said.items():
        assert made[kind].items() >= values.items()


REFUSED = """
podTemplate: {spec: {containers: [{name: servers, resources: {limits: {memory: 4Gi}}}]}}
    podTemplate: given limits: {memory: 4Gi}, allowed: for container servers more memory than 4 GiB
origins: [{address: 10.0.0.1}]
    origins[0].address: given 10.0.0.1, allowed: nothing: pods have addresses of their own, unless host_network is true
redirector: {port: 8100}
    redirector.port: given 8100, allowed: nothing: pods with a network of their own have the usual ports
        (host_network is false)
"""
ON_NODES = """
origins: [{network: wan}]
    origins[0].network: given 'wan', allowed: nothing: paths are of kind nodes
origins: [{address: host}]
    origins[0].address: given 'host', allowed: an IP address
origins: [{port: 80}]
    origins[0].port: given 80, allowed: a whole number, at least 1
"""


@pytest.mark.parametrize(
    ("side", "messages", "more"),
    [(*case, more) for text, more in ((REFUSED, {}), (ON_NODES, HOST)) for case in cases(text)],
)
def test_what_no_pod_can_have_is_refused(side: str, messages: list[str], more: dict[str, Any]) -> None:
    [problem], [message] = refused({"rtt": 1, "source": yaml.safe_load(side)}, **more), messages
    assert problem.startswith(f"paths.pairs[0].source.{message}")


def test_what_the_testbed_says_for_all_pairs_is_refused_once_and_there() -> None:
    paths = {"kind": "nodes", "pairs": [{"rtt": 1}, {"rtt": 2}]}
    [problem] = refused({}, destination=sized("servers", limits={"memory": "1Gi"}), paths=paths)
    assert problem.startswith("destination.podTemplate: given limits: {memory: 1Gi}")
    [problem] = refused({"rtt": 1}, source={"origins": [{}]})
    assert problem.startswith("source.origins: given a key of a pair, allowed: nothing: ")


PORTS = st.none() | st.integers(8070, 8130)


@given(st.lists(PORTS, max_size=6), PORTS, st.integers(1, 8))
def test_servers_share_no_port(ports: list[int | None], redirector: int | None, origins: int) -> None:
    first, *others = [{"port": port} if port else {} for port in (redirector, *ports)]
    pair = {"rtt": 1, "source": {"origins": others, "redirector": first}}
    explicit = [port for port in (redirector, *ports) if port]
    if any(abs(one - another) < BLOCK for one, another in itertools.combinations(explicit, 2)):
        assert refused(pair, **HOST)
        return
    made = settings(pair, **HOST)
    blocks = [
        pod_files.block(placement.port)
        for placement in server_placements(made.pairs[0].source, origins, host_network=True)
    ]
    everything = [port for block in blocks for port in block]
    assert len(set(everything)) == len(everything)
    assert all(len(block) == BLOCK for block in blocks)


def test_a_port_is_refused_where_servers_may_be_on_one_node_and_not_where_they_cannot() -> None:
    nodes = [{"kubernetes.io/hostname": name} for name in ("a", "b")]
    origins = [{"port": 8100, "address": "10.0.0.1"}, {"port": 8102, "address": "10.0.0.2"}]
    [problem] = refused({"rtt": 1, "source": {"origins": origins}}, **HOST)
    said = "allowed: 5 ports that follow each other and are none of 8100 to 8104, those of origins[0]"
    assert problem.startswith(
        f"paths.pairs[0].source.origins[1].port: given 8102, {said}: they may be on one"
    )
    placed = [{**origin, **selecting(node)} for origin, node in zip(origins, nodes, strict=True)]
    assert settings({"rtt": 1, "source": {"origins": placed}}, **HOST)


def test_origins_of_attached_networks_have_one_of_their_own_each() -> None:
    def side(number: int, **more: Any) -> dict[str, Any]:
        origins = [{"network": f"vlan{n}", "address": f"10.{number}.{n}.1/24"} for n in (1, 2)]
        return {"network": "wan", "origins": origins, **more}

    made = settings({"rtt": 1, "source": side(1), "destination": side(2)}, "networks")
    found = [
        (placement.network, placement.address)
        for placement in server_placements(made.pairs[0].source, 2, host_network=False)[1:]
    ]
    assert found == [("vlan1", "10.1.1.1/24"), ("vlan2", "10.1.2.1/24")]
    bare = side(2, redirector={"address": "10.2.3.4"})
    problem, *_ = refused({"rtt": 1, "source": side(1), "destination": bare}, "networks")
    said = "redirector.address: given 10.2.3.4, allowed: an address"
    assert problem.startswith(f"paths.pairs[0].destination.{said}")


def test_pairs_that_choose_the_same_nodes_are_found() -> None:
    def chosen(source: Any, destination: Any, /, **changes: Any) -> set[str]:
        [pair] = settings({"rtt": 1, "source": source, "destination": destination}, **changes).pairs
        return chosen_nodes(pair)

    a, b, c, d = (selecting({"kubernetes.io/hostname": name}) for name in "abcd")
    assert chosen(a, b) == chosen(b, a)
    assert not chosen(a, b) & chosen(c, d)
    assert chosen(a, b) & chosen(a, c) & chosen({"origins": [a]}, d) & chosen({}, d, source=a)


def test_a_redirector_knows_origins_by_address_and_port() -> None:
    ports = [pod_files.block(first) for first in (8080, 8100, 8110)]
    redirector, origins = xrootd.side_servers(
        "src", "10.0.0.9", ["10.0.0.1"] * 2, pod_files.STATE, pod_files.FILES, ports
    )
    assert redirector and redirector.url == "https://10.0.0.9:8080/data"
    assert [origin.place for origin in origins] == ["10.0.0.1:8100", "10.0.0.1:8110"]
    assert {origin.manager for origin in origins} == {"10.0.0.9:8081"}
    text = xrootd.configuration(origins[1], pod_files.PRIVATE)
    lines = {"xrd.port 8110", "xrd.protocol http:8110 libXrdHttp.so", "all.manager 10.0.0.9:8081"}
    assert lines <= {*text.splitlines()} and "127.0.0.1:8112" in text


@given(
    st.integers(1, 10_000), st.integers(1, 64), st.floats(0, 500), st.floats(0.01, 400), st.integers(12, 30)
)
def test_agents_and_redirectors_are_no_smaller_for_more_streams_and_hold_the_buffers_of_a_look(
    streams: int, origins: int, rtt: float, bandwidth: float, power: int
) -> None:
    wanted = DeploymentParameters(origins=origins, rtt=rtt, bandwidth=bandwidth, tcp_buffer=2**power)
    agents = objects.agent_limits(wanted, streams), objects.agent_limits(wanted, 2 * streams)
    for few, many in (agents, (objects.redirector_limits(streams), objects.redirector_limits(2 * streams))):
        assert all(resource_amount(few[of]) <= resource_amount(many[of]) for of in ("cpu", "memory"))
    memory, same = (resource_amount(one["memory"]) for one in agents)
    assert memory == same >= objects.AGENT_MEMORY * objects.MIB
    assert memory >= probe_connections(wanted, origins) * 2**power


def test_few_streams_need_little() -> None:
    wanted = DeploymentParameters(tcp_buffer=4 << 20)
    assert objects.agent_limits(wanted, 8) == {"cpu": "250m", "memory": "144Mi"}
    assert objects.redirector_limits(64) == {"cpu": "750m", "memory": "512Mi"}
