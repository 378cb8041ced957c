# SPDX-License-Identifier: Apache-2.0
"""How often plans suffice and how often they answer: on hidden laws, and on datasets with cells left out.

python -m benchmarks.plans [SEEDS] [FILE.nc …]

Prints one table: for each probability the number of questions, the share of them with an answer, the share of answers
that suffice, and the share of questions with an answer that needs at most 25 % more cores than the cheapest sufficient
setting. The last two columns have that share for

- the planner's predictions with the margin that is best for these very questions: its scatter is multiplied by the
  factor with the largest share among those with which the stated share of answers suffices ("-": none);
- someone who knows more: the form of a law, whose constants the same cells tell; or the throughput of left-out cells
  but for the luck of one measurement.

Needs some minutes of one CPU for each seed; nothing is measured.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize, stats
from threadpoolctl import threadpool_limits
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.plans.anchored import Anchored

from tests.support.plans import (
    LARGE,
    LAWS,
    SMALL,
    Axes,
    Choice,
    Floats,
    Luck,
    judged,
    made_up,
    on_law,
    on_left_out,
)

ROOT = Path(__file__).resolve().parents[1]
FIRST = 10  # first seed; tests have 0, 1 and 5


FACTORS = tuple(np.linspace(0, 1.5, 16).round(1))
KNOWS = "knows more"
UNKNOWN = 0.7  # standard deviation of the logarithm of a law's constant before any cell is measured
STEPS = 3000  # of the walk over a law's constants


def margins(
    model: Anchored, _cells: Observations, grid: pd.DataFrame, _truth: Floats
) -> Mapping[str, Choice]:
    """Return the planner's choices with its scatter times each factor."""
    at = model.outlook(grid)
    width, most = np.hypot(at.doubt, at.single), float(model.domain.fixed.get("bandwidth", np.inf))

    def choice(factor: float, sure: float, targets: object) -> list[Floats]:
        assured = np.exp(at.middle + factor * stats.t.ppf(1 - sure, at.freedom) * width)
        return [np.minimum(assured, most) >= target for target in targets]

    return {f"margin {factor}": partial(choice, factor) for factor in FACTORS}


def knows_form(
    law: str, _model: Anchored, cells: Observations, grid: pd.DataFrame, _truth: Floats
) -> Mapping[str, Choice]:
    """Return the choice of someone who knows a law but for its constants, which the cells tell.

    The constants are drawn from their distribution after the cells, stalls included, by a random walk (Metropolis).
    """
    rule, luck, generator = LAWS[law], Luck(), np.random.default_rng(0)
    true, single = np.log(rule.__defaults__[0]), float(np.hypot(luck.noise, luck.run))  # type: ignore[attr-defined]
    points = {name: cells.frame[name].to_numpy(float) for name in LARGE}
    measured = cells.frame["throughput"].to_numpy(float)

    def off(logs: Floats) -> Floats:
        return np.asarray(np.log(measured / rule(points, np.exp(logs))))

    def likely(logs: Floats) -> float:
        ratio = off(logs)
        usual = np.exp(-((ratio / single) ** 2) / 2) / (single * np.sqrt(2 * np.pi))
        stalled = np.where((ratio > np.log(0.1)) & (ratio < np.log(0.7)), np.exp(ratio) / 0.6, 1e-9)
        cell = np.log((1 - luck.stalls) * usual + luck.stalls * stalled)
        return float(cell.sum() - (((logs - true) / UNKNOWN) ** 2).sum() / 2)

    def errors(logs: Floats) -> Floats:
        return np.append(off(logs) / single, (logs - true) / UNKNOWN)

    jacobian = optimize.least_squares(errors, true, loss="soft_l1").jac
    step = np.linalg.cholesky(np.linalg.inv(jacobian.T @ jacobian)) * 2.4 / np.sqrt(len(true))
    at, level, drawn = true, likely(true), []
    for _ in range(STEPS):
        proposed = at + step @ generator.standard_normal(len(true))
        if np.log(generator.random()) < (new := likely(proposed)) - level:
            at, level = proposed, new
        drawn.append(at)
    rates = [np.asarray(rule(grid, np.exp(logs)), float) for logs in drawn[STEPS // 5 :: STEPS // 300]]

    def choice(sure: float, targets: object) -> list[Floats]:
        return [np.mean([luck.chance(one, target) for one in rates], axis=0) >= sure for target in targets]

    return {KNOWS: choice}


def knows_means(
    _model: Anchored, _cells: Observations, _grid: pd.DataFrame, measured: Floats
) -> Mapping[str, Choice]:
    """Return the choice of someone who knows the throughput of left-out cells but for the luck of a measurement."""
    luck = Luck(stalls=0)
    means = luck.measured(measured, np.random.default_rng(0))
    return {KNOWS: lambda sure, targets: [luck.chance(means, target) >= sure for target in targets]}


def tables(pool: Executor, seeds: range, files: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    for name, axes in (("24 cells", SMALL), ("216 cells", LARGE)):
        rows = pool.map(partial(of_law, axes), *zip(*itertools.product(LAWS, seeds), strict=True))
        for where, some in judged(pd.concat(rows, ignore_index=True)).groupby("where", sort=False):
            yield f"laws, {name}, RTT {where}", some
    made = [made_up("windows and cores", SMALL, Luck(), seed) for seed in seeds]
    named = {"a law, 24 cells": made}
    for file in [str(ROOT / "studies/equation/nine_sizes.nc"), *files]:
        named[Path(file).name] = [xr.load_dataset(file)] * len(seeds)
    for name, datasets in named.items():
        rows = pool.map(of_left_out, datasets, seeds)
        yield f"{name}, a quarter left out", judged(pd.concat(rows, ignore_index=True))


def of_law(axes: Axes, law: str, seed: int) -> pd.DataFrame:
    with threadpool_limits(1):
        return pd.DataFrame(on_law(law, axes, Luck(), seed, rivals=(margins, partial(knows_form, law))))


def of_left_out(ds: xr.Dataset, seed: int) -> pd.DataFrame:
    with threadpool_limits(1):
        return pd.DataFrame(on_left_out(ds, seed, rivals=(margins, knows_means)))


def best_margin(rows: pd.DataFrame, stated: float) -> str:
    """Return the largest share of cheap answers among the factors with which the stated share suffices."""
    some = rows[rows["by"].str.startswith("margin")].groupby("by")
    shares = [cheap(one) for _, one in some if one["sufficient"].mean() >= stated]
    return percent(max(shares)) if shares else "-"


def cheap(rows: pd.DataFrame) -> float:
    return float(rows["cheap"].fillna(0).mean())


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def main() -> None:
    seeds = range(FIRST, FIRST + (int(sys.argv[1]) if len(sys.argv) > 1 else 3))
    columns = ["data", "stated", "questions", "answered", "sufficient", "answered, at most 25 % more cores"]
    columns += ["best margin", KNOWS]
    print(f"| {' | '.join(columns)} |")
    print(f"|{len(columns) * '---|'}")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, rows in tables(pool, seeds, sys.argv[2:]):
            for stated, some in rows.groupby("stated"):
                planned, known = (some[some["by"] == by] for by in ("planner", KNOWS))
                shares = (planned["answered"].mean(), planned["sufficient"].mean(), cheap(planned))
                shown = [percent(stated), str(len(planned)), *map(percent, shares), best_margin(some, stated)]
                print(f"| {name} | {' | '.join(shown)} | {percent(cheap(known))} |", flush=True)


if __name__ == "__main__":
    main()
