# SPDX-License-Identifier: Apache-2.0
"""What `compare` and claims find in made-up runs whose truth is known: python -m benchmarks.between_runs [SEED].

Each trial draws its own family by the seed: a grid of 24 to 48 cells, noise of 0.5 to 4 % with intervals of 4 to 16
degrees of freedom that estimate it, cells that differ in their noise, and luck of each cell and deployment of together
at most 2 % in each run. Prints two tables in about four minutes of one CPU; nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from tpcsweep.analysis.claims.claim import Outcome
from tpcsweep.analysis.comparison import Comparison, compare
from tpcsweep.data.labels import MASKS, about_flags
from tpcsweep.data.run_effects import FASTER, NOT_COMPARABLE, SAME, SLOWER

from tests.support.claim_worlds import NULLS, STREAMS, verdict, world

PAIRS = 40
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
    ) -> xr.Dataset:
        """Return a side; each run has some repetitions of every cell."""
        shape = (*self.noise.shape, runs, repetitions)
        normal = generator.normal
        luck = self.cell * normal(size=(*shape[:3], 1)) + self.deployment * normal(
            size=(shape[0], 1, runs, 1)
        )
        luck = (
            luck + shared * normal(size=(1, 1, runs, 1)) + np.log(np.asarray(effect, float))[..., None, None]
        )
        noise = self.noise[..., None, None]
        rates = np.exp(luck + noise * normal(size=shape))
        stated = noise * np.sqrt(generator.chisquare(self.freedom, shape) / self.freedom)
        half = stats.t.ppf(0.975, self.freedom) * stated * rates
        numbers = np.broadcast_to(np.arange(runs, dtype=float)[:, None], shape)
        figures = {"throughput": rates, "throughput_low": rates - half, "throughput_high": rates + half}
        figures |= {"throughput_freedom": np.full(shape, self.freedom), "run": numbers}
        rtts, streams, count = shape[0], shape[1], runs * repetitions
        dims = ("rtt", "streams", "repetition")
        content = {name: (dims, values.reshape(rtts, streams, count)) for name, values in figures.items()}
        flags = (dims, np.zeros((rtts, streams, count), np.int32), about_flags())
        axes = {
            "rtt": 10.0 * np.arange(rtts),
            "streams": np.arange(1, streams + 1),
            "repetition": np.arange(count),
        }
        return xr.Dataset({**content, "flags": flags}, axes, {"measurement_confidence": 0.95})


def draw_family(generator: np.random.Generator) -> Family:
    shape = GRIDS[generator.integers(len(GRIDS))]
    noise = np.exp(generator.uniform(np.log(0.005), np.log(0.04)))
    noise = noise * np.exp(generator.uniform(0, 0.7) * generator.normal(size=shape))
    luck, share = generator.uniform(0, 0.02), generator.uniform()
    freedom = float(generator.choice([4, 8, 16]))
    return Family(noise, freedom, luck * np.sqrt(1 - share), luck * np.sqrt(share))


def called_different(found: Comparison) -> bool:
    verdicts = {found.overall.verdict, *found.parts["verdict"], *found.cells["verdict"]}
    return not verdicts <= {SAME, NOT_COMPARABLE}


def percent(values: object) -> str:
    return f"{100 * np.mean(values):.0f} %"


def equals(seed: int, shared: float, runs: int, repetitions: int = 1, disturbed: float = 0.0) -> Row:
    """Return the share of comparisons of equals that call anything different, and of overall intervals with 1.

    A share of the new side's cells may be disturbed: 10 to 50 % slower, with the flag.
    """
    generator, different, covered = np.random.default_rng([seed, 1]), [], []
    for _ in range(PAIRS):
        family = draw_family(generator)
        base, new = (family.side(generator, runs, shared, repetitions) for _ in range(2))
        hit = xr.DataArray(generator.random(new["flags"].shape) < disturbed, dims=new["flags"].dims)
        slower = xr.where(hit, generator.uniform(0.5, 0.9, hit.shape), 1.0)
        for name in ("throughput", "throughput_low", "throughput_high"):
            new[name] = new[name] * slower
        new["flags"].values |= (hit.values * MASKS["disturbed"]).astype(np.int32)
        found = compare(base, new)
        different.append(called_different(found))
        covered.append(found.overall.low <= 1 <= found.overall.high)
    return percent(different), percent(covered)


def overall_power(seed: int, shared: float, runs: int) -> Row:
    """Return the share of comparisons that call sides different overall which differ by 5 %."""
    generator, called = np.random.default_rng([seed, 2]), []
    for _ in range(PAIRS):
        family = draw_family(generator)
        effect = np.full(family.noise.shape, 0.95)
        sides = family.side(generator, runs, shared), family.side(generator, runs, shared, effect=effect)
        called.append(compare(*sides).overall.verdict == SLOWER)
    return percent(called), ""


def cell_power(seed: int, shared: float, runs: int) -> Row:
    """Return how often any, and each, of six cells that are 10 % slower is named, of 48 with noise and luck of 2 %."""
    generator, named = np.random.default_rng([seed, 3]), []
    family = Family(np.full((6, 8), 0.02), 8.0, 0.02, 0.0)
    for _ in range(PAIRS):
        effect = np.ones(48)
        slow = generator.choice(48, 6, replace=False)
        effect[slow] = 0.9
        new = family.side(generator, runs, shared, effect=effect.reshape(6, 8))
        cells = compare(family.side(generator, runs, shared), new).cells
        named.append(cells["verdict"].isin([SLOWER, FASTER]).to_numpy()[slow])
    return percent(np.any(named, axis=1)), percent(named)


def comparisons(seed: int) -> Iterator[Row]:
    for shared in SHARED:
        for runs in (1, 2, 3):
            yield f"equals, luck of {100 * shared:g} % shared, {runs} a side", *equals(seed, shared, runs)
    yield "equals, luck of 1 % shared, three repetitions in one run", *equals(seed, 0.01, 1, 3)
    for runs in (1, 3):
        name = f"equals, 5 % of new's cells disturbed, {runs} a side"
        yield name, *equals(seed, 0.005, runs, disturbed=0.05)
    for runs in (1, 2, 3):
        yield f"5 % overall, luck of 1 % shared, {runs} a side: overall", *overall_power(seed, 0.01, runs)
    for runs in (1, 2, 3):
        yield f"10 % in 6 of 48 cells, 0.5 % shared, {runs} a side: any, each", *cell_power(seed, 0.005, runs)


FLAT = {
    "chep2023.streams_peak": NULLS["chep2023.streams_peak"],
    "chep2024.small_rtt_peak": {**STREAMS, "rtt": [2.0, 100.0], "origins": [1, 2]},
    "chep2023.origins_help": {"origins": [1, 2], "streams": [1, 2, 4, 8], "rtt": [5.0]},
    "chep2024.origins_help": {"origins": [1, 2], "streams": [1, 4], "rtt": [5.0, 20.0, 50.0]},
}
"""Axes of claims that need an effect, which these data lack."""


def claims(seed: int) -> Iterator[Row]:
    """Yield how often a claim holds on flat data with noise of 1.5 %, by the luck of cells and of deployments."""
    for name, axes in FLAT.items():
        shares = []
        for cell, deployment in ((0.02, 0.0), (0.03, 0.0), (0.05, 0.0), (0.0, 0.02), (0.0, 0.05)):
            held = []
            for trial in range(PAIRS):
                generator = np.random.default_rng([seed, 4, trial])
                noise = float(np.hypot(0.015, cell))
                data = world(axes, 1.0, noise, int(generator.integers(2**31)), stated=0.015).assign_attrs(
                    repeat="cells"
                )
                luck = 1.0
                for axis in ("origins", "cores", "rtt"):
                    if axis in data.dims:
                        luck = luck * xr.ones_like(data[axis], float)
                if deployment:
                    luck = luck.copy(data=np.exp(deployment * generator.normal(size=luck.shape)))
                for figure in ("throughput", "throughput_low", "throughput_high"):
                    data[figure] = data[figure] * luck
                held.append(verdict(name, data).outcome is Outcome.HOLDS)
            shares.append(percent(held))
        yield f"`{name}`", *shares


def table(heads: Row, rows: Iterator[Row]) -> None:
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    table(("comparisons", "called different", "overall interval holds 1"), comparisons(seed))
    lucks = (*(f"{luck} % a cell" for luck in (2, 3, 5)), *(f"{luck} % a deployment" for luck in (2, 5)))
    table(("claim on flat data holds", *lucks), claims(seed))


if __name__ == "__main__":
    main()
