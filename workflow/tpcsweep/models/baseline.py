# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process over the axes: a baseline that knows no physics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, stats

from tpcsweep.models.base import Floats, Points
from tpcsweep.models.observations import Observations
from tpcsweep.models.places import Domain, Predictor, levels
from tpcsweep.models.runs import new_run
from tpcsweep.models.scatter import Scatter

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

NAME = "gaussian_process"

_LEARN = 300  # points from which lengths are learned: the time grows with the cube
_HOLD = 1500  # points that predictions stand on


@dataclass(frozen=True)
class Features:
    """Axes as a matrix: logarithms of numbers, scaled, and a column for each word."""

    offsets: Mapping[str, float]
    """What is added before the logarithm: 0 ms must have one."""
    limits: Mapping[str, float]
    """What "no limit" counts as: twice the largest value."""
    centres: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, observations: Observations) -> Features:
        frame = observations.frame
        offsets, limits, centres = {}, {}, {}
        for name in observations.numeric:
            values = frame[name].to_numpy(float)
            finite = values[np.isfinite(values)]
            # 1 ms, stream or byte: where counts begin; below 1 (cores) nothing, as these are never 0.
            offsets[name] = 1.0 if finite.min(initial=1.0) == 0 else 0.0
            limits[name] = 2 * float(finite.max(initial=1.0))
            logs = logarithms(values, offsets[name], limits[name])
            centres[name] = (float(logs.mean()), float(logs.std()) or 1.0)
        return cls(offsets, limits, centres, observations.words)

    def __call__(self, points: Points | pd.DataFrame) -> Floats:
        """Give points × features."""
        columns = []
        for name, (middle, spread) in self.centres.items():
            logs = logarithms(np.asarray(points[name], float), self.offsets[name], self.limits[name])
            columns.append((logs - middle) / spread)
        for name, words in self.words.items():
            values = np.asarray(points[name]).astype(str)
            columns += [(values == word).astype(float) for word in words]
        return np.column_stack(columns)


def logarithms(values: Floats, offset: float, limit: float) -> Floats:
    """Take logarithms with an offset, and no limit as a number."""
    return np.log(np.maximum(np.where(np.isfinite(values), values, limit) + offset, 1e-12))


@dataclass(frozen=True)
class GaussianProcess(Predictor):
    """A fitted Gaussian process."""

    regressor: Any
    features: Features
    noise: float
    """Standard deviation of the mean of a point's repetitions about the surface, Gbit/s, besides their errors."""
    single: float
    """Standard deviation of one more measurement about the surface, Gbit/s, as the errors have it."""
    scatter: Scatter
    """Of single measurements, each from the surface without its point, in deviations that the process gives them."""
    name = NAME
    about = "Gaussian process over the axes, which knows no physics"

    def surface(self, points: Points | pd.DataFrame) -> tuple[Floats, Floats]:
        """Give mean and standard deviation of the surface itself, Gbit/s: without a measurement's noise."""
        axes = (*self.features.centres, *self.features.words)
        middle, spread = self.regressor.predict(
            self.features(self.domain.filled(points, axes)), return_std=True
        )
        # scikit-learn's deviation has the white kernel in it.
        inner = np.sqrt(np.maximum(np.asarray(spread) ** 2 - self.noise**2, 0.0))
        return np.maximum(np.asarray(middle), 0.0), inner

    def estimate(self, points: Points | pd.DataFrame) -> Floats:
        return self.surface(points)[0]

    def uncertainty(self, points: Points | pd.DataFrame, confidence: float = 0.95) -> tuple[Floats, Floats]:
        middle, spread = self.surface(points)
        half = spread * stats.norm.ppf(0.5 + confidence / 2)
        return np.maximum(middle - half, 0.0), middle + half

    def draws(self, points: Points | pd.DataFrame, count: int = 200, seed: int = 0) -> Floats:
        middle, spread = self.surface(points)
        off = self.scatter.residuals(levels(count, seed), middle)
        return np.asarray(np.maximum(middle + np.hypot(spread, self.single) * off, 0.0))


def fit_process(observations: Observations, *, seed: int = 0) -> GaussianProcess:
    """Fit a Gaussian process with a Matérn 5/2 kernel, a length for each axis (Rasmussen, Williams 2006).

    It is fitted to the median of each point's repetitions. Lengths are learned by maximum likelihood from at most 300
    points. How far single measurements lie from it is seen where each point is left out.

    Raises:
        ValueError: for observations without an axis.
    """
    # Loading scikit-learn takes a second, and other models do not need it.
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.gaussian_process import GaussianProcessRegressor  # type: ignore[import-untyped]
    from sklearn.gaussian_process.kernels import (  # type: ignore[import-untyped]
        ConstantKernel,
        Matern,
        WhiteKernel,
    )

    if not observations.axes:
        raise ValueError("a Gaussian process needs an axis with several values")
    features = Features.of(observations)
    frame = observations.frame
    groups = frame.groupby("point", sort=False)
    counts = groups.size().to_numpy()
    rows = features(frame)
    inputs = np.array([rows[cells].mean(axis=0) for cells in groups.indices.values()])
    outputs = groups["throughput"].median().to_numpy(float)
    errors = groups["error"].mean().to_numpy(float) / np.sqrt(counts)
    generator = np.random.default_rng(seed)
    held = _some(len(outputs), _HOLD, generator)
    inputs, outputs, errors = inputs[held], outputs[held], errors[held]
    scale = float(outputs.std()) or 1.0
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(
        np.ones(inputs.shape[1]), (0.05, 1e3), nu=2.5
    ) + WhiteKernel(1e-2, (1e-6, 1.0))
    learned = _some(len(outputs), _LEARN, generator)
    settings: dict[str, Any] = {"normalize_y": True, "random_state": seed}
    with warnings.catch_warnings():
        # A length at its bound is an axis that does not matter, and no fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = GaussianProcessRegressor(
            kernel, alpha=(errors[learned] / scale) ** 2, n_restarts_optimizer=1, **settings
        ).fit(inputs[learned], outputs[learned])
    last = first
    if len(learned) < len(outputs):
        last = GaussianProcessRegressor(
            first.kernel_, alpha=(errors / scale) ** 2, optimizer=None, **settings
        ).fit(inputs, outputs)
    noise = math.sqrt(float(last.kernel_.k2.noise_level)) * scale
    repeated = float(groups["throughput"].var().mean())  # NaN without repetitions
    single = math.sqrt(noise**2 + (repeated if math.isfinite(repeated) else float(np.mean(errors**2))))
    cells = list(groups.indices.values())
    place, row = np.repeat(np.arange(len(held)), counts[held]), np.concatenate([cells[at] for at in held])
    middle, spread = _without_each(last, outputs)
    inner = np.sqrt(np.maximum(spread**2 - noise**2 - errors**2, 0.0))
    off = (observations.throughput[row] - middle[place]) / np.hypot(inner, single)[place]
    off = off * new_run(off, observations.take(row))
    scatter = Scatter.of(off, np.maximum(middle, 0.0)[place], len(held) - 1)
    return GaussianProcess(last, features, noise, single, scatter, domain=Domain.of(observations))


def _without_each(regressor: Any, outputs: Floats) -> tuple[Floats, Floats]:
    """Give what a regressor says of each of the outputs that it was fitted to, without it: mean and deviation.

    Source:
        C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.2
    """
    inverse = np.diag(linalg.cho_solve((regressor.L_, True), np.eye(len(outputs))))
    scale = float(outputs.std()) or 1.0
    return outputs - scale * np.ravel(regressor.alpha_) / inverse, scale / np.sqrt(inverse)


def _some(count: int, most: int, generator: np.random.Generator) -> NDArray[np.int64]:
    if count <= most:
        return np.arange(count)
    return np.sort(generator.choice(count, most, replace=False))
