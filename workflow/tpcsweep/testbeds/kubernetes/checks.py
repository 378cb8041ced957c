# SPDX-License-Identifier: Apache-2.0
"""Check a sweep against the file of a kubernetes testbed, without asking a cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tpcsweep.configuration import templates
from tpcsweep.configuration.checks import Rule, broken, everywhere, rounded
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.placements import CPU, SERVERS, amount_of, most_origins
from tpcsweep.configuration.problems import Problem, key, suggest
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.configuration.units import CORES, DURATION, RATE, RTT, SIZE, Dimension, show
from tpcsweep.paths.plan import LARGEST_BANDWIDTH, SMALLEST_BANDWIDTH, SMALLEST_RTT
from tpcsweep.testbeds.kubernetes import reserved
from tpcsweep.testbeds.rules import at_most, emulated, enough_cores, one_of, served
from tpcsweep.tools import TOOLS
from tpcsweep.xrootd.releases import SYSTEM

CELL_MARGIN = 60.0
"""Seconds of a cell beside its measurement, with the removal of its deployment."""
FEWEST_CORES = 0.01
"""The fewest cores of a container: a kubelet sets no quota below 1 ms in 100 ms."""


def check(configuration: Configuration) -> list[Problem]:
    testbed, file = configuration.testbed, configuration.testbed_file
    assert isinstance(testbed, Kubernetes)
    if testbed.paths.kind == "netem":
        most = max(_known(pair.bandwidth) for pair in testbed.pairs)
        bandwidth = at_most("bandwidth", most, RATE, f" (bandwidth in {file})")
        made = emulated(SMALLEST_RTT["netem"], LARGEST_BANDWIDTH["netem"])
        paths = [bandwidth, Rule(("bandwidth", "origins"), _share), *made]
    else:
        paths = _real(testbed, file)
    rules = [*paths, _mtu(testbed, file), _origins(testbed, file), *served(), *_servers(testbed, file)]
    rules += _memory(testbed, file)
    wrong = [replace(problem, file=file) for problem in reserved.problems(testbed)]
    return [*wrong, *_time(testbed, file, configuration.sweep.measurement), *broken(rules, configuration)]


def _time(testbed: Kubernetes, file: str, how: Measurement) -> list[Problem]:
    """Require a time limit in which a deployment can start and a cell can end."""
    least = testbed.start_time + how.bounds[1] + CELL_MARGIN
    if testbed.time_limit is None or testbed.time_limit >= least:
        return []
    given, allowed = (show(time, DURATION) for time in (testbed.time_limit, least))
    why = f"at least {allowed}: start_time, the longest cell of the sweep, and {show(CELL_MARGIN, DURATION)}"
    return [Problem("time_limit", given, why, file)]


def _memory(testbed: Kubernetes, file: str) -> list[Rule]:
    """Require room for files at the destination, and at the source unless they are sparse."""
    destination = min(_known(pair.destination.memory) for pair in testbed.pairs)
    source = min(_known(pair.source.memory) for pair in testbed.pairs)

    def sent(size: int, content: str) -> str | None:
        fits = content != "random" or size <= source
        return None if fits else f"at most {rounded(source)} (memory of a source in {file})"

    rule = Rule(("file_size", "source_content"), sent)
    return [*everywhere(destination, f"memory in {file}, of one origin"), rule]


def _known(value: Any) -> Any:
    """Return a field that `Kubernetes.pairs` has set."""
    assert value is not None
    return value


def _origins(testbed: Kubernetes, file: str) -> Rule:
    def allowed(count: int, rtt: float) -> str | None:
        # Any pair of this RTT may be the one that is free.
        for index, pair in enumerate(testbed.pairs):
            for name, side in pair.sides:
                bound = most_origins(side, testbed.paths.kind)
                if bound and pair.rtt in (None, rtt) and count > bound[0]:
                    where = key(("paths", *testbed.paths.place(index), name))
                    return f"at most {bound[0]}: {where} in {file} has {bound[1]}"
        return None

    return Rule(("origins", "rtt"), allowed)


def _mtu(testbed: Kubernetes, file: str) -> Rule:
    """Require the MTU of a pair with the RTT and bandwidth, for which other rules exist."""
    all_of_them = list(dict.fromkeys(pair.mtu for pair in testbed.pairs))
    if len(all_of_them) == 1:
        return one_of("mtu", all_of_them, f"{show(_known(all_of_them[0]), SIZE)} (mtu in {file})")

    def allowed(mtu: int, rtt: float, bandwidth: float) -> str | None:
        fitting = Parameters(rtt=rtt, bandwidth=bandwidth)
        able = {
            _known(pair.mtu)
            for pair in testbed.pairs
            if testbed.serves(pair, fitting.model_copy(update={"mtu": pair.mtu}))
        }
        return None if mtu in able or not able else f"{_listed(able, SIZE)}, as such paths have it ({file})"

    return Rule(("mtu", "rtt", "bandwidth"), allowed)


def _bandwidth(testbed: Kubernetes, file: str) -> Rule:
    all_of_them = list(dict.fromkeys(_known(pair.bandwidth) for pair in testbed.pairs))
    if len(all_of_them) == 1:
        text = f"{show(all_of_them[0], RATE)}, as the paths have it (bandwidth in {file})"
        return one_of("bandwidth", all_of_them, text)

    def allowed(bandwidth: float, rtt: float) -> str | None:
        able = {_known(pair.bandwidth) for pair in testbed.pairs if pair.rtt == rtt}
        if bandwidth in able or not able:
            return None
        return f"{_listed(able, RATE)}, as paths of this rtt have it (paths.pairs in {file})"

    return Rule(("bandwidth", "rtt"), allowed)


def _listed(values: Collection[float], unit: Dimension) -> str:
    return " or ".join(show(value, unit) for value in sorted(values))


def _share(bandwidth: float, origins: int) -> str | None:
    if bandwidth / origins >= SMALLEST_BANDWIDTH:
        return None
    least = show(round(SMALLEST_BANDWIDTH * origins, 6), RATE)
    return f"at least {least}: each origin makes its share of the path"


def _real(testbed: Kubernetes, file: str) -> list[Rule]:
    kind = testbed.paths.kind
    rtts = list(dict.fromkeys(pair.rtt for pair in testbed.pairs if pair.rtt is not None))
    known = ", ".join(show(rtt, RTT) for rtt in rtts)
    return [
        one_of("rtt", rtts, f"one of {known}, the paths in {file}"),
        _bandwidth(testbed, file),
        one_of("loss", [0], f"0 %: tpcsweep cannot set the loss of paths of kind {kind} ({file})"),
        one_of("queue_limit", [None], f"null: tpcsweep cannot set queues of paths of kind {kind} ({file})"),
    ]


def _servers(testbed: Kubernetes, file: str) -> list[Rule]:
    def congestion_control(value: str) -> str | None:
        known = testbed.congestion_controls
        return None if value in known else f"{suggest(value, known)} (congestion_controls in {file})"

    def tool(value: str) -> str | None:
        able = [name for name, each in TOOLS.items() if (each.place, each.protocol) == ("client", "https")]
        if value in able or value not in TOOLS:
            return None
        place, protocol = TOOLS[value].place, TOOLS[value].protocol
        why = f"runs at the {place}" if place != "client" else f"needs servers of {protocol}"
        return f"one of {', '.join(able)}: {value} {why}, and pods have XRootD's alone, for HTTP"

    def xrootd(name: str) -> str | None:
        known = [SYSTEM, *testbed.releases]
        if name in known:
            return None
        return f"{suggest(name, known)}, as the image has them (releases in {file})"

    rules = [
        enough_cores(FEWEST_CORES, "kubelets set no quota of less than 1 ms in 100 ms"),
        Rule(("tool",), tool),
        Rule(("xrootd",), xrootd),
        one_of("layer", ["memory_to_memory"], "memory_to_memory: the files of pods are in memory"),
        *_requested(testbed, file),
    ]
    if testbed.tcp_buffer is not None:
        size = show(testbed.tcp_buffer, SIZE)
        rules.append(one_of("tcp_buffer", [testbed.tcp_buffer], f"{size} (tcp_buffer in {file})"))
    return [*rules, Rule(("congestion_control",), congestion_control)]


def _requested(testbed: Kubernetes, file: str) -> list[Rule]:
    """Require that no pod requests more cores than an origin's share, which is its limit."""
    sides = [side for pair in testbed.pairs for _, side in pair.sides]
    asked = [templates.resources(side.podTemplate, SERVERS, "requests").get(CPU, "") for side in sides]
    most = float(max(map(amount_of, map(str, asked))))
    return [enough_cores(most, f"requests {show(most, CORES)} (podTemplate in {file})")] if most else []
