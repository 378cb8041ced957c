# SPDX-License-Identifier: Apache-2.0
"""What a kubernetes testbed may be told, and what a sweep may ask of it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds.loading import KINDS, load
from tpcsweep.testbeds.support import check, require_supported

from tests.support import projects
from tests.support.projects import cases
from tests.support.workflow import ROOT

FILE = "config/testbeds/one.yaml"
BY_HTTP = ", ".join(name for name, tool in TOOLS.items() if tool.http_tpc)
NODES = yaml.safe_load("""
kind: kubernetes
image: localhost/tpcsweep:0.1.0
bandwidth: 10 Gbit/s
mtu: 8900
paths:
  kind: nodes
  pairs:
    - {rtt: 0 ms, source: {podTemplate: {spec: {nodeSelector: {rack: a}}}}}
    - {rtt: 20 ms, source: {podTemplate: {spec: {nodeSelector: {rack: b}}}}}
""")
NETEM = NODES | {"paths": {"kind": "netem", "pairs": [{}]}}


def networks(*counts: int) -> dict[str, Any]:
    """A testbed of kind networks: a pair of 5 ms for each number of addresses that its destination has."""

    def side(network: str, pair: int, count: int) -> dict[str, Any]:
        addresses = [f"10.{pair}.{int(network == 'far')}.{n}/24" for n in range(1, count + 1)]
        return {"network": network, "addresses": addresses if count else []}

    pairs = [
        {"rtt": 5, "source": side("near", pair, 5 if count else 0), "destination": side("far", pair, count)}
        for pair, count in enumerate(counts)
    ]
    return NODES | {"paths": {"kind": "networks", "pairs": pairs}}


OTHER = {"rtt": 20, "bandwidth": "1 Gbit/s", "mtu": 1500}
TWO = NODES | {"paths": {"kind": "nodes", "pairs": [{"rtt": 0}, OTHER]}}


def loaded(root: Path, parameters: dict[str, Any], testbed: Any = NODES, **sweep: Any) -> SweepStudy:
    asked = {"parameters": parameters or {"streams": 1}, **sweep}
    return projects.loaded(root, yaml.safe_dump(asked), yaml.safe_dump(testbed))


@pytest.mark.parametrize(
    ("sweep", "testbed"),
    [("nodes", "kubernetes"), *((name, "kubernetes-netem") for name in ("demo", "smoke", "nodes"))],
)
def test_shipped_sweeps_can_be_done_on_shipped_testbeds(sweep: str, testbed: str) -> None:
    assert check(load({"sweep": sweep, "testbed": testbed}, ROOT)) == []


def test_the_limits_of_other_kinds_need_no_client_of_a_cluster() -> None:
    others = [kind for kind in KINDS if kind != "kubernetes"]
    code = "".join(f"from tpcsweep.testbeds.{kind}.checks import check\n" for kind in others)
    code += "import sys; assert 'kubernetes' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_time_that_pods_may_run_is_enough_for_a_cell(root: Path) -> None:
    longest = {"measurement": {"min_time": "10 s", "max_time": "4 min"}}
    assert check(loaded(root, {}, NODES | {"time_limit": "10 min"}, **longest)) == []
    [problem] = check(loaded(root, {}, NODES | {"time_limit": "9 min"}, **longest))
    assert str(problem) == (
        f"{FILE}: time_limit: given 9 min, allowed: at least 10 min: "
        "start_time, the longest cell of the sweep, and 1 min"
    )


def test_what_a_sweep_leaves_out_is_as_the_testbed_has_it(root: Path) -> None:
    testbed = NODES | {"tcp_buffer": "8 MiB", "congestion_controls": ["bbr"]}
    configuration = loaded(root, {"streams": [1, 2]}, testbed)
    require_supported(configuration)
    given = {"rtt": 0.0, "bandwidth": 10.0, "mtu": 8900, "tcp_buffer": 8 * 2**20, "congestion_control": "bbr"}
    for cell in configuration.grid.cells:
        specification = cell_spec(configuration, cell)
        assert specification["testbed"] == {"name": "one", "kind": "kubernetes"}
        assert specification["parameters"] == cell.parameters.model_dump()
        assert cell.parameters == Parameters(**given, streams=cell.axes["streams"])
    file = configuration.cell_file(configuration.grid.cells[0])
    assert str(file) == "results/one@one/cells/deployment=only/streams=1/repetition=1.json"


CANNOT = """
{rtt: [0, 20, 50]} on nodes
    rtt[2]: 50 ms → 0 ms or 20 ms, as such paths have it (FILE)
{rtt: 20} on networks 1 1
    rtt: 20 ms → 5 ms, as such paths have it (FILE)
{rtt: [0, 0.05]} on netem
    rtt[1]: 0.05 ms → 0, or at least 0.1 ms, the smallest that a path here can make
{bandwidth: 10 Mbit/s, origins: [1, 16]} on netem
    bandwidth: 10 Mbit/s with origins 16 → at least 16 Mbit/s: each origin makes its share of the path
{origins: 65} on nodes
    origins: 65 → at most 64, as many as one redirector can have
{bandwidth: 20 Gbit/s} on netem
    bandwidth: 20 Gbit/s → at most 10 Gbit/s (bandwidth in FILE)
{} on nodes with {bandwidth: 500 Mbit/s, paths: {kind: netem, pairs: [{}]}}
    bandwidth (left out): 1 Gbit/s → at most 500 Mbit/s (bandwidth in FILE)
{loss: [0 %, 1 %]} on nodes
    loss[1]: 1 % → 0 %: tpcsweep cannot set the loss of paths of kind nodes (FILE)
{queue_limit: [null, 1000]} on nodes
    queue_limit[1]: 1000 → null: tpcsweep cannot set queues of paths of kind nodes (FILE)
{queue_limit: 1000, rtt: [0, 20]} on netem
    queue_limit: 1000 with rtt 0 ms → null with rtt 0 ms, where no packets are under way
{tcp_buffer: [4 MiB, 8 MiB]} on nodes with {tcp_buffer: 4 MiB}
    tcp_buffer[1]: 8 MiB → 4 MiB (tcp_buffer in FILE)
{congestion_control: bbrr} on nodes with {congestion_controls: [cubic, bbr]}
    congestion_control: bbrr → bbr? one of cubic, bbr (congestion_controls in FILE)
{file_size: 1 GiB, streams: [1, 8]} on nodes
    file_size: 1 GiB with streams 8, source_content sparse, layer memory_to_memory → at most 409 MiB: 10 files
        in 4 GiB (memory in FILE, of one origin)
{cores: [0.02], origins: [1, 4]} on nodes
    cores[0]: 0.02 with origins 4 → at least 0.04, as each origin gets an equal share, and kubelets set no
        quota of less than 1 ms in 100 ms
{origins: [1, 3]} on networks 5 3
    origins[1]: 3 with rtt 5 ms → at most 2: paths.pairs[1].destination in FILE has 3 of the addresses that more
        than one origin need, one for the redirector and one for each of them
{bandwidth: [1, 10], rtt: 0} on two
    bandwidth[0]: 1 Gbit/s with rtt 0 ms → 10 Gbit/s, as such paths have it (FILE)
{mtu: [1500, 8900], rtt: 20} on two
    mtu[1]: 8900 B with rtt 20 ms, bandwidth 1 Gbit/s → 1500 B, as such paths have it (FILE)
{origins: 3} on nodes with {paths: {kind: nodes, pairs: [{destination: {origins: [{}, {}]}, rtt: 0}]}}
    origins: 3 with rtt 0 ms → at most 2: paths.pairs[0].destination in FILE has 2 origins
{file_size: 64 MiB, source_content: random} on nodes with {source: {memory: 16 MiB}}
    file_size: 64 MiB with source_content random → at most 16 MiB (memory of a source in FILE)
{copy_mode: push, tool: davix-put} on nodes
    tool: davix-put → one of BY_HTTP: pods have XRootD's servers alone, and copy by HTTP
{copy_mode: push, tool: globus-url-copy} on nodes
    tool: globus-url-copy → one of BY_HTTP: pods have XRootD's servers alone, and copy by HTTP
{layer: memory_to_disk} on nodes
    layer: memory_to_disk → memory_to_memory: the files of pods are in memory
{xrootd: [system, 5.8.1, 5.9.9]} on nodes with {releases: [5.8.1]}
    xrootd[2]: 5.9.9 → 5.8.1? one of system, 5.8.1, as the image has them (releases in FILE)
"""
"""Parameters on a testbed, and below them what is said of them; FILE is that of the testbed."""
CAN = """
{} on netem
{bandwidth: 10, mtu: 8900, rtt: [0, 20], tcp_buffer: [4 MiB, 1 GiB]} on nodes
{} on nodes with {host_network: true, tcp_buffer: 4 MiB}
{bandwidth: [0.1, 10], loss: [0, 0.01], rtt: [0, 0.3, 2000]} on netem
{origins: [1, 4]} on networks 5 5
{origins: 1} on networks 1
{origins: 5, rtt: 5} on networks 0
{cores: [64], origins: [1, 50]} on nodes
{bandwidth: 1, mtu: 1500, rtt: 20} on two
{} on two
"""


def asked(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the testbed of a line: {rtt: 0} on nodes with {memory: 1 GiB}."""
    parameters, _, testbed = text.partition(" on ")
    name, _, more = testbed.partition(" with ")
    kind, *counts = name.split()
    named = {"nodes": NODES, "netem": NETEM, "two": TWO}.get(kind) or networks(*map(int, counts))
    return yaml.safe_load(parameters), named | (yaml.safe_load(more) if more else {})


@pytest.mark.parametrize(
    ("line", "messages"), cases(CANNOT.replace("FILE", FILE).replace("BY_HTTP", BY_HTTP))
)
def test_what_a_testbed_cannot_do(root: Path, line: str, messages: list[str]) -> None:
    problems = [str(problem) for problem in check(loaded(root, *asked(line)))]
    assert problems == [f"config/sweeps/one.yaml: parameters.{message}" for message in messages]


@pytest.mark.parametrize("line", CAN.strip().splitlines())
def test_what_a_testbed_can_do(root: Path, line: str) -> None:
    assert check(loaded(root, *asked(line))) == []


REFUSED = """
{paths: {kind: nodes, pairs: []}}
    paths.pairs: [] → a list of at least one value
{paths: {kind: node, pairs: [{rtt: 1}]}}
    paths.kind: 'node' → nodes, networks or netem
{paths: {kind: nodes, pairs: [{rtt: 1}, {source: {addresses: [10.0.0.1/24], network: wan}}]}}
    paths.pairs[1].rtt: nothing → the RTT of the path, which those of kind nodes need
    paths.pairs[1].source.network: 'wan' → nothing: paths are of kind nodes
    paths.pairs[1].source.addresses: 10.0.0.1/24 → nothing: paths are of kind nodes
{paths: {kind: netem, pairs: [{destination: {network: wan}, rtt: 5 ms}]}}
    paths.pairs[0].rtt: 5 ms → nothing: paths of kind netem have the RTT that a sweep asks for
    paths.pairs[0].destination.network: 'wan' → nothing: paths are of kind netem
{paths: {kind: networks, pairs: [{destination: {addresses: [10.0.0.1/16, 10.0.0.2/16]}, source: {addresses:
  [10.0.0.1/24], network: wan}}]}}
    paths.pairs[0].rtt: nothing → the RTT of the path, which those of kind networks need
    paths.pairs[0].destination.network: nothing → the name of a network attachment, which paths of kind networks
{paths: {kind: networks, pairs: [{destination: {addresses: [10.0.0.2, 10.0.0.300/24]}, rtt: 1, source:
  {addresses: [10.0.0.1/24], network: wan}}]}}
    paths.pairs[0].destination.addresses[0]: '10.0.0.2' → an address with prefix length, such as 10.1.0.1/24
    paths.pairs[0].destination.addresses[1]: '10.0.0.300/24' → an address with prefix length, such as
{paths: {kind: nodes, pairs: al}}
    paths.pairs: 'al' → all, or a list of pairs
{paths: {kind: nodes, pairs: all}}
    paths.each: nothing → settings of each pair, such as {rtt: 0 ms, source: {…}, destination: {…}}
{paths: {each: {}, kind: nodes, pairs: all}}
    paths.each.rtt: nothing → the RTT of the path, which those of kind nodes need
{paths: {each: {rtt: 1}, kind: nodes, pairs: [{rtt: 1}]}}
    paths.each: a pair → nothing without pairs: all
{paths: {each: {rtt: 1}, kind: networks, pairs: all}}
    paths.pairs: all → a list: paths of kind networks have addresses that are each pair's own
{client: {network: wan}}
    client.network: 'wan' → nothing: paths are of kind nodes
{host_network: true}
    tcp_buffer: nothing → the largest TCP buffers of the nodes, as pods in the network of their nodes
        (host_network) cannot set their own
{host_network: true, paths: {kind: netem, pairs: [{}]}, tcp_buffer: 4 MiB}
    host_network: true → false: paths of kind netem act on pods that have a network of their own
{host_network: true, paths: {kind: networks, pairs: [{destination: {addresses: [10.0.0.2/24], network: wan},
  rtt: 1, source: {addresses: [10.0.0.1/24], network: wan}}]}, tcp_buffer: 4 MiB}
    host_network: true → false: paths of kind networks act on pods that have a network of their own
{paths: {kind: nodes, pairs: [{rtt: 1, sorce: {}}]}}
    paths.pairs[0].sorce: an unknown key → source? one of rtt, bandwidth, mtu, source, destination, client
{bandwidth: 200 Gbit/s, paths: {kind: netem, pairs: [{}]}}
    bandwidth: 200 Gbit/s → at most 100 Gbit/s, what emulators of paths are asked for
{orphan_time: 1 s}
    orphan_time: '1 s' → a time
"""
"""Changes of a testbed's file, and below them what is said of them."""


@pytest.mark.parametrize(("changes", "messages"), cases(REFUSED))
def test_a_wrong_testbed_is_refused(root: Path, changes: str, messages: list[str]) -> None:
    with pytest.raises(ConfigurationError) as error:
        loaded(root, {}, NODES | yaml.safe_load(changes))
    for line, message in zip(str(error.value).splitlines(), messages, strict=True):
        assert line.startswith(f"{FILE}: {message}")
