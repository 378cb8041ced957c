# SPDX-License-Identifier: Apache-2.0
"""What `simulate` gets of a cell: how many streams it has to simulate, and what caps them. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.testbeds.simulation import model
from tpcsweep.testbeds.simulation.model import Terms
from tpcsweep.variables import GBIT

MOST = 32
"""Streams that are simulated one by one; of more, origins that are alike are simulated once, and their streams in
groups that move together."""
CPU_SECONDS = 120
"""Of one cell at most: it takes a tenth of a second, and one of an hour some seconds."""
ENDLESS = 10.0
"""Seconds' worth of what a stream moves at a time that has no files: how it is cut up makes no difference."""


def plan(wanted: Parameters, physics: Physics, queues: str, measurement: Measurement) -> dict[str, Any]:
    """A cell for `simulate`: rates in Gbit/s, sizes in Gbit, times in s; `queues` as of `model.terms`."""
    cells, p = model.cells_of([wanted]), model.central(physics)
    begin = model.least(model.terms(np.zeros(1), cells, p, queues))
    at = model.terms(begin, cells, p, queues)
    used, rtt = int(model.used_origins(cells)[0]), float(model.round_trip(cells, p)[0])
    throughput, setup_cpu, file = float(model.least(at)[0]), float(p["setup_cpu"]), wanted.file_size * GBIT
    endless = bool(cells.endless[0])
    if endless:
        file, setup_cpu = ENDLESS * throughput / wanted.streams + float(at.ramp[0]), 0.0
    origins, streams, weight = dealt(wanted.streams, used)
    times = used / origins
    ceiling = {name: float(np.ravel(value)[0]) for name, value in at.ceilings.items()}
    interface, queue = ceiling["interface"] / used, ceiling["path_queue"]
    shared = min(ceiling[name] for name in ("path", "server", "disk_read", "disk_write"))
    if queues == "origin":
        interface = min(interface, queue / used)
    else:
        shared = min(shared, queue)
    cores = float(model.instance_cores(cells, p)[0])
    phases = _phases(at, rtt, file)
    return {
        "origins": origins,
        "streams": streams,
        "weight": weight,
        "times": times,
        "phases": phases,
        "again": len(phases) - 1 if endless else 0,
        "cores": cores / float(model.slowdown(cells, p)[0]),
        "stream_cores": min(1.0, cores),
        "sides": [
            {"core_rate": float(p[f"core_rate_{side}"]), "per_gbit": setup_cpu / file}
            for side in ("source", "destination")
        ],
        "spill": float(p["spill"]),
        "spill_per_gbit": rtt / 8 * 1000 / float(p["cache"]),
        "stream": _finite(float(at.window[0])),
        "interface": _finite(interface),
        "shared": _finite(shared / times),
        "guess": throughput,
        "cpu_seconds": CPU_SECONDS,
        "interval": measurement.interval,
        "files": None if endless else measurement.files,
        "seconds": measurement.bounds[1],
        "listed": measurement.until == "files" and weight * times == 1 and not endless,
    }


def dealt(streams: int, used: int) -> tuple[int, list[int], float]:
    """How many origins are simulated, the origin of each simulated stream, and how many real ones each stands for.

    Of so many `streams`, on as many origins as are `used`.
    """
    if streams <= MOST:
        return used, [number % used for number in range(streams)], 1.0
    each = min(MOST, math.ceil(streams / used))
    origins = max(1, min(used, MOST // each))
    return origins, [number % origins for number in range(each * origins)], streams / used / each


def _phases(at: Terms, rtt: float, file: float) -> list[dict[str, float]]:
    """Set-up, slow start up to its last round trip, that round trip, and the rest at whatever rate there is (0 s)."""
    rounds, ramp = float(at.rounds[0]), float(at.ramp[0])
    phases = [{"seconds": float(at.setup[0]), "gbit": 0.0}]
    if rounds > 1:  # half of the last window, and so half of all with the first
        last = ramp / 2 * (1 + 1 / (2**rounds - 1))
        phases.append({"seconds": (rounds - 1) * rtt, "gbit": ramp - last})
        phases.append({"seconds": rtt, "gbit": last})
    elif ramp > 0:
        phases.append({"seconds": rounds * rtt, "gbit": ramp})
    if file - ramp > 1e-6 * file:
        phases.append({"seconds": 0.0, "gbit": file - ramp})
    return phases


def _finite(value: float) -> float:
    """JSON knows no infinity, and SimGrid wants a bandwidth."""
    return min(value, 1e6)
