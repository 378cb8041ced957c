# SPDX-License-Identifier: Apache-2.0
"""Experiments with netem in user-mode-linux: one knob each."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import uml
from arithmetic import DEFAULT_LIMIT

AMPLE = 20_000  # packets that this machine cannot fill, so in effect no limit
LARGE = 8 * 2**20  # bytes of TCP buffers that never bind here
SMALL = 128 * 2**10
PLENTY = 100_000  # pages of memory for TCP that never bind here
SECONDS = 5
OMITTED = 3  # seconds before the measurement, for slow start and its first losses
NEEDED = ("veth", "sch_netem", "sch_ingress", "cls_matchall", "act_police")  # kernel modules
INSIDE = Path(__file__).with_name("inside.py")
EACH = 3 * (SECONDS + OMITTED) + 10  # most seconds of an experiment on a busy machine
BOOT = 120  # most seconds for the kernel and Python to start there


@dataclass(frozen=True)
class Experiment:
    """Path from a sender to a receiver, and TCP connections over it."""

    explanation: str
    streams: int = 16
    rtt: float = 120.0
    """ms, all of it in netem at the sender's interface, as in the shortest tc command."""
    limit: int = AMPLE  # packets, of netem
    mtu: int = 9000  # bytes
    offloads: bool = True
    tcp_buffer: int = LARGE  # bytes
    tcp_pages: int = PLENTY
    """Last of net.ipv4.tcp_mem's three values, in pages of 4 KiB."""
    policer: float | None = None
    """Gbit/s above which packets are dropped on arrival, or None."""
    loss: float = 0.0  # share of packets


def corners(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return three experiments that show the dependence on streams and on RTT."""
    places = ((4, 120.0), (32, 120.0), (32, 30.0))
    return tuple(replace(experiment, streams=streams, rtt=rtt) for streams, rtt in places)


NONE = Experiment("none")
DEFAULT = Experiment("queue_limit", limit=DEFAULT_LIMIT)
LIMITED = replace(DEFAULT, limit=200)
EXPERIMENTS = (
    *corners(NONE),
    *corners(LIMITED),
    *corners(Experiment("window", tcp_buffer=SMALL)),
    *corners(Experiment("tcp_mem", tcp_pages=1024)),
    *corners(Experiment("policer", policer=0.3)),
    # netem loses packets as received; they must have the MTU, as on a path.
    *corners(Experiment("loss", loss=0.005, offloads=False)),
    # Question (1), with netem's own limit: throughput over streams, by MTU and with and without offloads.
    *(replace(DEFAULT, streams=streams) for streams in (4, 16, 64)),
    *(replace(DEFAULT, streams=streams, mtu=1500) for streams in (16, 64)),
    *(replace(DEFAULT, offloads=False, mtu=mtu) for mtu in (9000, 1500)),
    # Question (2): throughput over RTT at fixed streams, with a limit that binds above some RTT in between.
    *(replace(LIMITED, rtt=rtt) for rtt in (10.0, 20.0, 40.0, 60.0, 120.0)),
    *(replace(NONE, rtt=rtt) for rtt in (10.0, 60.0)),
)


def measure(experiments: Sequence[Experiment] = EXPERIMENTS) -> dict[str, Any]:
    """Run experiments on a kernel with netem, about 10 s each; return their results, with the kernel.

    Raises:
        UmlError: If the kernel is not installed or an experiment fails.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = folder / "experiments.json"
        asked.write_text(json.dumps([asdict(experiment) for experiment in experiments]))
        script = (
            f"{sys.executable} {uml.MODULES} {' '.join(NEEDED)} || exit 1\n"
            "uname -sr\nnproc\n"
            f"{sys.executable} {INSIDE} {asked} 2>/run/error || {{ cat /run/error; exit 1; }}\n"
        )
        kernel, cpus, *lines = uml.run(script, folder, BOOT + EACH * len(experiments)).splitlines()
    return {
        "testbed": "netem in user-mode-linux",
        "kernel": kernel,
        "cpus": int(cpus),
        "tool": "iperf3",
        "seconds": SECONDS,
        "omitted": OMITTED,
        "experiments": [json.loads(line) for line in lines],
    }
