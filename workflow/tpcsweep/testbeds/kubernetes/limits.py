# SPDX-License-Identifier: Apache-2.0
"""What a sweep may ask for of a kubernetes testbed: what its file allows. Pure; no cluster is asked."""

from __future__ import annotations

from tpcsweep.configuration.checks import Rule, broken, everywhere
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.problems import Problem, suggest
from tpcsweep.configuration.units import RATE, RTT, SIZE, show
from tpcsweep.paths.plan import LARGEST_BANDWIDTH, SMALLEST_BANDWIDTH, SMALLEST_RTT
from tpcsweep.testbeds.rules import at_most, emulated, enough_cores, one_of, served
from tpcsweep.tools import TOOLS
from tpcsweep.xrootd.releases import SYSTEM

FEWEST_CORES = 0.01
"""Of a container: kubelet gives it 1 ms of each 100 ms at least, whatever it is limited to."""


def check(configuration: Configuration) -> list[Problem]:
    testbed, file = configuration.testbed, configuration.testbed_file
    assert isinstance(testbed, Kubernetes)
    if testbed.paths.kind == "netem":  # whatever netem makes on the network that is there
        bandwidth = at_most("bandwidth", testbed.bandwidth, RATE, f" (bandwidth in {file})")
        made = emulated(SMALLEST_RTT["netem"], LARGEST_BANDWIDTH["netem"])
        paths = [bandwidth, Rule(("bandwidth", "origins"), _share), *made]
    else:
        paths = _real(testbed, file)
    memory = everywhere(testbed.memory, f"memory in {file}, of one origin")
    return broken([*paths, *served(), *_servers(testbed, file), *memory], configuration)


def _share(bandwidth: float, origins: int) -> str | None:
    if bandwidth / origins >= SMALLEST_BANDWIDTH:
        return None
    least = show(round(SMALLEST_BANDWIDTH * origins, 6), RATE)
    return f"at least {least}: each origin makes its share of the path"


def _real(testbed: Kubernetes, file: str) -> list[Rule]:
    """Paths of kind nodes and networks: those that exist, as they are."""
    paths = testbed.paths
    rtts = list(dict.fromkeys(pair.rtt for pair in paths.given if pair.rtt is not None))
    known = ", ".join(show(rtt, RTT) for rtt in rtts)
    bandwidth = show(testbed.bandwidth, RATE)

    def origins(count: int, rtt: float) -> str | None:
        # Any pair of this RTT may be the one that is free.
        for index, pair in enumerate(paths.given):
            for side in ("source", "destination"):
                addresses = len(getattr(pair, side).addresses)
                most = max(1, addresses - 1)
                if pair.rtt == rtt and count > most:
                    return (
                        f"at most {most}: paths.pairs[{index}].{side} in {file} has {addresses} of the addresses "
                        "that more than one origin need, one for the redirector and one for each of them"
                    )
        return None

    rules = [
        one_of("rtt", rtts, f"one of {known}, the paths in {file}"),
        one_of("bandwidth", [testbed.bandwidth], f"{bandwidth}, as the paths have it (bandwidth in {file})"),
        one_of("loss", [0], f"0 %: paths of kind {paths.kind} lose what they lose ({file})"),
        one_of("queue_limit", [None], f"null: paths of kind {paths.kind} have queues of their own ({file})"),
    ]
    return [*rules, Rule(("origins", "rtt"), origins)] if paths.kind == "networks" else rules


def _servers(testbed: Kubernetes, file: str) -> list[Rule]:
    """What the nodes set, or let pods set."""

    def congestion_control(value: str) -> str | None:
        known = testbed.congestion_controls
        return None if value in known else f"{suggest(value, known)} (congestion_controls in {file})"

    def tool(value: str) -> str | None:
        able = [
            name for name, known in TOOLS.items() if known.place == "client" and known.protocol == "https"
        ]
        if value in able or value not in TOOLS:
            return None
        place, protocol = TOOLS[value].place, TOOLS[value].protocol
        why = f"runs at the {place}" if place != "client" else f"needs servers of {protocol}"
        return f"one of {', '.join(able)}: {value} {why}, and pods have XRootD's alone, for HTTP"

    def xrootd(name: str) -> str | None:
        known = [SYSTEM, *testbed.releases]
        return (
            None if name in known else f"{suggest(name, known)}, as the image has them (releases in {file})"
        )

    rules = [
        enough_cores(FEWEST_CORES, "kubelets set no quota of less than 1 ms in 100 ms"),
        Rule(("tool",), tool),
        Rule(("xrootd",), xrootd),
        one_of("layer", ["memory_to_memory"], "memory_to_memory: the files of pods are in memory"),
        one_of("mtu", [testbed.mtu], f"{show(testbed.mtu, SIZE)} (mtu in {file})"),
    ]
    if testbed.tcp_buffer is not None:
        size = show(testbed.tcp_buffer, SIZE)
        rules.append(one_of("tcp_buffer", [testbed.tcp_buffer], f"{size} (tcp_buffer in {file})"))
    return [*rules, Rule(("congestion_control",), congestion_control)]
