# SPDX-License-Identifier: Apache-2.0
"""Models that learn from the cells without a formula: a Gaussian process and lookup tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import linalg, stats
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tpcsweep.analysis.models.formula import SEED, Cells, Floats, json_content
from tpcsweep.analysis.models.least_squares import luck_units
from tpcsweep.analysis.models.observations import FLOOR, Observations
from tpcsweep.analysis.models.predictor import QUANTILES, Domain, Predictor, Scatter
from tpcsweep.common.numbers import MAD_FACTOR, short

_LEARN = 300  # points that the process learns lengths from; the time grows with the cube
_HOLD = 1000  # points that predictions of the process are based on
_GROSS = 5.0  # deviations beyond which an output does not count for its neighbours
_LEAST = 0.6  # smallest typical deviation with which a gross one is compared
_SEARCH = "fmin_l_bfgs_b"  # scikit-learn's optimizer
_ROUNDS = 2  # additional fits, with gross outputs replaced by their predictions

_PARTS = 5  # parts of the observations, each left out in turn
_TRANSFERS = ("tcp_streams", "file_size", "streams")  # numbers that one deployment serves in turn


class Scale(NamedTuple):
    """Scaled logarithm of a numeric axis."""

    offset: float  # addition before the logarithm, so that 0 ms has one
    limit: float  # number for "no limit": twice the largest value
    middle: float = 0.0
    spread: float = 1.0

    def __call__(self, values: Floats) -> Floats:
        numbers = np.where(np.isfinite(values), values, self.limit) + self.offset
        return (np.log(np.maximum(numbers, 1e-12)) - self.middle) / self.spread


@dataclass(frozen=True)
class Features:
    """Axes as a matrix: scaled logarithms of numbers, and one column for each word."""

    scales: Mapping[str, Scale]
    words: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_observations(cls, observations: Observations) -> Features:
        scales = {}
        for name in observations.numeric:
            values = observations.frame[name].to_numpy(float)
            finite = values[np.isfinite(values)]
            # Values start at 1 ms, stream or byte. Axes with values below 1 (cores) are never 0.
            scale = Scale(float(finite.min(initial=1.0) == 0), 2 * float(finite.max(initial=1.0)))
            logs = scale(values)
            scales[name] = scale._replace(middle=float(logs.mean()), spread=float(logs.std()) or 1.0)
        return cls(scales, observations.words)

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.scales, *self.words)

    @property
    def names(self) -> list[str]:
        """Name of each feature."""
        return [*self.scales, *(f"{name}={word}" for name, words in self.words.items() for word in words)]

    def __call__(self, points: Cells) -> Floats:
        """Return points × features."""
        columns = [scale(np.asarray(points[name], float)) for name, scale in self.scales.items()]
        for name, words in self.words.items():
            values = np.asarray(points[name]).astype(str)
            columns += [(values == word).astype(float) for word in words]
        return np.column_stack(columns)


Surface = Callable[[Cells], tuple[Floats, Floats]]
"""Function of points that returns the median of log(throughput in Gbit/s), and a scale of deviations from it."""


class Kernel(NamedTuple):
    """Values of a process's kernel that a search found; variances in units of the outputs' variance."""

    variance: float
    noise: float
    """Variance of the outputs about the surface."""
    lengths: Mapping[str, float]
    """Length of each feature, in units of the feature."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any] | None) -> Kernel | None:
        """Return the kernel of a saved process; None for another learner."""
        return cls(**content) if content else None


class Trained(NamedTuple):
    """What a learner made of observations."""

    surface: Surface
    kernel: Kernel | None = None
    """Kernel of a process."""


@dataclass(frozen=True)
class Learner:
    """Way to learn throughput from cells, with conformal intervals."""

    name: str
    about: str
    train: Callable[[Observations, Kernel | None], Trained]
    """Function of observations, and of a kernel that was found for most of them; it raises ValueError if the
    observations do not suffice."""
    normal: bool = False
    """Whether the scale is the standard deviation of a measurement; intervals are never narrower than a normal one."""

    def __call__(self, observations: Observations) -> Learned:
        """Fit all observations, and estimate the scatter of measurements by leaving out a fifth at a time.

        A fifth has whole runs if there are several, otherwise whole deployments if there are 8 or more, otherwise
        whole points. Raises ValueError if there are fewer than three points, or if `train` raises it.
        """
        if observations.frame["point"].nunique() < 3:
            raise ValueError("learning needs at least three points")
        trained = self.train(observations, None)
        return self._learned(observations, trained, self._scatter(observations, trained.kernel))

    def again(self, observations: Observations, saved: Mapping[str, Any]) -> Learned:
        """Return what `Learned.to_dict` described, for the same observations, without a search from the start."""
        trained = self.train(observations, Kernel.from_dict(saved["kernel"]))
        return self._learned(observations, trained, Scatter.from_dict(saved["scatter"]))

    def _learned(self, observations: Observations, trained: Trained, scatter: Scatter) -> Learned:
        least = _logarithms_of_throughput(observations)[1]
        zeros = int(np.sum(observations.throughput == 0))
        problems = (f"{zeros} cells without throughput count as {short(least)} Gbit/s",) if zeros else ()
        domain = Domain.from_observations(observations)
        return Learned(self, trained, scatter, domain=domain, problems=problems)

    def _scatter(self, observations: Observations, kernel: Kernel | None) -> Scatter:
        runs = observations.runs
        numbers = pd.factorize(luck_units(observations) if runs is None else runs)[0]
        count = int(numbers.max()) + 1
        part = (np.random.default_rng(SEED).permutation(count) % _PARTS)[numbers]
        middle, spread = np.empty((2, len(observations)))
        for out in (part == at for at in np.unique(part)):
            surface = self.train(observations.take(~out), kernel).surface
            middle[out], spread[out] = surface(observations.take(out).frame)
        logs, _ = _logarithms_of_throughput(observations)
        scatter = Scatter.from_residuals((logs - middle) / spread, np.ones(len(logs)))
        if self.normal:
            normal = stats.norm.ppf(QUANTILES)
            wider = np.maximum(np.abs(scatter.quantiles), np.abs(normal))
            scatter = replace(scatter, quantiles=np.copysign(wider, normal))
        return scatter


@dataclass(frozen=True)
class Learned(Predictor):
    """Fit of a learner. Its estimate is the median."""

    learner: Learner
    trained: Trained
    scatter: Scatter
    """Scatter of measurements about the surface without their part, in its scale of deviations: a single band."""

    @property
    def name(self) -> str:
        return self.learner.name

    @property
    def about(self) -> str:
        return self.learner.about

    def estimate(self, points: Cells) -> Floats:
        return np.exp(self._at(points)[0])

    def draws(self, points: Cells, count: int = 200) -> Floats:
        middle, spread = self._at(points)
        return np.asarray(np.exp(middle + spread * self.scatter.drawn(count, np.exp(middle))))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, from which and the observations `Learner.again` makes the same fit."""
        kernel = self.trained.kernel
        values = json_content(kernel._asdict()) if kernel else None
        return {"kernel": values, "scatter": self.scatter.to_dict()}

    def _at(self, points: Cells) -> tuple[Floats, Floats]:
        return self.trained.surface(self.domain.filled(points, (*self.domain.ranges, *self.domain.words)))


def _logarithms_of_throughput(observations: Observations) -> tuple[Floats, float]:
    """Return log(throughput in Gbit/s), and half of the smallest positive throughput, which replaces 0."""
    throughput = observations.throughput
    least = float(throughput[throughput > 0].min(initial=math.inf)) / 2
    if not math.isfinite(least):
        raise ValueError("no cell has a throughput")
    return np.log(np.maximum(throughput, least)), least


def _train_process(observations: Observations, kernel: Kernel | None) -> Trained:
    """Return a process fitted to the medians of points; the scale includes the scatter of one measurement."""
    if not observations.axes:
        raise ValueError("a Gaussian process needs an axis with several values")
    features, point = Features.from_observations(observations), observations.frame["point"]
    outputs = pd.Series(_logarithms_of_throughput(observations)[0]).groupby(point, sort=False)
    inputs = pd.DataFrame(features(observations.frame)).groupby(point, sort=False).mean().to_numpy()
    held = some_rows(len(inputs), np.random.default_rng(SEED))
    inputs, medians = inputs[held], outputs.median().to_numpy()[held]
    lengths = np.array([kernel.lengths.get(name, 1.0) if kernel else 1.0 for name in features.names])
    regressor = fit_regressor(inputs, medians, 0.0, lengths, (0.05, 1e3), kernel).regressor
    freedom = outputs.size() - 1
    # The median resists stalls. That of χ² is smaller than its mean.
    squares = (outputs.var() * freedom / stats.chi2.median(freedom)).median()
    single = max(math.sqrt(np.nan_to_num(squares)), FLOOR)  # NaN without repetitions

    def surface(cells: Cells) -> tuple[Floats, Floats]:
        middle, spread = _predicted(regressor, features(cells))
        return middle, np.hypot(spread, single)

    smooth, white = regressor.kernel_.k1, regressor.kernel_.k2
    found = dict(zip(features.names, np.atleast_1d(smooth.k2.length_scale).tolist(), strict=True))
    return Trained(surface, Kernel(smooth.k1.constant_value, white.noise_level, found))


class Process(NamedTuple):
    """Gaussian process, and the prediction of each of its outputs by the others."""

    regressor: Any
    noise: float  # standard deviation of the outputs about the surface that the errors do not explain
    predicted: Floats
    deviation: Floats  # standard deviations of `predicted`

    def surface(self, inputs: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the surface itself, without measurement noise."""
        middle, spread = _predicted(self.regressor, inputs)
        # scikit-learn's deviation includes the white kernel.
        return middle, np.sqrt(np.maximum(spread**2 - self.noise**2, 0.0))


def _predicted(regressor: Any, inputs: Floats) -> tuple[Floats, Floats]:
    """Return scikit-learn's mean and standard deviation."""
    with threadpool_limits(1):
        middle, spread = regressor.predict(inputs, return_std=True)
    return np.asarray(middle), np.asarray(spread)


def fit_regressor(
    inputs: Floats,
    outputs: Floats,
    errors: Floats | float,
    lengths: Floats,
    bounds: tuple[float, float],
    found: Kernel | None = None,
) -> Process:
    """Fit scikit-learn's process (Matérn 5/2 and white noise) to points × features.

    An output more than 5 deviations from its prediction by the others affects nothing else: the process is fitted again
    with that prediction instead of the output. Maximum likelihood determines lengths from at most 300 points.

    Args:
        inputs: Points × features.
        outputs: One for each point.
        errors: Standard deviations of the outputs.
        lengths: Lengths of the kernel at the start, one for each feature or one for all.
        bounds: Bounds of the lengths.
        found: Kernel that a search found for most of these outputs; `lengths` are its lengths. It tells which outputs
            are gross before the only search.
    """
    # Importing scikit-learn takes a second, and formulas do not need it.
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels  # type: ignore[import-untyped]

    variance, noise = (found.variance, found.noise) if found else (1.0, 1e-2)
    kernel: Any = kernels.ConstantKernel(variance, (1e-2, 1e2)) * kernels.Matern(lengths, bounds, nu=2.5)
    kernel += kernels.WhiteKernel(noise, (1e-6, 1.0))
    optimizers = [None, _SEARCH] if found else [_SEARCH] * (1 + _ROUNDS)
    learned = some_rows(len(outputs), np.random.default_rng(SEED), _LEARN)
    wanted = outputs
    # Threads cost more than they save for matrices this small, and a hundred times that on a busy machine.
    with threadpool_limits(1), warnings.catch_warnings():
        # A length at its bound means an axis without influence, which is no fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for optimizer in optimizers:
            scale = float(wanted.std()) or 1.0
            alpha = np.maximum(np.broadcast_to(errors / scale, outputs.shape) ** 2, 1e-10)
            regressor = GaussianProcessRegressor(
                kernel, alpha=alpha[learned], optimizer=optimizer, normalize_y=True
            )
            kernel = regressor.fit(inputs[learned], wanted[learned]).kernel_
            if len(learned) < len(outputs):
                regressor.set_params(kernel=kernel, alpha=alpha, optimizer=None).fit(inputs, wanted)
            distance, deviation = (scale * part for part in _leave_one_out(regressor))
            predicted = wanted - distance
            off = np.abs(outputs - predicted) / deviation
            most = _GROSS * max(_LEAST, MAD_FACTOR * float(np.median(off)))
            before, wanted = wanted, np.where(off > most, predicted, outputs)
            if optimizer and np.array_equal(wanted, before):
                break
    deviation_of_noise = math.sqrt(float(regressor.kernel_.k2.noise_level)) * scale
    return Process(regressor, deviation_of_noise, predicted, deviation)


def _leave_one_out(regressor: Any) -> tuple[Floats, Floats]:
    """Return each output's distance from its prediction by all others, and that prediction's deviation.

    Both are in units of the outputs' standard deviation. Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes
    for Machine Learning, 2006, section 5.4.2.
    """
    inverse = np.diag(linalg.cho_solve((regressor.L_, True), np.eye(len(regressor.L_))))
    return np.ravel(regressor.alpha_) / inverse, 1 / np.sqrt(inverse)


def some_rows(count: int, generator: np.random.Generator, most: int = _HOLD) -> NDArray[np.int64]:
    """Return all rows, or `most` of them at random: the time of a process grows with the cube."""
    if count <= most:
        return np.arange(count)
    return np.sort(generator.choice(count, most, replace=False))


def _train_lookup(observations: Observations, _kernel: Kernel | None, ignored: Sequence[str] = ()) -> Trained:
    """Return a function that looks up the medians of cells with equal axes; the nearest ones for other points."""
    kept = tuple(name for name in observations.axes if name not in ignored) or observations.axes
    features = Features.from_observations(replace(observations, axes=kept))
    place = pd.DataFrame({name: observations.classes(name) for name in kept}).groupby([*kept]).ngroup()
    rates = pd.Series(_logarithms_of_throughput(observations)[0]).groupby(place).median().to_numpy()
    places = pd.DataFrame(features(observations.frame)).groupby(place).median().to_numpy()

    def surface(cells: Cells) -> tuple[Floats, Floats]:
        distance = cdist(features(cells), places)
        # An unknown word is as far from each known one.
        nearest = distance <= distance.min(axis=1, keepdims=True) + 1e-9
        return nearest @ rates / nearest.sum(axis=1), np.ones(len(nearest))

    return Trained(surface)


PROCESS = "gaussian_process"
fit_process = Learner(
    PROCESS,
    "Gaussian process of log(throughput) over the axes, which knows no physics",
    _train_process,
    normal=True,
)
fit_table = Learner(
    "table", "Lookup table: medians of the cells, the nearest ones between them", _train_lookup
)
fit_lookup = Learner(
    "lookup",
    "Lookup table that ignores streams: medians over all transfers of nearest deployments",
    partial(_train_lookup, ignored=_TRANSFERS),
)
LEARNED: Mapping[str, Learner] = {learner.name: learner for learner in (fit_process, fit_table, fit_lookup)}
"""Predictors that learn from the cells without a formula, by name."""
