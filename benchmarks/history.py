# SPDX-License-Identifier: Apache-2.0
"""How often `tpcsweep history` is wrong, and how soon it is right, on made-up histories: python -m benchmarks.history.

A history is of so many runs of so many cells, which scatter by 3 % each by itself, and in some rows by as much again
all cells of a run together, as where the machine has another day; normally, or with the heavy tails of Student's t of
three degrees of freedom.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tpcsweep.history import LEAST, changes

HISTORIES = 500
YEARS = 60
WEEKS = 52
SCATTER = 0.03
STEPS = (0.95, 0.9, 0.8)
PLACE = 26
LATEST = 20
"""Runs after a change within which it is told, or not."""
KINDS = {
    "each cell by itself, normal": (False, False),
    "and all of a run together, normal": (True, False),
    "each cell by itself, heavy tails": (False, True),
    "and all of a run together, heavy tails": (True, True),
}


def noise(generator: np.random.Generator, runs: int, cells: int, kind: str) -> NDArray[np.float64]:
    """Logarithms of throughput where nothing changes, runs × cells."""
    together, heavy = KINDS[kind]

    def drawn(*shape: int) -> NDArray[np.float64]:
        return SCATTER * (generator.standard_t(3, shape) if heavy else generator.normal(size=shape))

    return drawn(runs, cells) + (drawn(runs, 1) if together else 0)


def alarms(generator: np.random.Generator) -> Iterator[str]:
    """The share of histories without a change in which one is found, at a single look."""
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
    """New changes told in a year of weekly looks where nothing changes: each look sees all runs until then."""
    yield "| scatter | cells | years with a false alarm | false alarms a year |"
    yield "|---|---|---|---|"
    for kind in KINDS:
        for cells in (1, 24):
            counts = [_told(noise(generator, WEEKS, cells, kind)) for _ in range(YEARS)]
            share = sum(map(bool, counts)) / YEARS
            yield f"| {kind} | {cells} | {100 * share:.0f} % | {statistics.mean(counts):.2f} |"


def _told(logs: NDArray[np.float64]) -> int:
    """How many changes are told as new, look by look."""
    told, before = 0, {}
    for runs in range(2 * LEAST, len(logs) + 1):
        now = changes(logs[:runs])
        told += sum(not any(abs(place - known) < LEAST for known in before) for place in now)
        before = now
    return told


def power(generator: np.random.Generator) -> Iterator[str]:
    """How often a change after half a year is told at its place, and how many runs after it that is."""
    yield "| throughput after it | cells that have it | told | of these at the right run | runs until then, median |"
    yield "|---|---|---|---|---|"
    kind = "and all of a run together, normal"
    for step in STEPS:
        for changed in (24, 4):
            delays, right = [], 0
            for _ in range(YEARS):
                logs = noise(generator, PLACE + LATEST, 24, kind)
                logs[PLACE:, :changed] += np.log(step)
                for after in range(LEAST, LATEST + 1):
                    near = [place for place in changes(logs[: PLACE + after]) if abs(place - PLACE) < LEAST]
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
