# SPDX-License-Identifier: Apache-2.0
"""Choose the cells to measure next, and estimate the error of the surface, with pure functions.

A Gaussian process is fitted to the measured cells. The next cells reduce its variance at all other cells the most for
each second of measuring (criterion of Cohn, Ghahramani, Jordan, J. Artificial Intelligence Research 4, 1996):
deployments are expensive, further cells of the same deployment are cheap.

Rows are points of the grid: cells without their repetitions, which are measured together. Throughput is in Gbit/s.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import CELL
from tpcsweep.models.base import Floats
from tpcsweep.models.learned import GaussianProcess, leave_one_out

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

ENOUGH = "the estimated error is reached"
NOISE = "the remaining error is noise: more cells would not reduce it to the target"
EXHAUSTED = "every cell is measured"

_CORNERS = 1 / 8  # share of the grid: of more corners, every other one is measured first
_PER_AXIS = 3  # cells to measure first; fewer cannot separate an axis' length from noise
_REMEMBERED = 16  # latest tested predictions that estimate prediction errors
_TESTED = 8  # fewest tested predictions before an estimate is trusted
_MOST = 600  # points that one choice considers, drawn at random in larger grids; the time grows with the cube


@dataclass(frozen=True)
class Space:
    points: pd.DataFrame  # one column for each axis: numbers in base units, and words

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def deployment(self) -> Rows:
        """Number of each point's deployment, from 0."""
        names = [name for name in self.points if name not in CELL]
        if not names:
            return np.zeros(len(self), np.int64)
        return np.asarray(self.points.groupby(names, sort=False, dropna=False).ngroup(), np.int64)

    @cached_property
    def levels(self) -> Rows:
        """Index of each value among the values of its axis: points × axes."""
        return np.column_stack([np.unique(self.points[name], return_inverse=True)[1] for name in self.points])

    @property
    def _numeric(self) -> list[bool]:
        return [pd.api.types.is_numeric_dtype(self.points[name]) for name in self.points]

    @cached_property
    def _spread(self) -> Floats:
        """Ranks from 0 to 1 on numeric axes; one column for each word, so that all words are equally distant."""
        columns = []
        for levels, numeric in zip(self.levels.T, self._numeric, strict=True):
            if numeric:
                columns.append(levels / max(levels.max(), 1))
            else:
                columns += [(levels == level) / 2 for level in range(levels.max() + 1)]
        return np.column_stack(columns)

    def distances(self, row: int) -> Floats:
        """Return each point's distance from `row`, summed over the axes, each of length 1."""
        return np.asarray(np.abs(self._spread - self._spread[row]).sum(axis=1))

    def corners(self) -> list[int]:
        """Return the points nearest to all combinations of the axes' end values; each word is an end value."""
        most, numeric = self.levels.max(axis=0), np.array(self._numeric)
        ends = [
            sorted({0, int(last)}) if at else range(last + 1) for last, at in zip(most, numeric, strict=True)
        ]
        wanted = np.array(list(itertools.product(*ends)))
        if len(wanted) > _CORNERS * len(self):
            # Half of them, no two of which differ in a single axis: both ends of every axis are included.
            parity = np.where(numeric, np.minimum(wanted, 1), wanted).sum(axis=1)
            wanted = wanted[parity % 2 == 0]
        scale = np.maximum(most, 1)
        return sorted({int((np.abs(self.levels - end) / scale).sum(axis=1).argmin()) for end in wanted})


class Costs(NamedTuple):
    deployment: float
    point: float


@dataclass(frozen=True)
class Belief:
    """Throughput at each point as currently known."""

    mean: Floats
    covariance: Floats  # covariance of the surface, points × points, without measurement noise
    noise: Floats  # standard deviation of one more measurement about the surface at each point
    doubt: float = 1.0
    """Errors of predictions over their own deviations.
    Values below 1 occur because the floors of the observations' errors may exceed the noise."""

    @property
    def deviation(self) -> Floats:
        """Standard deviation of one more measurement at each point, including doubt."""
        variance = np.maximum(np.diag(self.covariance), 0.0) + self.noise**2
        return np.asarray(self.doubt * np.sqrt(variance))

    def standardized_errors(self, rows: Sequence[int], throughput: Floats) -> list[float]:
        """Return the distance of the rows' throughput from the prediction, in deviations without doubt."""
        off = (throughput[rows] - self.mean[rows]) / self.deviation[rows] * self.doubt
        return [float(size) for size in off if math.isfinite(size)]


def believe(process: GaussianProcess, space: Space, standardized_errors: Sequence[float] = ()) -> Belief:
    """Return the belief about every point of the grid, from a process fitted to the measured cells.

    The doubt is estimated from the process's own leave-one-out residuals, and from the latest `standardized_errors` of
    predictions that were measured afterwards.
    """
    regressor = process.regressor
    logs, covariance = regressor.predict(process.inputs(space.points), return_cov=True)
    # The process models log(throughput): to first order, a deviation in Gbit/s is its own times the throughput.
    mean = np.exp(np.asarray(logs))
    # scikit-learn's covariance includes the white kernel but not the errors of observations.
    surface = (np.asarray(covariance) - process.noise**2 * np.eye(len(space))) * np.outer(mean, mean)
    scale = process.noise / math.sqrt(regressor.kernel_.k2.noise_level)
    noise = math.hypot(process.noise, scale * math.sqrt(float(np.median(regressor.alpha))))
    off, deviation = leave_one_out(regressor)
    tests = [
        np.asarray(sizes) for sizes in (off / deviation, standardized_errors[-_REMEMBERED:]) if len(sizes)
    ]
    doubt = max(float(np.sqrt(np.mean(sizes**2))) for sizes in tests)
    return Belief(mean, surface, noise * mean, doubt)


def first_points(space: Space) -> list[int]:
    """Return the points to measure first: corners, then the points furthest from all chosen ones."""
    chosen = space.corners()
    away = np.min([space.distances(row) for row in chosen], axis=0)
    while len(chosen) < min(_PER_AXIS * space.points.shape[1], len(space)):
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, space.distances(chosen[-1]))
    return sorted(chosen)


def surface_error(belief: Belief, measured: Mask, throughput: Floats) -> tuple[float, float]:
    """Estimate the root mean square error of predictions at unmeasured points, and the noise in it, which remains.

    Both are shares of the surface's range. Throughput is NaN at points that failed.
    """
    surface = np.where(np.isfinite(throughput), throughput, belief.mean)
    wide = float(np.ptp(surface))
    if measured.all() or wide == 0:
        return 0.0, 0.0
    deviation = float(np.sqrt(np.mean(belief.deviation[~measured] ** 2)))
    return deviation / wide, belief.doubt * float(np.sqrt(np.mean(belief.noise[~measured] ** 2))) / wide


def stop_reason(
    target_error: float, errors: Sequence[tuple[float, float]], tested: int, measured: Mask
) -> str:
    """Return the reason to stop, or "" if more cells should be measured.

    The last two of `errors`, the results of `surface_error` for each round, must agree, because a single good one may
    be luck. `tested` is the number of predictions that were measured afterwards: with few cells a process may be sure
    and wrong.
    """
    if measured.all():
        return EXHAUSTED
    last = errors[-2:]
    if len(last) < 2 or tested < _TESTED:
        return ""
    if all(estimated <= target_error for estimated, _ in last):
        return ENOUGH
    # More cells could remove less than half of the requested error.
    if all(estimated**2 - noise**2 <= (target_error / 2) ** 2 for estimated, noise in last):
        return NOISE
    return ""


def next_points(
    space: Space, belief: Belief, available: Mask, costs: Costs, count: int, seed: int = 0
) -> list[int]:
    """Choose the points to measure next: the most informative ones for each second, in a few deployments.

    Each choice accounts for the previous ones. `available` points may be chosen, and should become certain. The result
    has `count` points, or a few more if they fill a deployment well. In grids that are too large to consider all
    deployments, the `seed` draws some.
    """
    rows = _considered(space, available, seed)
    covariance, noise = belief.covariance[np.ix_(rows, rows)].copy(), belief.noise[rows]
    deployment = space.deployment[rows]
    left = np.ones(len(rows), bool)
    chosen: list[int] = []
    while len(chosen) < count and left.any():
        offers = [
            _best(covariance, noise, np.flatnonzero(left & (deployment == number)), left, costs)
            for number in np.unique(deployment[left])
        ]
        _, best = max(offers, key=lambda offer: offer[0])
        for member in best:
            covariance = _after(covariance, member, noise)
        chosen += best
        left &= deployment != deployment[best[0]]
    return sorted(int(row) for row in rows[chosen])


def round_size(points: int) -> int:
    """Return the number of points in a round, which is small to learn often but grows with the grid."""
    return math.ceil(points / 32)


def _considered(space: Space, available: Mask, seed: int) -> Rows:
    rows = np.flatnonzero(available)
    if len(rows) <= _MOST:
        return rows
    deployments = np.random.default_rng(seed).permutation(np.unique(space.deployment[rows]))
    sizes = np.cumsum(np.bincount(space.deployment[rows])[deployments])
    kept = deployments[: max(1, int(np.searchsorted(sizes, _MOST, side="right")))]
    return rows[np.isin(space.deployment[rows], kept)]


def _best(
    covariance: Floats, noise: Floats, members: Rows, left: Mask, costs: Costs
) -> tuple[float, list[int]]:
    """Return the largest reduction of variance per second by points of one deployment, and these points."""
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


def _gains(covariance: Floats, noise: Floats, rows: Rows, wanted: Mask) -> Floats:
    """Return how much measuring each row lowers the sum of variances, its own and others' shared part."""
    own = np.maximum(covariance[rows, rows], 0.0)
    shared = (covariance[np.ix_(rows, np.flatnonzero(wanted))] ** 2).sum(axis=1) - own**2
    return np.asarray(own + shared / np.maximum(own + noise[rows] ** 2, 1e-300))


def _after(covariance: Floats, row: int, noise: Floats) -> Floats:
    """Return the covariance after a row was measured, which does not depend on the outcome."""
    column = covariance[:, row]
    return np.asarray(covariance - np.outer(column, column) / max(column[row] + noise[row] ** 2, 1e-300))
