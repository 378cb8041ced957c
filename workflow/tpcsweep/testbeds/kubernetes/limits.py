"""What a sweep may ask for of a kubernetes testbed: what its file allows. Pure; no cluster is asked."""

from __future__ import annotations

from tpcsweep.configuration.checks import Rule, broken, emulated, everywhere
from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.problems import Problem, suggest
from tpcsweep.configuration.testbeds import Kubernetes
from tpcsweep.configuration.units import RATE, RTT, SIZE, show
from tpcsweep.tools import TOOLS

LARGEST_RTT = 2000.0
"""In ms, what netem is used for."""


def check(configuration: Configuration) -> list[Problem]:
    """Everything that the sweep asks for and the testbed cannot do."""
    testbed, file = configuration.testbed, configuration.testbed_file
    assert isinstance(testbed, Kubernetes)
    paths = _emulated(testbed, file) if testbed.paths.kind == "netem" else _real(testbed, file)
    memory = everywhere(testbed.memory, f"memory in {file}, of one origin")
    return broken([*paths, *_servers(testbed, file), *memory], configuration)


def _emulated(testbed: Kubernetes, file: str) -> list[Rule]:
    """Paths of kind netem: whatever netem makes on the network that is there."""

    def rtt(value: float) -> str | None:
        return None if value <= LARGEST_RTT else f"at most {show(LARGEST_RTT, RTT)}"

    def bandwidth(value: float) -> str | None:
        limit = testbed.bandwidth
        return None if value <= limit else f"at most {show(limit, RATE)} (bandwidth in {file})"

    return [Rule(("rtt",), rtt), Rule(("bandwidth",), bandwidth), *emulated()]


def _real(testbed: Kubernetes, file: str) -> list[Rule]:
    """Paths of kind nodes and networks: those that exist, as they are."""
    paths = testbed.paths
    known = list(dict.fromkeys(pair.rtt for pair in paths.pairs if pair.rtt is not None))

    def rtt(value: float) -> str | None:
        if value in known:
            return None
        return f"one of {', '.join(show(rtt, RTT) for rtt in known)}, the paths in {file}"

    def bandwidth(value: float) -> str | None:
        if value == testbed.bandwidth:
            return None
        return f"{show(testbed.bandwidth, RATE)}, as the paths have it (bandwidth in {file})"

    def loss(value: float) -> str | None:
        return f"0 %: paths of kind {paths.kind} lose what they lose ({file})" if value else None

    def queue_limit(packets: int | None) -> str | None:
        return (
            None if packets is None else f"null: paths of kind {paths.kind} have queues of their own ({file})"
        )

    def origins(count: int, rtt: float) -> str | None:
        # Any pair of this RTT may be the one that is free.
        for index, pair in enumerate(paths.pairs):
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
        Rule(("rtt",), rtt),
        Rule(("bandwidth",), bandwidth),
        Rule(("loss",), loss),
        Rule(("queue_limit",), queue_limit),
    ]
    return [*rules, Rule(("origins", "rtt"), origins)] if paths.kind == "networks" else rules


def _servers(testbed: Kubernetes, file: str) -> list[Rule]:
    """What the nodes set, or let pods set."""

    def mtu(value: int) -> str | None:
        return None if value == testbed.mtu else f"{show(testbed.mtu, SIZE)} (mtu in {file})"

    def tcp_buffer(value: int) -> str | None:
        limit = testbed.tcp_buffer
        return None if limit is None or value == limit else f"{show(limit, SIZE)} (tcp_buffer in {file})"

    def congestion_control(value: str) -> str | None:
        known = testbed.congestion_controls
        return None if value in known else f"{suggest(value, known)} (congestion_controls in {file})"

    def tool(value: str) -> str | None:
        known = TOOLS.get(value)
        if known is None or (known.place == "client" and known.protocol == "https"):
            return None
        able = [name for name, each in TOOLS.items() if each.place == "client" and each.protocol == "https"]
        why = (
            f"runs at the {known.place}" if known.place != "client" else f"needs servers of {known.protocol}"
        )
        return f"one of {', '.join(able)}: {value} {why}, and pods have XRootD's alone, for HTTP"

    def layer(value: str) -> str | None:
        return None if value == "memory_to_memory" else "memory_to_memory: the files of pods are in memory"

    return [
        Rule(("tool",), tool),
        Rule(("layer",), layer),
        Rule(("mtu",), mtu),
        Rule(("tcp_buffer",), tcp_buffer),
        Rule(("congestion_control",), congestion_control),
    ]
