# SPDX-License-Identifier: Apache-2.0
"""Check a sweep against the file of a kubernetes testbed, without asking a cluster. Pure."""

from dataclasses import replace

from tpcsweep.deploying.paths.network_path import LARGEST_BANDWIDTH, SMALLEST_BANDWIDTH, SMALLEST_RTT
from tpcsweep.deploying.xrootd.releases import SYSTEM
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import DeploymentParameters, parameters_by_sysctl, show_value
from tpcsweep.sweeps.problems import Problem, key
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.sweeps.units import DURATION, RATE, RTT, SIZE, Dimension, show
from tpcsweep.testbeds.kubernetes import reserved
from tpcsweep.testbeds.kubernetes.objects import KIND
from tpcsweep.testbeds.kubernetes.placements import most_origins
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.rules import (
    Rule,
    allowed_values,
    at_most,
    broken,
    emulated_path_rules,
    enough_cores,
    everywhere,
    known_word,
    rounded,
    server_rules,
)

CELL_MARGIN = 60.0  # seconds of a cell in addition to its measurement, with the removal of its deployment
FEWEST_CORES = 0.01  # the fewest cores of a container: a kubelet sets no quota below 1 ms in 100 ms


def check(study: SweepStudy) -> list[Problem]:
    testbed, file = study.testbed, study.testbed_file
    assert isinstance(testbed, Kubernetes)
    if testbed.paths.kind == "netem":
        most = max(pair.bandwidth or 0 for pair in testbed.pairs)
        bandwidth = at_most("bandwidth", most, RATE, f" (bandwidth in {file})")
        made = emulated_path_rules(SMALLEST_RTT["netem"], LARGEST_BANDWIDTH["netem"])
        mtu = _as_paths(testbed, file, "mtu", SIZE, "bandwidth")
        paths = [bandwidth, Rule(("bandwidth", "origins"), _share), *made, mtu]
    else:
        paths = _real(testbed, file)
    rules = [*paths, _origins(testbed, file), *server_rules(), *_servers(testbed, file)]
    rules += _memory(testbed, file)
    return [*template_problems(study), *_time(testbed, file, study.sweep.measurement), *broken(rules, study)]


def template_problems(study: SweepStudy) -> list[Problem]:
    """List the fields of a testbed's pod templates that no deployment can have, whatever its sweep."""
    assert isinstance(study.testbed, Kubernetes)
    return [replace(problem, file=study.testbed_file) for problem in reserved.problems(study.testbed)]


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
    destination = min(pair.destination.memory or 0 for pair in testbed.pairs)
    source = min(pair.source.memory or 0 for pair in testbed.pairs)

    def sent(size: int, content: str) -> str | None:
        fits = content != "random" or size <= source
        return None if fits else f"at most {rounded(source)} (memory of a source in {file})"

    rule = Rule(("file_size", "source_content"), sent)
    return [*everywhere(destination, f"memory in {file}, of one origin"), rule]


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


def _as_paths(testbed: Kubernetes, file: str, name: str, unit: Dimension, *of: str) -> Rule:
    """Require the RTT, bandwidth or MTU of a pair whose parameters `of` fit; other rules exist for those."""

    def allowed(value: float, *others: float) -> str | None:
        wanted = dict(zip(of, others, strict=True))
        able = {getattr(pair, name) for pair in testbed.pairs if testbed.fits(pair, wanted)}
        listed = " or ".join(show(each, unit) for each in sorted(able))
        return None if value in able or not able else f"{listed}, as such paths have it ({file})"

    return Rule((name, *of), allowed)


def _share(bandwidth: float, origins: int) -> str | None:
    if bandwidth / origins >= SMALLEST_BANDWIDTH:
        return None
    least = show(round(SMALLEST_BANDWIDTH * origins, 6), RATE)
    return f"at least {least}: each origin makes its share of the path"


def _real(testbed: Kubernetes, file: str) -> list[Rule]:
    kind = testbed.paths.kind
    return [
        _as_paths(testbed, file, "rtt", RTT),
        _as_paths(testbed, file, "bandwidth", RATE, "rtt"),
        _as_paths(testbed, file, "mtu", SIZE, "rtt", "bandwidth"),
        allowed_values("loss", [0], f"0 %: tpcsweep cannot set the loss of paths of kind {kind} ({file})"),
        allowed_values(
            "queue_limit", [None], f"null: tpcsweep cannot set queues of paths of kind {kind} ({file})"
        ),
    ]


def _servers(testbed: Kubernetes, file: str) -> list[Rule]:
    able = [name for name, each in TOOLS.items() if each.http_tpc]
    copying = f"one of {', '.join(able)}: pods have XRootD's servers alone, and copy by HTTP"
    releases = f", as the image has them (releases in {file})"
    rules = [
        enough_cores(FEWEST_CORES, "kubelets set no quota of less than 1 ms in 100 ms"),
        Rule(("tool",), lambda tool: None if tool in able or tool not in TOOLS else copying),
        known_word("xrootd", [SYSTEM, *testbed.releases], releases),
        allowed_values("layer", ["memory_to_memory"], "memory_to_memory: the files of pods are in memory"),
    ]
    if testbed.tcp_buffer is not None:
        size = show(testbed.tcp_buffer, SIZE)
        rules.append(allowed_values("tcp_buffer", [testbed.tcp_buffer], f"{size} (tcp_buffer in {file})"))
    if testbed.host_network:
        nodes = DeploymentParameters().model_copy(update=testbed.defaults())
        why = f": pods in the network of their nodes set no sysctls (host_network in {file})"
        for name in sorted({*parameters_by_sysctl(KIND).values()} - {"tcp_buffer"}):
            value = getattr(nodes, name)
            rules.append(allowed_values(name, [value], f"{show_value(name, value)}{why}"))
    controls = known_word(
        "congestion_control", testbed.congestion_controls, f" (congestion_controls in {file})"
    )
    return [*rules, controls]
