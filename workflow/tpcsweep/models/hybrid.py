# SPDX-License-Identifier: Apache-2.0
"""A formula, and a Gaussian process for what it misses: physics beyond the data, and the data where there are some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tpcsweep.models import combined
from tpcsweep.models.base import Floats, Points
from tpcsweep.models.baseline import GaussianProcess, fit_process
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.observations import Observations
from tpcsweep.models.places import Predictor

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

NAME = "hybrid"

_MOST = 20.0  # a ratio so far from 1 is as far off as it says


@dataclass(frozen=True)
class Hybrid(Predictor):
    """The throughput of `combined`, times a Gaussian process of measured over fitted."""

    formula: Fit
    process: GaussianProcess
    """Of the ratio: far from all data it says the mean of all ratios, which is about 1."""
    name = NAME
    about = "Hybrid: the formula combined, times a Gaussian process for measured over fitted"

    def estimate(self, points: Points | pd.DataFrame) -> Floats:
        return self.formula.estimate(points) * self.process.estimate(points)

    def uncertainty(self, points: Points | pd.DataFrame, confidence: float = 0.95) -> tuple[Floats, Floats]:
        rates = self.formula.estimate(points)
        low, high = self.process.uncertainty(points, confidence)
        return rates * low, rates * high

    def draws(self, points: Points | pd.DataFrame, count: int = 200, seed: int = 0) -> Floats:
        return np.asarray(self.formula.estimate(points) * self.process.draws(points, count, seed))


def fit_hybrid(observations: Observations, *, seed: int = 0) -> Hybrid:
    """Fit the formula, and the process to what is measured over what it says.

    Raises:
        ValueError: for observations without an axis, or to which the formula could not be fitted.
    """
    formula = fit(combined.MODEL, observations, resamples=0, seed=seed)
    if not formula.ok:
        raise ValueError("; ".join(formula.problems))
    estimate = np.maximum(formula.estimate(observations.frame), 1e-9)
    ratio = np.clip(observations.throughput / estimate, 1 / _MOST, _MOST)
    error = observations.error_at(estimate) / estimate
    ratios = replace(observations, frame=observations.frame.assign(throughput=ratio, error=error))
    process = fit_process(ratios, seed=seed)
    return Hybrid(formula, process, domain=process.domain, problems=formula.problems)
