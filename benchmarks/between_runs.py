# SPDX-License-Identifier: Apache-2.0
"""What `compare` and claims find in made-up runs whose truth is known: python -m benchmarks.between_runs [SEED].

Each trial of equals draws its own family by the seed: a grid of 24 to 48 cells, noise of 0.5 to 4 % that differs by
cell, intervals of 4 to 16 degrees of freedom that estimate it, and luck of each cell and deployment of together at most
2 % in each run. Prints two tables in about two minutes of one CPU; nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from tpcsweep.analysis.claims.claim import Outcome
from tpcsweep.data.differences import differences
from tpcsweep.data.run_effects import correct_family
from tpcsweep.data.scatter import Side, Spread

from tests.support.claim_worlds import NULLS, STREAMS, verdict, world

PAIRS, WORLDS = 120, 40
"""Trials of a row of comparisons, and of claims."""
GRIDS = ((6, 8), (4, 6), (8, 4))
"""Numbers of RTTs, each a deployment, and of streams."""
SHARED = (0.0, 0.005, 0.01, 0.02)
"""Luck that all cells of a run share."""

Floats = NDArray[np.float64]
Row = tuple[str, ...]


@dataclass(frozen=True)
class Family:
    noise: Floats  # of each cell, RTTs × streams
    freedom: float
    cell: float  # luck of a cell in a run
    deployment: float  # luck of a deployment in a run

    def side(
        self,
        generator: np.random.Generator,
        runs: int,
        shared: float,
        repetitions: int = 1,
        effect: object = 1.0,
    ) -> Side:
        """Return a side; each run has some repetitions of every cell."""
        rtts, streams = self.noise.shape
        noise, shape = self.noise.ravel(), (repetitions, runs, rtts * streams)
        luck = self.cell * generator.normal(size=shape[1:]) + shared * generator.normal(size=(runs, 1))
        luck += np.repeat(self.deployment * generator.normal(size=(runs, rtts)), streams, axis=1)
        logs = noise * generator.normal(size=shape) + luck + np.log(np.ravel(np.asarray(effect, float)))
        freedom = np.full(shape[2], float(runs * (repetitions - 1)))
        squares = ((logs - logs.mean(axis=0)) ** 2).sum(axis=(0, 1))
        stated = noise**2 * generator.chisquare(self.freedom, shape).mean(axis=(0, 1)) / self.freedom
        return Side(
            logs.mean(axis=0),
            np.full(shape[1:], float(repetitions)),
            Spread(squares / np.maximum(freedom, 1), freedom),
            Spread(stated, np.full(shape[2], self.freedom)),
        )

    def compare(self, base: Side, new: Side) -> tuple[bool, bool, NDArray[np.bool_], bool]:
        """Return whether sides differ overall, in a value, in each cell, and whether the overall interval holds 1.

        As `analysis.comparison.compare` does, without its tables.
        """
        rtts, streams = self.noise.shape
        found = differences(base, new, np.repeat(np.arange(rtts), streams))
        places = np.arange(rtts * streams).reshape(rtts, streams)
        overall, *parts = (found.mean(which) for which in (places.ravel(), *places, *places.T))
        means = np.array([(mean.effect, mean.error, mean.freedom) for mean in (overall, *parts)]).T
        variance, freedom = found.cells
        effects = np.concatenate([means[0], found.effect])
        errors, freedoms = np.concatenate([means[1], np.sqrt(variance)]), np.concatenate([means[2], freedom])
        p = 2 * stats.t.sf(np.abs(effects) / errors, freedoms)
        count = 1 + len(parts)
        whole, values, cells = correct_family(p[0], p[1:count], p[count:], places.size)
        return (
            bool(whole[0] < 0.05),
            bool((values < 0.05).any()),
            cells < 0.05,
            bool(p[0] >= 0.05),
        )


EVEN = Family(np.full((6, 8), 0.02), 8.0, 0.02, 0.0)


def draw_family(generator: np.random.Generator) -> Family:
    shape = GRIDS[generator.integers(len(GRIDS))]
    noise = np.exp(generator.uniform(np.log(0.005), np.log(0.04)))
    noise = noise * np.exp(generator.uniform(0, 0.7) * generator.normal(size=shape))
    luck, share = generator.uniform(0, 0.02), generator.uniform()
    freedom = float(generator.choice([4, 8, 16]))
    return Family(noise, freedom, luck * np.sqrt(1 - share), luck * np.sqrt(share))


def percent(values: object) -> str:
    return f"{100 * np.mean(values):.0f} %"


def equals(seed: Sequence[int], shared: float, runs: int, repetitions: int = 1) -> Row:
    """Return how often equals are called different in anything, and how often the overall interval holds 1."""
    generator, different, covered = np.random.default_rng(seed), [], []
    for _ in range(PAIRS):
        family = draw_family(generator)
        sides = (family.side(generator, runs, shared, repetitions) for _ in range(2))
        overall, value, cells, holds = family.compare(*sides)
        different.append(overall or value or cells.any())
        covered.append(holds)
    return percent(different), percent(covered)


def overall_power(seed: Sequence[int], runs: int) -> str:
    """Return how often a difference of 5 % is found overall."""
    generator, called = np.random.default_rng(seed), []
    for _ in range(PAIRS):
        family = draw_family(generator)
        new = family.side(generator, runs, 0.01, effect=np.full(family.noise.shape, 0.95))
        called.append(family.compare(family.side(generator, runs, 0.01), new)[0])
    return percent(called)


def cell_power(seed: Sequence[int], runs: int) -> Row:
    """Return how often any, and each, of six cells that are 10 % slower is named, and the equal share of named cells.

    The other 42 cells are equal; all have noise and luck of 2 %.
    """
    generator, named, wrong = np.random.default_rng(seed), [], []
    for _ in range(PAIRS):
        effect = np.ones(48)
        slow = generator.choice(48, 6, replace=False)
        effect[slow] = 0.9
        new = EVEN.side(generator, runs, 0.005, effect=effect)
        called = EVEN.compare(EVEN.side(generator, runs, 0.005), new)[2]
        named.append(called[slow])
        wrong.append(1 - called[slow].sum() / max(called.sum(), 1) if called.any() else 0.0)
    return percent(np.any(named, axis=1)), percent(named), percent(wrong)


def comparisons(seed: int) -> Iterator[Row]:
    each = (1, 2, 3)
    for shared in SHARED:
        found = [equals([seed, runs, round(1000 * shared)], shared, runs) for runs in each]
        name = f"equals, {100 * shared:g} % shared: "
        yield name + "called different", *(different for different, _ in found)
        yield name + "overall interval holds 1", *(covered for _, covered in found)
    yield (
        "equals, 1 % shared, three repetitions in each run",
        *(equals([seed, runs], 0.01, runs, 3)[0] for runs in each),
    )
    yield "5 % everywhere, 1 % shared: found overall", *(overall_power([seed, runs], runs) for runs in each)
    cells = [cell_power([seed, runs], runs) for runs in each]
    rows = ("any found", "each found", "equal ones among the named")
    for name, figures in zip(rows, zip(*cells, strict=True), strict=True):
        yield f"10 % in 6 of 48 cells, 0.5 % shared: {name}", *figures


FLAT = {
    "chep2023.streams_peak": NULLS["chep2023.streams_peak"],
    "chep2024.small_rtt_peak": {**STREAMS, "rtt": [2.0, 100.0], "origins": [1, 2]},
    "chep2023.origins_help": {"origins": [1, 2], "streams": [1, 2, 4, 8], "rtt": [5.0]},
}
"""Axes of claims that need an effect, which these data lack."""


def flat(axes: dict[str, list[float]], cell: float, deployment: float, seed: Sequence[int]) -> xr.Dataset:
    """Return cells without an effect, with noise of 1.5 % that their intervals know, and luck that they do not."""
    generator = np.random.default_rng(seed)
    noise = float(np.hypot(0.015, cell))
    data = world(axes, 1.0, noise, int(generator.integers(2**31)), stated=0.015).assign_attrs(repeat="cells")
    places = [axis for axis in ("origins", "cores", "rtt") if axis in data.dims]
    luck = np.exp(deployment * generator.normal(size=[data.sizes[axis] for axis in places]))
    figures = ("throughput", "throughput_low", "throughput_high")
    return data.assign({name: data[name] * xr.DataArray(luck, dims=places) for name in figures})


def claims(seed: int) -> Iterator[Row]:
    """Yield how often a claim holds on flat data, by the luck of cells and of deployments."""
    for name, axes in FLAT.items():
        shares = [
            percent(
                [verdict(name, flat(axes, *luck, [seed, n])).outcome is Outcome.HOLDS for n in range(WORLDS)]
            )
            for luck in ((0.03, 0.0), (0.05, 0.0), (0.0, 0.05))
        ]
        yield f"`{name}`", *shares


def table(heads: Row, rows: Iterator[Row]) -> None:
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    table(("comparisons", "1 run a side", "2 runs", "3 runs"), comparisons(seed))
    table(("claim on flat data holds", "3 % a cell", "5 % a cell", "5 % a deployment"), claims(seed))


if __name__ == "__main__":
    main()
