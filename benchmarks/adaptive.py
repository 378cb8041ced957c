# SPDX-License-Identifier: Apache-2.0
"""Prediction of a grid from part of its cells: adaptive choice against random cells and a coarse grid.

python -m benchmarks.adaptive [DATASET]

Uses a fully measured dataset, and reveals to the choice only the cells that it requests. Errors are those of the hidden
cells, and of all cells, as shares of the surface's range. Nothing is measured.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from tpcsweep.models import MODELS, fit, fit_process, observe
from tpcsweep.planning.choice import (
    Costs,
    Space,
    believe,
    first_points,
    next_points,
    round_size,
    surface_error,
)

SHARES = (0.15, 0.25, 0.35, 0.5)
SEEDS = range(5)
COSTS = Costs(deployment=6.0, point=10.0)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """Measured grid, as rows."""

    dataset: xr.Dataset
    space: Space
    throughput: NDArray[np.float64]
    """Mean over the repetitions of each point, Gbit/s."""

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Grid:
        mean = dataset["throughput"].mean("repetition")
        axes = [str(name) for name in mean.dims if mean.sizes[name] > 1]
        frame = mean.squeeze(drop=True).transpose(*axes).to_dataframe("throughput").reset_index().dropna()
        return cls(dataset, Space(frame[axes].reset_index(drop=True)), frame["throughput"].to_numpy())

    def shown(self, measured: Mask) -> xr.Dataset:
        """Return the dataset as if only these points had been measured."""
        rows = self.space.points.assign(measured=measured).set_index(list(self.space.points))
        mask = rows.to_xarray()["measured"].fillna(False).astype(bool)
        return self.dataset.assign(throughput=self.dataset["throughput"].where(mask))

    def errors(self, measured: Mask, predicted: NDArray[np.float64]) -> tuple[float, float, float]:
        """Return RMSE and largest error of hidden points, and RMSE of all points, over the range."""
        off = np.where(measured, 0.0, predicted - self.throughput) / np.ptp(self.throughput)
        hidden = off[~measured]
        return tuple(
            float(x) for x in (np.sqrt(np.mean(hidden**2)), np.abs(hidden).max(), np.sqrt(np.mean(off**2)))
        )

    def seconds(self, measured: Mask) -> float:
        """Return the seconds to measure these points in one run."""
        return COSTS.deployment * len(set(self.space.deployment[measured])) + COSTS.point * measured.sum()


def main(path: str = "results/demo/dataset.nc") -> None:
    grid = Grid.of(xr.load_dataset(path))
    deployments = len(set(grid.space.deployment))
    print(f"{path}: {len(grid.space)} points in {deployments} deployments\n")
    print(
        "| cells by | predicted by | share | deployments | time | RMSE | largest | RMSE of all | estimated |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    adaptive = list(replay(grid))
    for at in dict.fromkeys(places(adaptive)):
        mask, estimate = adaptive[at]
        show(grid, "adaptive", [mask], estimate)
        count = int(mask.sum())
        show(grid, f"random cells, {len(SEEDS)} seeds", [scattered(grid, count, seed) for seed in SEEDS])
        show(grid, f"random deployments, {len(SEEDS)} seeds", [whole(grid, count, seed) for seed in SEEDS])
        show(grid, "coarse grid", [coarse(grid, count)])


def places(adaptive: list[tuple[Mask, float]]) -> Iterable[int]:
    """Yield the index of the first round at each share, or of the last round."""
    for share in SHARES:
        yield next((at for at, (mask, _) in enumerate(adaptive) if mask.mean() >= share), len(adaptive) - 1)


def show(grid: Grid, by: str, masks: Iterable[Mask], estimate: float | None = None) -> None:
    """Print a row for each predictor, with means over the masks."""
    masks = list(masks)
    share = np.mean([mask.mean() for mask in masks])
    used = np.mean([len(set(grid.space.deployment[mask])) for mask in masks])
    whole_grid = grid.seconds(np.ones(len(grid.space), bool))
    seconds = np.mean([grid.seconds(mask) for mask in masks]) / whole_grid
    for name, predict in PREDICTORS.items():
        errors = np.mean([grid.errors(mask, predict(grid, mask)) for mask in masks], axis=0)
        said = f"{estimate:.1%}" if estimate is not None and name == "process" else ""
        shown = " | ".join(f"{one:.1%}" for one in errors)
        print(f"| {by} | {name} | {share:.0%} | {used:.0f} | {seconds:.0%} | {shown} | {said} |", flush=True)


def replay(grid: Grid) -> Iterable[tuple[Mask, float]]:
    """Yield the requested points after each round, with the estimated error."""
    measured = np.zeros(len(grid.space), bool)
    measured[first_points(grid.space)] = True
    surprise: list[float] = []
    while True:
        belief = believe(fit_process(observe(grid.shown(measured))), grid.space, surprise)
        estimate, _ = surface_error(belief, measured, np.where(measured, grid.throughput, np.nan))
        yield measured.copy(), estimate
        if measured.mean() >= max(SHARES):
            return
        chosen = next_points(grid.space, belief, ~measured, COSTS, round_size(len(grid.space)))
        surprise += belief.standardized_errors(chosen, grid.throughput)
        measured[chosen] = True


def scattered(grid: Grid, count: int, seed: int) -> Mask:
    chosen = np.zeros(len(grid.space), bool)
    chosen[np.random.default_rng(seed).permutation(len(chosen))[:count]] = True
    return chosen


def whole(grid: Grid, count: int, seed: int) -> Mask:
    """Return random whole deployments with at least `count` points."""
    deployment = grid.space.deployment
    order = np.random.default_rng(seed).permutation(deployment.max() + 1)
    sizes = np.cumsum(np.bincount(deployment)[order])
    return np.isin(deployment, order[: int(np.searchsorted(sizes, count)) + 1])


def coarse(grid: Grid, count: int) -> Mask:
    """Return evenly spread values of each axis, with a number of points nearest to `count`."""
    levels = grid.space.levels
    sizes = levels.max(axis=0) + 1
    options = itertools.product(*(range(2, size + 1) for size in sizes))
    best = min(options, key=lambda option: (abs(np.prod(option) - count), np.ptp(np.array(option) / sizes)))
    kept = [np.rint(np.linspace(0, size - 1, few)).astype(int) for size, few in zip(sizes, best, strict=True)]
    return np.all([np.isin(levels[:, at], one) for at, one in enumerate(kept)], axis=0)


def by_process(grid: Grid, measured: Mask) -> NDArray[np.float64]:
    return fit_process(observe(grid.shown(measured))).estimate(grid.space.points)


def by_model(grid: Grid, measured: Mask) -> NDArray[np.float64]:
    """Predict by the fitted model of all limits."""
    return fit(MODELS["combined"], observe(grid.shown(measured)), resamples=0).estimate(grid.space.points)


PREDICTORS: dict[str, Callable[[Grid, Mask], NDArray[np.float64]]] = {
    "process": by_process,
    "combined": by_model,
}

if __name__ == "__main__":
    began = time.monotonic()
    main(*sys.argv[1:])
    print(f"\n{time.monotonic() - began:.0f} s")
