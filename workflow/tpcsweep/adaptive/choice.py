# SPDX-License-Identifier: Apache-2.0
"""Which cells of a grid to measure next, and how wrong the surface still is. Pure.

A Gaussian process is fitted to what has been measured. Next come the cells that take most of its variance from all
cells that are not measured (the criterion of Cohn, Ghahramani, Jordan, J. Artificial Intelligence Research 4, 1996),
for the time that they cost: deployments are dear, and further cells of one are cheap.

Rows are points of the grid: cells without their repetitions, which are measured together. Throughput is in Gbit/s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import linalg

from tpcsweep.configuration.parameters import CELL
from tpcsweep.models.baseline import GaussianProcess

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENOUGH = "the estimated error is reached"
NOISE = "what is left is noise: more cells would not bring the estimated error down to what is asked"
EXHAUSTED = "every cell is measured"

_CORNERS = 1 / 8
"""The largest share of the grid that all its corners may be; of more, every other one is measured first."""

_PER_AXIS = 3
"""So many cells for each axis are measured first, at least: fewer do not tell its length from noise."""

_REMEMBERED = 16
"""So many of the last predictions that were put to the test say how far off predictions are."""

_TESTED = 8
"""So many predictions are put to the test before any estimate is believed."""

_MOST = 600
"""Points that one choice looks at: the time grows with the cube. Of larger grids they are drawn at random."""


@dataclass(frozen=True)
class Space:
    """The points of a grid."""

    points: pd.DataFrame
    """A column for each axis: numbers in base units, and words."""

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def deployment(self) -> NDArray[np.int64]:
        """The number of each point's deployment, from 0."""
        names = [name for name in self.points if name not in CELL]
        if not names:
            return np.zeros(len(self), np.int64)
        return np.asarray(self.points.groupby(names, sort=False, dropna=False).ngroup(), np.int64)

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """Points × axes: the place of each value among those of its axis."""
        return np.column_stack([np.unique(self.points[name], return_inverse=True)[1] for name in self.points])

    @cached_property
    def _spread(self) -> NDArray[np.float64]:
        """Places from 0 to 1 on axes of numbers, by rank; a column for each word, so that words are equally far."""
        columns = []
        for levels, numeric in zip(self.levels.T, self._numeric, strict=True):
            if numeric:
                columns.append(levels / max(levels.max(), 1))
            else:
                columns += [(levels == level) / 2 for level in range(levels.max() + 1)]
        return np.column_stack(columns)

    @cached_property
    def _numeric(self) -> list[bool]:
        return [pd.api.types.is_numeric_dtype(self.points[name]) for name in self.points]

    def distances(self, row: int) -> NDArray[np.float64]:
        """How far each point is from one of them, summed over the axes, each of length 1."""
        return np.asarray(np.abs(self._spread - self._spread[row]).sum(axis=1))

    def corners(self) -> list[int]:
        """The points with the first or last number, or any word, on each axis; where there is none, the nearest."""
        ends = [
            sorted({0, int(levels.max())}) if numeric else range(levels.max() + 1)
            for levels, numeric in zip(self.levels.T, self._numeric, strict=True)
        ]
        wanted = list(itertools.product(*ends))
        if len(wanted) > _CORNERS * len(self):
            # Half of them, so that no two differ in one axis alone: every axis is seen at all its ends.
            wanted = [corner for corner in wanted if self._parity(corner) % 2 == 0]
        scale = np.maximum(self.levels.max(axis=0), 1)
        return sorted({int((np.abs(self.levels - corner) / scale).sum(axis=1).argmin()) for corner in wanted})

    def _parity(self, corner: Sequence[int]) -> int:
        return sum(
            min(end, 1) if numeric else end for end, numeric in zip(corner, self._numeric, strict=True)
        )


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    deployment: float
    """To bring one up and tear it down."""
    point: float
    """To measure all repetitions of a cell."""


@dataclass(frozen=True)
class Belief:
    """What is known of the throughput at each point."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    """Of the surface, points × points: without a measurement's noise."""
    noise: float
    """Standard deviation of one more measurement about the surface."""
    doubt: float = 1.0
    """By how much predictions have been further off than they said. Below 1 they were nearer: the errors that
    observations come with have floors, which may be more than the noise there is."""

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of one more measurement at each point, doubt included."""
        variance = np.maximum(np.diag(self.covariance), 0.0) + self.noise**2
        return np.asarray(self.doubt * np.sqrt(variance))

    def surprise(self, rows: Sequence[int], throughput: NDArray[np.float64]) -> list[float]:
        """How far measurements of some points are from the prediction, in standard deviations without doubt.

        Of the throughputs of all points, those that failed (NaN) are left out.
        """
        off = (throughput[rows] - self.mean[rows]) / self.deviation[rows] * self.doubt
        return [float(size) for size in off if math.isfinite(size)]


def believe(process: GaussianProcess, space: Space, surprise: Sequence[float] = ()) -> Belief:
    """Ask a fitted process for every point of the grid.

    Args:
        process: fitted to what was measured.
        space: the grid.
        surprise: values of `Belief.surprise`, of predictions that were measured afterwards. Together with the
            process's own leave-one-out residuals the last of them give the doubt.

    Source:
        C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.2
    """
    axes = (*process.features.centres, *process.features.words)
    inputs = process.features(process.domain.filled(space.points, axes))
    mean, covariance = process.regressor.predict(inputs, return_cov=True)
    # scikit-learn's covariance has the white kernel in it, and not the errors that observations came with.
    surface = np.asarray(covariance) - process.noise**2 * np.eye(len(space))
    regressor = process.regressor
    scale = process.noise / math.sqrt(regressor.kernel_.k2.noise_level)
    noise = math.hypot(process.noise, scale * math.sqrt(float(np.median(regressor.alpha))))
    tests = [np.asarray(sizes) for sizes in (left_out(process), surprise[-_REMEMBERED:]) if len(sizes)]
    doubt = max(float(np.sqrt(np.mean(sizes**2))) for sizes in tests)
    return Belief(np.maximum(np.asarray(mean), 0.0), surface, noise, doubt)


def left_out(process: GaussianProcess) -> NDArray[np.float64]:
    """Give the residuals of the process's own points, each predicted from all others, in standard deviations."""
    regressor = process.regressor
    inverse = linalg.cho_solve((regressor.L_, True), np.eye(len(regressor.L_)))
    return np.asarray(np.ravel(regressor.alpha_) / np.sqrt(np.diag(inverse)))


def first(space: Space) -> list[int]:
    """The points to measure before anything is known: corners, then those that are furthest from all others."""
    chosen = space.corners()
    away = np.min([space.distances(row) for row in chosen], axis=0)
    while len(chosen) < min(_PER_AXIS * space.points.shape[1], len(space)):
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, space.distances(chosen[-1]))
    return sorted(chosen)


def error(
    belief: Belief, measured: NDArray[np.bool_], throughput: NDArray[np.float64]
) -> tuple[float, float]:
    """Estimate the error of the surface where it is not measured, as shares of its range.

    It is the root mean square of what measurements there would differ by from the prediction. The second figure is
    the part of it that is noise: it stays, however much is measured elsewhere. Throughput is NaN where a cell failed.
    """
    if measured.all():
        return 0.0, 0.0
    surface = np.where(np.isfinite(throughput), throughput, belief.mean)
    wide = float(np.ptp(surface))
    if wide == 0:
        return 0.0, 0.0
    deviation = float(np.sqrt(np.mean(belief.deviation[~measured] ** 2)))
    return deviation / wide, belief.doubt * belief.noise / wide


def finished(
    asked: float, errors: Sequence[tuple[float, float]], tested: int, measured: NDArray[np.bool_]
) -> str:
    """Say why no more is to be measured; nothing where more is.

    Args:
        asked: the error that is asked for.
        errors: of each round so far, as of `error`; two in a row have to agree, as a single good one may be luck.
        tested: how many predictions were measured afterwards; of few cells a process may be sure of what is wrong.
        measured: which points are.
    """
    if measured.all():
        return EXHAUSTED
    last = errors[-2:]
    if len(last) < 2 or tested < _TESTED:
        return ""
    if all(estimated <= asked for estimated, _ in last):
        return ENOUGH
    # What more cells could take away is less than half of what is asked for.
    if all(estimated**2 - noise**2 <= (asked / 2) ** 2 for estimated, noise in last):
        return NOISE
    return ""


def choose(
    space: Space, belief: Belief, available: NDArray[np.bool_], costs: Costs, count: int, seed: int = 0
) -> list[int]:
    """Choose the points to measure next: of some deployments those that tell most for their seconds.

    Each choice takes into account what the ones before will tell.

    Args:
        space: the grid.
        belief: what is believed of each point.
        available: which points may be chosen; those are also the points that should become certain.
        costs: of deployments and points.
        count: as many are chosen, or a few more so that a deployment is used well; or all, where these are fewer.
        seed: of the choice between deployments in grids that are too large to look at all of them.
    """
    rows = _looked_at(space, available, seed)
    covariance = belief.covariance[np.ix_(rows, rows)].copy()
    deployment = space.deployment[rows]
    left = np.ones(len(rows), bool)
    chosen: list[int] = []
    while len(chosen) < count and left.any():
        offers = [
            _best(covariance, belief.noise, np.flatnonzero(left & (deployment == number)), left, costs)
            for number in np.unique(deployment[left])
        ]
        _, best = max(offers, key=lambda offer: offer[0])
        for member in best:
            covariance = _after(covariance, member, belief.noise)
        chosen += best
        left &= deployment != deployment[best[0]]
    return sorted(int(row) for row in rows[chosen])


def batch(points: int) -> int:
    """How many points a round adds: few enough to learn from each, and many enough for a large grid to end."""
    return math.ceil(points / 32)


def _looked_at(space: Space, available: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """The rows to choose from: all that are available, or as many whole deployments as may be looked at."""
    rows = np.flatnonzero(available)
    if len(rows) <= _MOST:
        return rows
    deployments = np.random.default_rng(seed).permutation(np.unique(space.deployment[rows]))
    sizes = np.cumsum(np.bincount(space.deployment[rows])[deployments])
    kept = deployments[: max(1, int(np.searchsorted(sizes, _MOST, side="right")))]
    return rows[np.isin(space.deployment[rows], kept)]


def _best(
    covariance: NDArray[np.float64],
    noise: float,
    members: NDArray[np.int64],
    left: NDArray[np.bool_],
    costs: Costs,
) -> tuple[float, list[int]]:
    """The points of one deployment with the most information a second, and how much: variance that they take."""
    picked: list[int] = []
    told, best = 0.0, 0.0
    wanted = left.copy()
    while len(picked) < len(members):
        others = np.setdiff1d(members, picked)
        gains = _gains(covariance, noise, others, wanted)
        place = int(np.argmax(gains))
        rate = (told + gains[place]) / (costs.deployment + (len(picked) + 1) * costs.point)
        if picked and rate <= best:
            break
        told, best = told + float(gains[place]), float(rate)
        member = int(others[place])
        picked.append(member)
        wanted[member] = False
        covariance = _after(covariance, member, noise)
    return best, picked


def _gains(
    covariance: NDArray[np.float64], noise: float, rows: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """By how much measuring each row lowers the sum of variances: its own goes, others' fall by what they share."""
    own = np.maximum(covariance[rows, rows], 0.0)
    shared = (covariance[np.ix_(rows, np.flatnonzero(wanted))] ** 2).sum(axis=1) - own**2
    return np.asarray(own + shared / np.maximum(own + noise**2, 1e-300))


def _after(covariance: NDArray[np.float64], row: int, noise: float) -> NDArray[np.float64]:
    """The covariance once a row has been measured, whatever the outcome."""
    column = covariance[:, row]
    return np.asarray(covariance - np.outer(column, column) / max(column[row] + noise**2, 1e-300))
