# SPDX-License-Identifier: Apache-2.0
"""Models that learn from the cells without a formula: a Gaussian process and a lookup table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import linalg, stats
from scipy.interpolate import RegularGridInterpolator

from tpcsweep.analysis.models.formula import SEED, Cells, Floats
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.models.predictor import Domain, Predictor, Scatter, log_ratio, new_run
from tpcsweep.common.numbers import CONFIDENCE, short

_LEARN = 300  # points that the process learns lengths from; the time grows with the cube
_HOLD = 1500  # points that predictions of the process are based on
_MOST = 100_000  # places of a table; a larger grid would be almost empty
_PARTS = 8  # parts of the points of a table, each left out in turn
_SMALLEST = 1e-9  # Gbit/s


@dataclass(frozen=True)
class Features:
    """Axes as a matrix: scaled logarithms of numbers, and one column for each word."""

    offsets: Mapping[str, float]  # addition before the logarithm, so that 0 ms has one
    limits: Mapping[str, float]  # number for "no limit": twice the largest value
    centres: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_observations(cls, observations: Observations) -> Features:
        offsets, limits, centres = {}, {}, {}
        for name in observations.numeric:
            values = observations.frame[name].to_numpy(float)
            finite = values[np.isfinite(values)]
            # Values start at 1 ms, stream or byte. Axes with values below 1 (cores) are never 0.
            offsets[name] = 1.0 if finite.min(initial=1.0) == 0 else 0.0
            limits[name] = 2 * float(finite.max(initial=1.0))
            logs = _logarithms(values, offsets[name], limits[name])
            centres[name] = (float(logs.mean()), float(logs.std()) or 1.0)
        return cls(offsets, limits, centres, observations.words)

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.centres, *self.words)

    def logarithms(self, points: Cells, name: str) -> Floats:
        """Return the logarithms of a numeric axis, unscaled."""
        return _logarithms(np.asarray(points[name], float), self.offsets[name], self.limits[name])

    def __call__(self, points: Cells) -> Floats:
        """Return points × features."""
        columns = [
            (self.logarithms(points, name) - middle) / spread
            for name, (middle, spread) in self.centres.items()
        ]
        for name, words in self.words.items():
            values = np.asarray(points[name]).astype(str)
            columns += [(values == word).astype(float) for word in words]
        return np.column_stack(columns)


def _logarithms(values: Floats, offset: float, limit: float) -> Floats:
    return np.log(np.maximum(np.where(np.isfinite(values), values, limit) + offset, 1e-12))


@dataclass(frozen=True)
class GaussianProcess(Predictor):
    """Fitted Gaussian process of log(throughput). Its estimate is the median, exp(mean)."""

    regressor: Any
    features: Features
    noise: float  # standard deviation of log(throughput) about the surface that the errors do not explain
    single: float  # standard deviation of log(throughput) of one more measurement about the surface
    scatter: Scatter
    """Scatter of single measurements about the surface without their point, in standard deviations."""
    name = "gaussian_process"
    about = "Gaussian process of log(throughput) over the axes, which knows no physics"

    def estimate(self, points: Cells) -> Floats:
        return np.exp(self._surface(points)[0])

    def uncertainty(self, points: Cells) -> tuple[Floats, Floats]:
        middle, spread = self._surface(points)
        half = spread * stats.norm.ppf(0.5 + CONFIDENCE / 2)
        return np.exp(middle - half), np.exp(middle + half)

    def draws(self, points: Cells, count: int = 200) -> Floats:
        middle, spread = self._surface(points)
        off = self.scatter.drawn(count, np.exp(middle)) * np.hypot(spread, self.single)
        return np.asarray(np.exp(middle + off))

    def inputs(self, points: Cells) -> Floats:
        """Return points × features for the regressor."""
        return self.features(self.domain.filled(points, self.features.axes))

    def _surface(self, points: Cells) -> tuple[Floats, Floats]:
        return surface(self.regressor, self.inputs(points), self.noise)


def fit_process(observations: Observations) -> GaussianProcess:
    """Fit a Gaussian process with a Matérn 5/2 kernel and one length for each axis.

    The process (Rasmussen, Williams 2006) is fitted to log(throughput), the median of each point's repetitions. A
    throughput of 0 counts as half of the smallest positive one, and `problems` report it. Maximum likelihood determines
    lengths from at most 300 points. Leaving out each point (jackknife) estimates the scatter of single measurements.
    Raises ValueError if the observations have no axis or no throughput.
    """
    throughput = observations.throughput
    if not observations.axes or not throughput.any():
        raise ValueError("a Gaussian process needs an axis with several values, and throughput")
    least = float(throughput[throughput > 0].min()) / 2
    logs = np.log(np.maximum(throughput, least))
    features = Features.from_observations(observations)
    groups = observations.frame.assign(log=logs).groupby("point", sort=False)
    cells, counts = list(groups.indices.values()), groups.size().to_numpy()
    rows = features(observations.frame)
    inputs = np.array([rows[of_point].mean(axis=0) for of_point in cells])
    outputs = groups["log"].median().to_numpy(float)
    errors = groups["relative"].mean().to_numpy(float) / np.sqrt(counts)
    generator = np.random.default_rng(SEED)
    held = some_rows(len(outputs), generator)
    inputs, outputs, errors = inputs[held], outputs[held], errors[held]
    regressor, noise, scale = fit_regressor(
        inputs, outputs, errors, generator, np.ones(inputs.shape[1]), (0.05, 1e3)
    )
    repeated = float(groups["log"].var().mean())  # NaN without repetitions
    single = math.sqrt(noise**2 + (repeated if math.isfinite(repeated) else float(np.mean(errors**2))))
    place, row = np.repeat(np.arange(len(held)), counts[held]), np.concatenate([cells[at] for at in held])
    middle = outputs - scale * leave_one_out(regressor)[0]
    # A jump shortens a length everywhere, which would make leave-one-out deviations too large elsewhere.
    spread = surface(regressor, inputs, noise)[1]
    off = (logs[row] - middle[place]) / np.hypot(spread, single)[place]
    off = off * new_run(off, observations.take(row))
    scatter = Scatter.from_residuals(off, np.exp(middle)[place], len(held) - 1)
    zeros = int(np.sum(throughput == 0))
    problems = (f"{zeros} cells without throughput count as {short(least)} Gbit/s",) if zeros else ()
    domain = Domain.from_observations(observations)
    return GaussianProcess(regressor, features, noise, single, scatter, domain=domain, problems=problems)


def surface(regressor: Any, inputs: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the surface itself, without measurement noise."""
    middle, spread = regressor.predict(inputs, return_std=True)
    # scikit-learn's deviation includes the white kernel.
    return np.asarray(middle), np.sqrt(np.maximum(np.asarray(spread) ** 2 - noise**2, 0.0))


def leave_one_out(regressor: Any) -> tuple[Floats, Floats]:
    """Return each output's distance from its prediction by all others, and that prediction's deviation.

    Both are in units of the outputs' standard deviation. Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes
    for Machine Learning, 2006, section 5.4.2.
    """
    inverse = np.diag(linalg.cho_solve((regressor.L_, True), np.eye(len(regressor.L_))))
    return np.ravel(regressor.alpha_) / inverse, 1 / np.sqrt(inverse)


def fit_regressor(
    inputs: Floats,
    outputs: Floats,
    errors: Floats,
    generator: np.random.Generator,
    lengths: Floats | float,
    bounds: tuple[float, float],
) -> tuple[Any, float, float]:
    """Fit scikit-learn's process to points × features; errors are standard deviations of the outputs.

    The kernel has the `lengths` at the start, one for each feature or one for all, and they stay within the bounds.
    Returns the process, the standard deviation of outputs about its surface that the errors do not explain, and the
    scale of the outputs.
    """
    scale = float(outputs.std()) or 1.0
    kernel = _kernel(lengths, bounds)
    regressor = _regressor(
        inputs, outputs, errors / scale, some_rows(len(outputs), generator, _LEARN), kernel
    )
    return regressor, math.sqrt(float(regressor.kernel_.k2.noise_level)) * scale, scale


def _kernel(lengths: Floats | float, bounds: tuple[float, float]) -> Any:
    from sklearn.gaussian_process import kernels  # type: ignore[import-untyped]

    matern = kernels.Matern(lengths, bounds, nu=2.5)
    return kernels.ConstantKernel(1.0, (1e-2, 1e2)) * matern + kernels.WhiteKernel(1e-2, (1e-6, 1.0))


def _regressor(
    inputs: Floats, outputs: Floats, errors: Floats, learned: NDArray[np.int64], kernel: Any
) -> Any:
    """Return scikit-learn's process of all points, with lengths from the `learned` rows and scaled errors."""
    # Importing scikit-learn takes a second, and other models do not need it.
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.gaussian_process import GaussianProcessRegressor

    settings: dict[str, Any] = {"normalize_y": True, "random_state": SEED}
    with warnings.catch_warnings():
        # A length at its bound means an axis without influence, which is no fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = GaussianProcessRegressor(
            kernel, alpha=errors[learned] ** 2, n_restarts_optimizer=1, **settings
        ).fit(inputs[learned], outputs[learned])
    if len(learned) == len(outputs):
        return first
    whole = GaussianProcessRegressor(first.kernel_, alpha=errors**2, optimizer=None, **settings)
    return whole.fit(inputs, outputs)


def some_rows(count: int, generator: np.random.Generator, most: int = _HOLD) -> NDArray[np.int64]:
    """Return all rows, or `most` of them at random: the time of a process grows with the cube."""
    if count <= most:
        return np.arange(count)
    return np.sort(generator.choice(count, most, replace=False))


class _Grid(NamedTuple):
    features: Features
    places: Mapping[str, Floats]  # logarithms of each numeric axis with several values, ascending
    words: Mapping[str, tuple[str, ...]]
    rates: Floats
    """log(throughput in Gbit/s): words × places, in their order; the last of each words' places is their mean."""

    @classmethod
    def from_observations(cls, observations: Observations, features: Features) -> _Grid:
        """Return the medians of observations. Raises ValueError for a grid with too many places."""
        frame = observations.frame
        words = observations.words
        places: dict[str, Floats] = {}
        index = [np.searchsorted(values, frame[name].astype(str)) for name, values in words.items()]
        for name in features.centres:
            at = pd.Series(features.logarithms(frame, name))
            classes = observations.classes(name).reset_index(drop=True)
            if classes.nunique() > 1:
                middles = at.groupby(classes).median()
                places[name] = middles.to_numpy(float)
                index.append(np.searchsorted(middles.index.to_numpy(), classes))
        shape = [len(values) for values in (*words.values(), *places.values())]
        if math.prod(shape) > _MOST:
            raise ValueError(f"a table of {math.prod(shape)} places")
        rates = np.full(shape, np.nan)
        logs = pd.Series(np.log(np.maximum(observations.throughput, _SMALLEST)))
        for key, value in logs.groupby(index).median().items():
            rates[key] = value
        rates = _filled(rates, list(places.values()), len(words))
        for axis in range(len(words)):
            rates = np.concatenate([rates, rates.mean(axis=axis, keepdims=True)], axis=axis)
        return cls(features, places, words, rates)

    def look_up(self, points: Cells) -> Floats:
        """Return Gbit/s by interpolation between places; an unknown word has the mean of all words."""
        at, lines = [], []
        for name, words in self.words.items():
            codes = pd.Categorical(np.asarray(points[name]).astype(str), words).codes
            at.append(np.where(codes < 0, len(words), codes))
            lines.append(np.arange(len(words) + 1, dtype=float))
        for name, line in self.places.items():
            at.append(np.clip(self.features.logarithms(points, name), line[0], line[-1]))
            lines.append(line)
        return np.exp(RegularGridInterpolator(lines, self.rates)(np.column_stack(at)))


@dataclass(frozen=True)
class LookupTable(Predictor):
    """Throughput over the grid of the axes, linear in logarithms between places and constant beyond them."""

    grid: _Grid
    scatter: Scatter  # scatter of single measurements about the table without their points
    medians: Scatter  # scatter of the medians of points
    name = "table"
    about = "Lookup table: medians of the cells, and straight lines between them"

    def estimate(self, points: Cells) -> Floats:
        return self.grid.look_up(self.domain.filled(points, (*self.grid.places, *self.grid.words)))

    def uncertainty(self, points: Cells) -> tuple[Floats, Floats]:
        tail = (1 - CONFIDENCE) / 2
        middle = self.estimate(points)
        low, high = middle * np.exp(self.medians.residuals(np.array([tail, 1 - tail]), middle))
        return low, high

    def draws(self, points: Cells, count: int = 200) -> Floats:
        middle = self.estimate(points)
        return np.asarray(middle * np.exp(self.scatter.drawn(count, middle)))


def fit_table(observations: Observations) -> LookupTable:
    """Build a table from the medians of points.

    An unmeasured place of the grid has the mean of the lines along each axis through it; interpolation precedes
    extrapolation. Leaving out an eighth of the points at a time estimates the scatter of measurements. Raises
    ValueError if there are fewer than three points, or the grid has more than 100,000 places.
    """
    features = Features.from_observations(observations)
    points = np.asarray(pd.factorize(observations.frame["point"])[0])
    count = int(points.max()) + 1
    if count < 3:
        raise ValueError("a table needs at least three points")
    part = np.random.default_rng(SEED).permutation(count) % min(_PARTS, count)
    estimate = np.empty(len(observations))
    for at in range(int(part.max()) + 1):
        out = part[points] == at
        rest = _Grid.from_observations(observations.take(~out), features)
        estimate[out] = rest.look_up(observations.take(out).frame)
    off = log_ratio(observations.throughput, estimate)
    rows = pd.DataFrame({"off": off, "estimate": estimate}).groupby(points).median()
    return LookupTable(
        _Grid.from_observations(observations, features),
        Scatter.from_residuals(off * new_run(off, observations), estimate, count - 1),
        Scatter.from_residuals(rows["off"].to_numpy(), rows["estimate"].to_numpy(), count - 1),
        domain=Domain.from_observations(observations),
    )


def _filled(rates: Floats, places: Sequence[Floats], words: int) -> Floats:
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # means of nothing are NaN
        while np.isnan(rates).any():
            for ends in (np.nan, None):
                lines = [
                    np.apply_along_axis(_line, words + axis, rates, at, ends)
                    for axis, at in enumerate(places)
                ]
                guesses = np.nanmean(lines, axis=0) if lines else rates
                if (np.isnan(rates) & np.isfinite(guesses)).any():
                    break
            else:  # nothing was measured with these words
                guesses = np.broadcast_to(np.nanmean(rates, tuple(range(words)), keepdims=True), rates.shape)
                if np.isnan(guesses[np.isnan(rates)]).all():
                    guesses = np.full(rates.shape, np.nanmean(rates))
            rates = np.where(np.isnan(rates), guesses, rates)
    return rates


def _line(rates: Floats, at: Floats, ends: float | None) -> Floats:
    """Interpolate a line; beyond its known ends use the value `ends`, or the end's value if it is None."""
    known = np.isfinite(rates)
    return np.interp(at, at[known], rates[known], ends, ends) if known.any() else rates
