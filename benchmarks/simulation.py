# SPDX-License-Identifier: Apache-2.0
"""Difference of SimGrid and the same model's fixed point, and cost of a cell, over the published grid.

    python -m benchmarks.simulation [CELLS]

Samples (200 cells) streams 1–520 × RTT 0.1–120 ms × cores 8–128 × origins 1–8 on both simulated testbeds, some with
netem's default queue limit. Prints quantiles of the deviation by limit, and CPU seconds for each cell.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tpcsweep.configuration.loading import load
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds.simulation import engine
from tpcsweep.testbeds.simulation.model import central, model_cells, solve, spread

from tests.support.simulating import by_simgrid

ROOT = Path(__file__).parents[1]


def main(count: int) -> None:
    generator = np.random.default_rng(1)
    deviations: dict[str, list[float]] = {}
    worst: list[tuple[float, str]] = []
    spent = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("simulation", "simulation-chep2023"):
            settings = load({"sweep": "smoke", "testbed": name}, ROOT).testbed
            assert isinstance(settings, Simulation)
            physics, queues = settings.parameters, settings.queues
            with engine.started(Path(folder) / "simgrid.log") as simgrid:
                for _ in range(count // 2):
                    one = Parameters(
                        streams=int(np.exp(generator.uniform(0, np.log(520)))),
                        origins=int(generator.choice([1, 2, 4, 8])),
                        cores=float(generator.choice([8, 16, 32, 64, 128])),
                        rtt=float(generator.choice([0.1, 1, 3, 10, 30, 60, 120])),
                        bandwidth=float(generator.choice([100, 200, 400])),
                        queue_limit=[None, 1000][generator.integers(2)],
                        tcp_buffer=int(generator.choice([2**26, 2**30])),
                        file_size=int(generator.choice([10**9, 4 * 10**9])),
                    )
                    began = time.process_time()
                    found = by_simgrid(simgrid, one, physics, queues)
                    cells = model_cells([one])
                    spread(cells, physics, queues, settings.draws, 0.95)
                    spent += time.process_time() - began
                    expected, at = solve(cells, central(physics), queues)
                    shares = {"demand": at.demand, **at.ceilings}
                    bound = min(shares, key=lambda key: float(np.ravel(shares[key])[0]))
                    deviation = found / float(expected[0]) - 1
                    deviations.setdefault(bound, []).append(deviation)
                    worst.append(
                        (abs(deviation), f"{found:.4g} against {expected[0]:.4g} Gbit/s: {name}, {one}")
                    )
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{count} cells; CPU s a cell: {(spent + children.ru_utime + children.ru_stime) / count:.3f}")
    every = np.concatenate([np.array(values) for values in deviations.values()])
    for bound, values in {**deviations, "all": every}.items():
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        most = np.abs(values).max()
        print(
            f"{bound:16} {len(values):4}  5 % {low:+.3f}  median {middle:+.3f}  95 % {high:+.3f}  largest {most:.3f}"
        )
    for _, text in sorted(worst, reverse=True)[:5]:
        print(text)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
