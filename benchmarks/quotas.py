# SPDX-License-Identifier: Apache-2.0
"""Smoothness of a small CPU quota by scheduling period, relative to the usual 100 ms.

    python -m benchmarks.quotas [ROUNDS]      as root, on a machine with nothing else to do; four minutes a round

One deployment (1+1 origins, curl, files of 16 MiB, a path of 1 Gbit/s and 2 ms) has no quota of its own; each cell sets
one for both origins. A round has every number of cores, number of streams, and period that the kernel accepts, in
random order. Each row has one number of cores and one period:

- ratio: throughput over that with 100 ms in the same round, with equal cores and streams; median and quartiles of all
  pairs
- spread: largest over smallest throughput over the numbers of streams in a round; median and range of rounds. A quota
  is the same CPU time for any number of streams, so values near 1 are best
- used: CPU time of the destination over its quota; above 1 is an excess that the kernel noticed late
- throttled: share of periods in which the destination's quota was spent
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tpcsweep.deploying.linux.cgroups import PERIOD, SHORTEST_QUOTA, Quota
from tpcsweep.deploying.xrootd.releases import RECOMMENDED
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

CORES = (0.025, 0.05)
STREAMS = (1, 4, 16)
PERIODS = (20_000, 50_000, PERIOD, 500_000)
CELL = Measurement(until="seconds", seconds=8)
FILE = 16 << 20
SEED = 1


class Cell(NamedTuple):
    round: int
    cores: float
    streams: int
    period: int
    """µs."""
    throughput: float | None
    """Gbit/s, mean over the whole cell, or None if it failed."""
    used: float
    """CPU of the destination over its quota."""
    throttled: float


def main(rounds: int) -> None:
    order = random.Random(SEED)
    cells = []
    with site_of(["curl"], max(STREAMS), rtt=2.0, bandwidth=1.0, xrootd=RECOMMENDED) as site:
        for number in range(rounds):
            for cell in measured(site, number, order):
                print(cell, file=sys.stderr, flush=True)
                cells.append(cell)
    print("| cores | period, ms | ratio | spread | used | throttled | failed |")
    print("|---|---|---|---|---|---|---|")
    for cores, period in settings():
        print(row(cores, period, cells))


def settings() -> list[tuple[float, int]]:
    """Return the cores and periods whose quota the kernel accepts."""
    return [
        (cores, period)
        for cores, period in itertools.product(CORES, PERIODS)
        if cores * period >= SHORTEST_QUOTA
    ]


def measured(site: NetnsSite, number: int, order: random.Random) -> Iterator[Cell]:
    chosen = list(itertools.product(settings(), STREAMS))
    order.shuffle(chosen)
    groups = [site.groups[name] for side in site.sides.values() for name in side.names]
    for (cores, period), streams in chosen:
        for group in groups:
            group.limit(Quota(round(cores * period), period))
        wanted = Parameters(tool="curl", streams=streams, file_size=FILE, cores=cores)
        found = measure(site, wanted, CELL, f"r{number}s{streams}c{cores}p{period}", lambda *_: None)
        for group in groups:
            group.limit(None)  # the rest of the work between cells is done soon
        summary = found.summary.figures
        yield Cell(
            number,
            cores,
            streams,
            period,
            summary["throughput_average"] if found.status == "ok" else None,
            (summary["destination_cpu"] or math.nan) / cores,
            summary["destination_throttled"] or 0.0,
        )


def row(cores: float, period: int, cells: list[Cell]) -> str:
    usual = {(cell.round, cell.streams): cell.throughput for cell in _of(cells, cores, PERIOD)}
    here = _of(cells, cores, period)
    ratios = [
        cell.throughput / beside
        for cell in here
        if cell.throughput and (beside := usual[cell.round, cell.streams])
    ]
    spreads = []
    # They are in the order of rounds.
    for _, of_round in itertools.groupby(here, key=lambda cell: cell.round):
        rates = [cell.throughput for cell in of_round if cell.throughput]
        if rates:
            spreads.append(max(rates) / min(rates))
    columns = [
        f"{cores:g}",
        f"{period / 1000:g}",
        _middle(ratios, quartiles=True),
        _middle(spreads),
        _middle([cell.used for cell in here]),
        _middle([cell.throttled for cell in here]),
        f"{sum(cell.throughput is None for cell in here)} of {len(here)}",
    ]
    return f"| {' | '.join(columns)} |"


def _of(cells: list[Cell], cores: float, period: int) -> list[Cell]:
    return [cell for cell in cells if (cell.cores, cell.period) == (cores, period)]


def _middle(values: list[float], *, quartiles: bool = False) -> str:
    """Return the median with quartiles, or with the range for few values."""
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return "–"
    low, high = min(values), max(values)
    if quartiles and len(values) > 2:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{statistics.median(values):.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
