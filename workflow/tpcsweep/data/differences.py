# SPDX-License-Identifier: Apache-2.0
"""Differences of two sides' cells, with their scatter within and between runs, by an analysis of variance.

Sources, in addition to those of `data.scatter`: R. DerSimonian, N. Laird, Controlled Clinical Trials 7, 1986,
J. Hartung, G. Knapp, Statistics in Medicine 20, 2001, and K. Sidik, J. N. Jonkman, Computational Statistics & Data
Analysis 50, 2006 (mean effects); K.-Y. Liang, S. L. Zeger, Biometrika 73, 1986 (clusters).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import special

from tpcsweep.data.scatter import (
    RUN_TO_RUN,
    SHARED,
    SHARED_FREEDOM,
    Floats,
    Side,
    Spread,
    interval_noise,
    moderated,
    total,
)
from tpcsweep.sweeps.parameters import CELL

FEWEST_CLUSTERS = 3
"""Fewest deployments whose scatter tells how deployments differ."""


def moderated_together(found: Spread, expected: Floats) -> Spread:
    """Return moderated variances of cells, with a prior that is estimated from all of them (Smyth, section 6.2).

    Args:
        found: Variances of two or more cells, and their degrees of freedom.
        expected: Variances that follow from the cells' intervals. The prior is proportional to them, or equal for all
            cells if that fits better, or if some are unknown.
    """
    priors = [_prior(found, each) for each in (expected, np.ones_like(expected)) if np.all(each > 0)]
    best = max(priors, key=lambda prior: float(prior.freedom))  # the former if equal
    variance, freedom = moderated(found, best)
    return Spread(variance, np.minimum(freedom, np.sum(found.freedom)))


def _prior(found: Spread, shape: Floats) -> Spread:
    half = np.asarray(found.freedom) / 2
    ratio = found.variance / shape
    ratio = np.maximum(ratio, 1e-5 * np.median(ratio))  # repetitions may be equal by rounding
    logs = np.log(ratio) - special.digamma(half) + np.log(half)
    # Cells that look equal by chance are not: half a standard error of the variance counts as their difference.
    spread = float(np.var(logs, ddof=1)) * (1 + np.sqrt(0.5 / (len(logs) - 1)))
    excess = spread - float(special.polygamma(1, half).mean())
    middle = float(logs.mean())
    if excess <= 0:
        return Spread(np.exp(middle) * shape, np.inf)
    half_freedom = _inverse_trigamma(excess)
    return Spread(
        np.exp(middle + special.digamma(half_freedom) - np.log(half_freedom)) * shape, 2 * half_freedom
    )


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value by Newton's method, from above (Smyth, appendix)."""
    found, step = 0.5 + 1 / value, np.inf
    while abs(step) > 1e-9 * found:
        trigamma = float(special.polygamma(1, found))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, found))
        found += step
    return found


class Runs(NamedTuple):
    """Analysis of variance of a side's cells and runs."""

    squares: Floats  # by cell, about the means of cells and runs
    freedom: Floats
    run_squares: float  # of the runs' means, each weighted by its number of cells
    run_freedom: int
    size: float  # typical number of cells in a run


def analyse_runs(side: Side) -> Runs:
    several = side.runs > 1
    part = side.means[:, several]
    present = np.isfinite(part)
    sizes = present.sum(axis=1)
    kept = part[sizes > 0]
    squares, freedom = np.zeros(len(several)), np.zeros(len(several))
    if not kept.size:
        return Runs(squares, freedom, 0.0, 0, 1.0)
    sizes, runs = sizes[sizes > 0], np.zeros((len(kept), 1))
    for _ in range(20):  # the fit is exact at once if every run has every cell
        rest = kept - np.nanmean(kept - runs, axis=0)
        runs = np.nanmean(rest, axis=1, keepdims=True)
    runs -= np.average(runs[:, 0], weights=sizes)
    rest = kept - runs
    rest -= np.nanmean(rest, axis=0)
    each = present.sum(axis=0) - 1
    squares[several] = np.nansum(rest**2, axis=0)
    freedom[several] = each * (1 - (len(kept) - 1) / each.sum())
    size = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(kept) - 1)
    return Runs(squares, freedom, float(np.sum(sizes * runs[:, 0] ** 2)), len(kept) - 1, float(size))


class Mean(NamedTuple):
    """Mean of cells' effects."""

    effect: float
    error: float
    freedom: float
    spread: float  # true standard deviation of the cells' effects


@dataclass(frozen=True)
class Differences:
    """Differences of two sides' cells, new less base, with their scatter."""

    effect: Floats
    own: Spread  # by cell, without the luck that all cells of a run share
    share: float  # relative standard deviation of a cell between runs
    shared: Spread  # variance that all cells of a run share
    estimated: bool  # whether `shared` and, for several cells, `share` are estimated from several runs
    weights: tuple[Floats, Floats]  # of runs in the cells of each side, runs × cells
    deployments: NDArray[np.int64]  # deployment of each cell

    @property
    def cells(self) -> Spread:
        """The variance of each cell's effect."""
        return total(self.own, self._of_runs([weights**2 for weights in self.weights]))

    def mean(self, which: NDArray[np.int64]) -> Mean:
        """Return the mean effect of some cells.

        Its error contains the cells' scatter about it, or that of their deployments if that is larger and known from
        `FEWEST_CLUSTERS`, and the luck of the runs. The cells of fewer deployments may have all luck in common.
        """
        effects, own = self.effect[which], Spread(*(each[which] for each in self.own))
        groups = np.unique(self.deployments[which], return_inverse=True)[1]
        cells, clusters = len(which), int(groups.max()) + 1
        mean, found, spread = float(effects[0]), Spread(own.variance[0], own.freedom[0]), 0.0
        common = Spread(0.0, np.inf)
        if cells > 1:
            mean, error, spread, weights = random_effects(effects, own.variance)
            found = Spread(error**2, cells - 1)
            if clusters < FEWEST_CLUSTERS:
                runs = sum((one[:, which] ** 2).sum(axis=0).mean() for one in self.weights)
                common = Spread(self.share**2 * runs * (1 / clusters - 1 / cells), np.inf)
            elif clusters < cells:
                sums = np.bincount(groups, weights * (effects - mean))
                robust = Spread(float(np.sum(sums**2)) * clusters / (clusters - 1), clusters - 1)
                found = max(found, robust)
        lucks = self._of_runs([one[:, which].mean(axis=1, keepdims=True) ** 2 for one in self.weights])
        variance, freedom = total(found, common, Spread(lucks.variance[0], lucks.freedom))
        return Mean(mean, float(np.sqrt(variance)), float(freedom), spread)

    def _of_runs(self, squares: Sequence[Floats]) -> Spread:
        runs = sum(each.sum(axis=0) for each in squares)
        return Spread(self.shared.variance * runs, self.shared.freedom)


def differences(base: Side, new: Side, deployments: NDArray[np.int64]) -> Differences:
    """Return the differences of two sides' cells.

    Cells of several runs have the moderated scatter of their runs' means, cells with repetitions in one run the
    moderated scatter of these, and single measurements their interval. The luck of a cell in its run is added to the
    latter two.
    """
    sides = (base, new)
    runs = [analyse_runs(side) for side in sides]
    squares, freedom = (sum(getattr(one, name) for one in runs) for name in ("squares", "freedom"))
    several = [side.runs > 1 for side in sides]
    noise = float(
        np.mean(
            [interval_noise(side, each) for side, each in zip(sides, several, strict=True) if each.any()]
            or [0]
        )
    )
    pooled = float(squares.sum() / freedom.sum()) if freedom.sum() else np.nan
    share = RUN_TO_RUN if np.isnan(pooled) else float(np.sqrt(max(pooled - noise, 0.0)))

    alone = [np.nan_to_num(side.interval.variance) + share**2 for side in sides]
    typical = float(np.mean(alone)) if np.isnan(pooled) else pooled
    shared = _shared(runs, typical, known=any(np.isfinite(side.interval.variance).any() for side in sides))

    expected = np.mean([side.interval.variance for side in sides], axis=0)
    of_runs = _moderated_where(
        freedom > 0, Spread(squares / np.maximum(freedom, 1e-9), freedom), expected + share**2
    )
    repeated = [(side.within.freedom > 0) & ~each for side, each in zip(sides, several, strict=True)]
    inside = [np.where(each, side.within.freedom, 0.0) for side, each in zip(sides, repeated, strict=True)]
    squares = sum(
        np.nan_to_num(side.within.variance) * each for side, each in zip(sides, inside, strict=True)
    )
    within = Spread(squares / np.maximum(sum(inside), 1), sum(inside))
    of_repetitions = _moderated_where(within.freedom > 0, within, expected)

    parts = []
    for unit, where, sizes in (
        (of_runs, several, [side.runs for side in sides]),
        (of_repetitions, repeated, [side.counts.sum(axis=0) for side in sides]),
    ):
        count = sum(
            np.where(each, 1 / np.maximum(size, 1), 0.0) for each, size in zip(where, sizes, strict=True)
        )
        parts.append(Spread(unit.variance * count, unit.freedom))
    for side, *either in zip(sides, several, repeated, strict=True):
        once = ~np.any(either, axis=0)
        parts.append(Spread(np.where(once, side.interval.variance, 0.0), side.interval.freedom))
        parts.append(Spread(np.where(either[0], 0.0, share**2), np.inf))
    means = [np.nansum(side.means * side.weights, axis=0) for side in sides]
    weights = (base.weights, new.weights)
    return Differences(
        means[1] - means[0],
        total(*parts),
        share,
        shared,
        any(one.run_freedom for one in runs),
        weights,
        deployments,
    )


def _shared(runs: Sequence[Runs], typical: float, *, known: bool) -> Spread:
    """Return the variance that all cells of a run share, from the runs' means and its default.

    Args:
        runs: Analyses of both sides.
        typical: Mean variance of a cell's mean in a run.
        known: Whether `typical` is an estimate.
    """
    freedom = sum(one.run_freedom for one in runs)
    if not freedom:
        return Spread(SHARED**2, SHARED_FREEDOM)
    size = sum(one.size * one.run_freedom for one in runs) / freedom
    found = Spread(sum(one.run_squares / one.size for one in runs) / freedom, freedom)
    prior = Spread(SHARED**2 + typical / size, SHARED_FREEDOM if known or size > 1 else 0.0)
    variance, freedom = moderated(found, prior)
    return Spread(max(variance - typical / size, 0.0), freedom)


def _moderated_where(where: NDArray[np.bool_], found: Spread, expected: Floats) -> Spread:
    """Return moderated variances of some cells; 0 for the others."""
    variance, freedom = np.zeros(len(where)), np.full(len(where), np.inf)
    some = Spread(found.variance[where], found.freedom[where])
    if where.sum() > 1 and np.any(some.variance > 0):
        some = moderated_together(some, expected[where])
    variance[where], freedom[where] = some
    return Spread(variance, freedom)


def random_effects(effects: Floats, variances: Floats) -> tuple[float, float, float, Floats]:
    """Return the mean of two or more effects, its standard error, their true standard deviation, and their weights.

    The mean is DerSimonian & Laird's estimate. The standard error is the largest of the model's own, Hartung & Knapp's,
    and Sidik & Jonkman's robust one.
    """
    weights = 1 / variances
    mean = np.average(effects, weights=weights)
    heterogeneity = np.sum(weights * (effects - mean) ** 2) - (len(effects) - 1)
    between = max(0.0, heterogeneity / (weights.sum() - np.sum(weights**2) / weights.sum()))
    weights = 1 / (variances + between)
    mean = np.average(effects, weights=weights)
    count, squares, shares = len(effects), (effects - mean) ** 2, weights / weights.sum()
    hartung_knapp = np.sum(shares * squares) / (count - 1)
    # Variances of a few repetitions make poor weights; this error is valid for any weights.
    sidik_jonkman = np.sum(shares**2 * squares / (1 - shares))
    error = np.sqrt(max(1 / weights.sum(), hartung_knapp, sidik_jonkman))
    return float(mean), float(error), float(np.sqrt(between)), shares


def deployment_numbers(rows: pd.DataFrame, axes: Iterable[str]) -> NDArray[np.int64]:
    """Number the deployments of rows, which differ in the axes that are no parameters of cells."""
    names = [name for name in axes if name not in CELL]
    return np.asarray(rows.groupby(names, sort=False).ngroup() if names else np.zeros(len(rows), int))
