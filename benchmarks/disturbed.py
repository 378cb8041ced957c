# SPDX-License-Identifier: Apache-2.0
"""Detection of a disturbed machine: cells with 0, 1 and 2 concurrent busy loops, in turn.

python -m benchmarks.disturbed [ROUNDS]      as root, on a machine with nothing else to do; two minutes for three rounds

The loops have the normal priority. One kind of cell leaves most of the machine idle, the other uses as much as it can.
The first cell of a round runs without a loop.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from tpcsweep.data.cell_result import CellResult
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

KINDS = {"0.2 Gbit/s": {"bandwidth": 0.2, "rtt": 10.0}, "5 Gbit/s": {"bandwidth": 5.0, "rtt": 0.0}}
LOOPS = (0, 1, 2)
CELL = Measurement(until="seconds", seconds=6)
SETTLE = 0.5
"""Seconds that loops run before a cell starts."""
SHOWN = ("throughput", "machine_cpu", "machine_steal", "machine_others", "machine_pressure", "machine_slowed")


def main(rounds: int) -> None:
    """Print a row for each cell, and the number of flagged cells."""
    print(f"| path | loops | {' | '.join(SHOWN)} | disturbed |\n|---|---|{'---|' * len(SHOWN)}---|")
    flagged = {loops: [0, 0] for loops in LOOPS}
    for kind, path in KINDS.items():
        with site_of(**path) as site:
            for _ in range(rounds):
                for loops in LOOPS:
                    found = cell(site, loops)
                    disturbed = "disturbed" in found.flags
                    flagged[loops][0] += disturbed
                    flagged[loops][1] += 1
                    numbers = " | ".join(shown(found.summary.figures[name]) for name in SHOWN)
                    print(f"| {kind} | {loops} | {numbers} | {'yes' if disturbed else 'no'} |", flush=True)
    for loops, (count, of) in flagged.items():
        print(f"\nWith {loops} loops: {count} of {of} cells flagged.")


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def cell(site: NetnsSite, loops: int) -> CellResult:
    """Measure a cell with `loops` concurrent busy loops."""
    wanted = Parameters(streams=4, file_size=16 << 20, tool="curl")
    with beside(loops):
        return measure(site, wanted, CELL, f"d{time.monotonic_ns()}", lambda *_: None)


@contextlib.contextmanager
def beside(loops: int) -> Iterator[None]:
    """Run processes that use a CPU each."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        time.sleep(SETTLE)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
