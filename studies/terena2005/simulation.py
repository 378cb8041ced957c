# SPDX-License-Identifier: Apache-2.0
"""Simulate a case with ns-3: compile and run the program `bottleneck`, and interpret its samples."""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import formulas
from cases import Case
from recovery import follow
from tpcsweep.common.extras import require_extra
from tpcsweep.common.numbers import GBIT, plain
from tpcsweep.measuring import tcp
from tpcsweep.measuring.provenance import commit, machine
from tpcsweep.measuring.tools.tool import package_versions

SOURCE = Path(__file__).with_name("bottleneck.cc")
LIBRARIES = "point-to-point-layout applications point-to-point internet traffic-control network core"
CONTROLS = {"reno": "LinuxReno", "cubic": "Cubic"}
"""Supported congestion controls by ns-3's names.
ns-3's NewReno truncates its increment, and its BBR, YeAH and Vegas are unchecked."""
MINIMUM_RTO = 0.2  # seconds, as in Linux and in bottleneck.cc
DOUBLINGS = 5
"""Doublings of the retransmission timer until a connection stalled; at 10 % loss 1 in 10⁵ timeouts."""
SAMPLES = 200  # fewest samples of a simulation
_SMALLEST_BUFFER = 1 << 18
_SECONDS = 1800.0


class SimulationError(RuntimeError):
    """The program cannot be compiled, or rejects its arguments."""


class CrashError(RuntimeError):
    """A signal ended ns-3."""


@dataclass(frozen=True)
class Sample:
    """Arrived bytes of each flow at a time, and its congestion window in bytes."""

    time: float
    received: Sequence[int]
    window: Sequence[int]


def build(binary: Path) -> None:
    """Compile bottleneck.cc against Debian's libns3-dev.

    Raises:
        MissingExtraError: If libns3-dev is not installed.
        SimulationError: If the program does not compile.
    """
    require_extra("ns3")
    libraries = [f"-lns3-{name}" for name in LIBRARIES.split()]
    # The headers of Debian 12's release do not compile as C++20; those of Debian 13's, 3.43, require it.
    standard = "c++17" if package_versions("libns3-dev").get("libns3-dev", "").startswith("3.37") else "c++20"
    options = [f"-std={standard}", "-O2", "-Wall", "-Wextra"]
    command = ["g++", *options, "-o", str(binary), str(SOURCE), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SimulationError(f"{SOURCE.name} could not be compiled: {done.stderr.strip()[-2000:]}")


def arguments(case: Case, seed: int) -> dict[str, Any]:
    """Return the program's arguments for a case.

    A flow starts in congestion avoidance with its average window, because slow start is not studied. The queue holds
    one bandwidth-delay product, as on measured paths.
    """
    payload = case.bottleneck_mtu - tcp.HEADERS
    full = formulas.bdp_packets(case.bandwidth, case.rtt, case.bottleneck_mtu)
    window = full
    if case.kind == "loss":
        window = min(full, math.sqrt(1.5 / case.loss))
    if case.kind == "mtu_fairness":
        window = full / len(case.mtus)
    bdp = case.bandwidth * 1e6 * case.rtt / 8
    # The shortest paths would have queues smaller than a burst.
    queue = max(bdp, 100 * case.bottleneck_mtu)
    buffer = 2 * (bdp + queue)
    if case.kind == "loss":  # ns-3 iterates over the content of a buffer
        buffer = min(buffer, 16 * window * payload)
    segments = max(2, round(window))
    return {
        "rate": round(case.bandwidth * 1e9),
        "rtt": case.rtt / 1000,
        "loss": case.loss,
        "mtus": ",".join(map(str, case.mtus)),
        "control": CONTROLS[case.control],
        "seconds": case.seconds,
        "every": case.rtt / 4000 if case.kind == "recovery" else case.seconds / SAMPLES,
        "drop": 5 * case.rtt / 1000 if case.kind == "recovery" else 0,
        "window": segments,
        "threshold": segments,
        "queue": math.ceil(queue),
        "buffer": max(_SMALLEST_BUFFER, math.ceil(buffer)),
        "seed": seed,
    }


def run(binary: Path, told: dict[str, Any]) -> list[Sample]:
    """Run the program once.

    Raises:
        CrashError: If a signal ended the program.
        SimulationError: If the program fails or times out.
    """
    command = [str(binary), *(f"--{name}={value}" for name, value in told.items())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SimulationError(f"{' '.join(command)}: no end after {plain(_SECONDS)} s") from error
    if done.returncode < 0:
        raise CrashError(f"ended by {signal.Signals(-done.returncode).name}")
    if done.returncode != 0:
        raise SimulationError(
            f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-1000:]}"
        )
    return [Sample(**json.loads(line)) for line in done.stdout.splitlines()]


def stall(case: Case, samples: Sequence[Sample]) -> float | None:
    """Return the time in s since which a flow moved nothing, or only by timeouts, for too long; or None.

    Too long means longer than losses explain. A defect of ns-3 keeps a window at one segment, and counts lost packets
    as in flight. Such a repetition has no throughput.
    """
    timeout = MINIMUM_RTO + case.rtt / 1000
    allowed = min((2**DOUBLINGS - 1) * timeout, max(3 * timeout, (case.seconds - case.warm_up) / 2))
    for flow, mtu in enumerate(case.mtus):
        since, bytes_then = 0.0, 0
        for sample in samples:
            if sample.received[flow] > bytes_then and sample.window[flow] > mtu - tcp.HEADERS:
                since = sample.time
            elif sample.time - since > allowed:
                return since
            bytes_then = sample.received[flow]
    return None


def goodputs(case: Case, samples: Sequence[Sample]) -> list[float]:
    """Return each flow's payload in Gbit/s after warm-up."""
    first = next(sample for sample in samples if sample.time >= case.warm_up)
    last = samples[-1]
    return [
        (now - then) * GBIT / (last.time - first.time)
        for then, now in zip(first.received, last.received, strict=True)
    ]


def simulate(case: Case, binary: Path) -> dict[str, Any]:
    """Simulate all repetitions of a case; return JSON values.

    Raises:
        SimulationError: If the program fails or times out.
    """
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    repetitions: list[dict[str, Any]] = []
    series: dict[str, list[float]] = {}
    for seed in range(1, case.repetitions + 1):
        told = arguments(case, seed)
        try:
            samples = run(binary, told)
        except CrashError as error:
            repetitions.append({"broken": str(error)})
            continue
        stalled = stall(case, samples)
        if stalled is not None:
            repetitions.append({"broken": f"stalled at {plain(stalled)} s"})
        elif case.kind == "recovery":
            payload = case.bottleneck_mtu - tcp.HEADERS
            times = [sample.time for sample in samples]
            windows = [sample.window[0] / payload for sample in samples]
            repetitions.append(asdict(follow(times, windows, told["drop"])))
            series = series or {"time": times, "window": windows}
        else:
            repetitions.append({"goodputs": goodputs(case, samples)})
    return {
        "made": "simulated",
        "simulator": "ns-3",
        "case": asdict(case),
        "repetitions": repetitions,
        "series": series,
        "cpu_seconds": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began,
        "provenance": {
            "commit": commit(),
            "machine": machine(),
            "software": package_versions("libns3-dev"),
            "program": arguments(case, 1),
        },
    }
