# SPDX-License-Identifier: Apache-2.0
"""False alarms and delays of `tpcsweep history` on synthetic histories: python -m benchmarks.history [SEED].

In a history, 24 cells scatter by 3 % from run to run, each by itself. In some rows all cells of a run scatter together
by as much again, as if the machine's speed varied, also so that neighbouring weeks resemble each other (AR(1)). In
others 5 % of cells are slower by 10 to 40 %, or 5 % of runs by 10 to 30 %, or the scatter has the heavy tails of
Student's t with three degrees of freedom. Needs some minutes of one CPU.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from tpcsweep.analysis.history.change_points import FEWEST_RUNS_BETWEEN, changes

YEARS = 48
WEEKS = 52
CELLS = 24
SCATTER = 0.03
PLACE = 26
LATEST = 15
"""Runs after a change within which it counts as found."""
SHARED = {"common, normal": 0.0, "common, AR(1) of 0.3": 0.3, "common, AR(1) of 0.6": 0.6}
"""Correlation of neighbouring weeks in kinds of scatter that all cells share."""
KINDS = ("own, normal", *SHARED, "5 % of cells slow", "5 % of runs slow", "heavy tails")


def noise(generator: np.random.Generator, runs: int, kind: str) -> NDArray[np.float64]:
    """Return logarithms of throughput without changes, runs × cells."""
    shape = (runs, CELLS)
    logs = SCATTER * (
        generator.standard_t(3, shape) if kind == "heavy tails" else generator.normal(size=shape)
    )
    if kind in SHARED:
        correlation = SHARED[kind]
        white = SCATTER * np.sqrt(1 - correlation**2) * generator.normal(size=runs + 50)
        logs += lfilter([1], [1, -correlation], white)[50:, None]
    if kind == "5 % of cells slow":
        logs += np.log(np.where(generator.random(shape) < 0.05, 1 - generator.uniform(0.1, 0.4, shape), 1))
    if kind == "5 % of runs slow":
        slow = generator.random((runs, 1)) < 0.05
        logs += np.log(np.where(slow, 1 - generator.uniform(0.1, 0.3, (runs, 1)), 1))
    return logs


def year(seed: int) -> Iterator[str]:
    """Yield the changes reported in a year of weekly looks at all runs so far, without any change."""
    yield "| scatter | years with a false alarm | false alarms a year |"
    yield "|---|---|---|"
    for number, kind in enumerate(KINDS):
        generator = np.random.default_rng([seed, number])
        counts = [_told(noise(generator, WEEKS, kind)) for _ in range(YEARS)]
        share = sum(map(bool, counts)) / YEARS
        yield f"| {kind} | {100 * share:.0f} % | {statistics.mean(counts):.2f} |"


def _told(logs: NDArray[np.float64]) -> int:
    """Return the number of changes reported as new in all looks."""
    told, before = 0, {}
    for runs in range(2 * FEWEST_RUNS_BETWEEN, len(logs) + 1):
        now = changes(logs[:runs])
        told += sum(not any(abs(place - known) < FEWEST_RUNS_BETWEEN for known in before) for place in now)
        before = now
    return told


def power(seed: int) -> Iterator[str]:
    """Yield how often a fall to 0.9 after half a year is reported at its place, and after how many runs."""
    yield "| scatter | cells that fall | found | runs until then, median |"
    yield "|---|---|---|---|"
    for number, kind in enumerate(("own, normal", *SHARED)):
        for changed in (CELLS, 4):
            generator, delays = np.random.default_rng([seed, number, changed]), []
            for _ in range(YEARS):
                logs = noise(generator, PLACE + LATEST, kind)
                logs[PLACE:, :changed] += np.log(0.9)
                for after in range(FEWEST_RUNS_BETWEEN, LATEST + 1):
                    found = changes(logs[: PLACE + after])
                    if any(abs(place - PLACE) < FEWEST_RUNS_BETWEEN for place in found):
                        delays.append(after)
                        break
            delay = f"{statistics.median(delays):g}" if delays else ""
            yield f"| {kind} | {changed} of {CELLS} | {100 * len(delays) / YEARS:.0f} % | {delay} |"


if __name__ == "__main__":
    for table in (year, power):
        for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 7):
            print(line, flush=True)
        print()
