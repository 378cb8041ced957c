# SPDX-License-Identifier: Apache-2.0
"""False alarms and delays of `tpcsweep history` on synthetic histories: python -m benchmarks.history.

In a history, cells scatter by 3 % from run to run. In some rows all cells of a run scatter together by as much again,
as if the machine's speed varied. The scatter is normal, or has the heavy tails of Student's t with three degrees of
freedom.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tpcsweep.analysis.history.change_points import FEWEST_RUNS_BETWEEN, changes

HISTORIES = 500
YEARS = 60
WEEKS = 52
SCATTER = 0.03
STEPS = (0.95, 0.9, 0.8)
PLACE = 26
LATEST = 20
"""Runs after a change within which it counts as reported."""
KINDS = {
    "each cell by itself, normal": (False, False),
    "and all of a run together, normal": (True, False),
    "each cell by itself, heavy tails": (False, True),
    "and all of a run together, heavy tails": (True, True),
}


def noise(generator: np.random.Generator, runs: int, cells: int, kind: str) -> NDArray[np.float64]:
    """Return logarithms of throughput without changes, runs × cells."""
    together, heavy = KINDS[kind]

    def drawn(*shape: int) -> NDArray[np.float64]:
        return SCATTER * (generator.standard_t(3, shape) if heavy else generator.normal(size=shape))

    return drawn(runs, cells) + (drawn(runs, 1) if together else 0)


def alarms(generator: np.random.Generator) -> Iterator[str]:
    """Yield the share of histories without a change in which one is found, in a single look."""
    yield "| scatter | cells | " + " | ".join(f"{runs} runs" for runs in (5, 12, 26, 52)) + " |"
    yield "|---|---|---|---|---|---|"
    for kind in KINDS:
        for cells in (1, 24):
            shares = [
                sum(bool(changes(noise(generator, runs, cells, kind))) for _ in range(HISTORIES)) / HISTORIES
                for runs in (5, 12, 26, 52)
            ]
            yield f"| {kind} | {cells} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |"


def year(generator: np.random.Generator) -> Iterator[str]:
    """Yield the changes reported in a year of weekly looks at all runs so far, without any change."""
    yield "| scatter | cells | years with a false alarm | false alarms a year |"
    yield "|---|---|---|---|"
    for kind in KINDS:
        for cells in (1, 24):
            counts = [_told(noise(generator, WEEKS, cells, kind)) for _ in range(YEARS)]
            share = sum(map(bool, counts)) / YEARS
            yield f"| {kind} | {cells} | {100 * share:.0f} % | {statistics.mean(counts):.2f} |"


def _told(logs: NDArray[np.float64]) -> int:
    """Return the number of changes reported as new in all looks."""
    told, before = 0, {}
    for runs in range(2 * FEWEST_RUNS_BETWEEN, len(logs) + 1):
        now = changes(logs[:runs])
        told += sum(not any(abs(place - known) < FEWEST_RUNS_BETWEEN for known in before) for place in now)
        before = now
    return told


def power(generator: np.random.Generator) -> Iterator[str]:
    """Yield how often a change after half a year is reported at its place, and after how many runs."""
    yield "| throughput after it | cells that have it | told | of these at the right run | runs until then, median |"
    yield "|---|---|---|---|---|"
    kind = "and all of a run together, normal"
    for step in STEPS:
        for changed in (24, 4):
            delays, right = [], 0
            for _ in range(YEARS):
                logs = noise(generator, PLACE + LATEST, 24, kind)
                logs[PLACE:, :changed] += np.log(step)
                for after in range(FEWEST_RUNS_BETWEEN, LATEST + 1):
                    near = [
                        place
                        for place in changes(logs[: PLACE + after])
                        if abs(place - PLACE) < FEWEST_RUNS_BETWEEN
                    ]
                    if near:
                        delays.append(after)
                        right += PLACE in near
                        break
            told = f"{100 * len(delays) / YEARS:.0f} %"
            place = f"{100 * right / len(delays):.0f} %" if delays else ""
            delay = f"{statistics.median(delays):g}" if delays else ""
            yield f"| {step:g} times | {changed} of 24 | {told} | {place} | {delay} |"


if __name__ == "__main__":
    for table in (alarms, year, power):
        print("\n".join(table(np.random.default_rng(7))), end="\n\n", flush=True)
