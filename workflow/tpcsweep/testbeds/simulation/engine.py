# SPDX-License-Identifier: Apache-2.0
"""Simulate cells with SimGrid: a cell's plan for `simulate.py`, and the process that runs it."""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import numpy as np

from tpcsweep import processes
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.extras import SIMGRID_PYTHON, missing_extras
from tpcsweep.installation import PACKAGE
from tpcsweep.testbeds.simulation import model
from tpcsweep.testbeds.simulation.model import Terms
from tpcsweep.variables import GBIT

PROGRAM = PACKAGE / "testbeds/simulation/simulate.py"
MOST = 32
"""Most streams that are simulated individually; of more, one of several equal origins is, in groups of streams."""
CPU_SECONDS = 120
"""Limit on the CPU time of a cell. Typical cells need 0.1 s, and cells of an hour some seconds."""
ENDLESS = 10.0
"""Seconds of data that a stream without files moves at a time; the value does not affect results."""


class SimulationError(Exception):
    """SimGrid is missing, or ended without an answer."""


class CellError(SimulationError):
    """SimGrid could not compute a cell, but can compute others."""


class Engine:
    def __init__(self, process: Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        try:
            self.version = str(self._answer()["simgrid"])
        except SimulationError as error:
            raise SimulationError("; ".join([str(error), *missing_extras(["simulation"])])) from error

    def simulate(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return `simulate.py`'s answer for a cell from `cell_plan`.

        Raises CellError if the cell takes too long or SimGrid fails on it, SimulationError if SimGrid has ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `_answer` reports an ended process
            self._process.stdin.write(json.dumps(cell) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line or '{"error": "has ended"}')
        if "error" in answer:
            said = self._log.read_text(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            kind = CellError if line else SimulationError
            raise kind(f"{SIMGRID_PYTHON} {PROGRAM.name}: {answer['error']}{last} (see {self._log})")
        return answer


@contextlib.contextmanager
def started(log: Path) -> Iterator[Engine]:
    """Run the process during a `with` block, with a log. Raises SimulationError without SimGrid."""
    command = [SIMGRID_PYTHON, "-u", str(PROGRAM)]
    with log.open("w") as errors:
        how = {"stdin": PIPE, "stdout": PIPE, "stderr": errors, "text": True}
        try:
            process = processes.start(command, processes.system_environment(), **how)
        except OSError as error:
            raise SimulationError(f"{SIMGRID_PYTHON} cannot be run: {error.strerror}") from error
        with process:
            try:
                yield Engine(process, log)
            finally:
                process.kill()
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # an ended process leaves its input unread
                    process.stdin.close()


def cell_plan(wanted: Parameters, physics: Physics, queues: str, measurement: Measurement) -> dict[str, Any]:
    """Return a cell for `simulate.py`: rates in Gbit/s, sizes in Gbit, times in s. `queues` is as in `model.terms`."""
    cells, p = model.model_cells([wanted]), model.central(physics)
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
    interface = ceiling["interface"] / used
    shared = min(ceiling[name] for name in ("path", "server", "disk_read", "disk_write"))
    if queues == "origin":
        interface = min(interface, ceiling["path_queue"] / used)
    else:
        shared = min(shared, ceiling["path_queue"])
    cores = float(model.usable_cores(cells, p)[0])
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
    """Return the number of simulated origins, the origin of each simulated stream, and how many real ones it is."""
    if streams <= MOST:
        return used, [number % used for number in range(streams)], 1.0
    each = min(MOST, math.ceil(streams / used))
    origins = max(1, min(used, MOST // each))
    return origins, [number % origins for number in range(each * origins)], streams / used / each


def _phases(at: Terms, rtt: float, file: float) -> list[dict[str, float]]:
    """Return set-up, slow start up to its last round trip, that round trip, and the rest at any rate (0 s)."""
    rounds, ramp = float(at.rounds[0]), float(at.ramp[0])
    phases = [{"seconds": float(at.setup[0]), "gbit": 0.0}]
    if rounds > 1:  # half of the last window, which is half of the bytes plus half of the first window
        last = ramp / 2 * (1 + 1 / (2**rounds - 1))
        phases.append({"seconds": (rounds - 1) * rtt, "gbit": ramp - last})
        phases.append({"seconds": rtt, "gbit": last})
    elif ramp > 0:
        phases.append({"seconds": rounds * rtt, "gbit": ramp})
    if file - ramp > 1e-6 * file:
        phases.append({"seconds": 0.0, "gbit": file - ramp})
    return phases


def _finite(value: float) -> float:
    """Replace infinity, which JSON does not support, by a large bandwidth for SimGrid."""
    return min(value, 1e6)
