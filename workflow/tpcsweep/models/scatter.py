# SPDX-License-Identifier: Apache-2.0
"""How far measured cells lie from what is predicted: more where a formula says little, less where a path is full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from tpcsweep.files import number
from tpcsweep.models.base import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

BAND = 40
"""Cells of similar throughput whose scatter is taken as one; fewer do not tell its tails."""

_QUANTILES = np.linspace(0.005, 0.995, 100)
_FARTHEST = 20.0  # a factor so large is as far off as it says
_EQUAL = 6  # digits of log(throughput) by which two predictions are one


@dataclass(frozen=True)
class Scatter:
    """Quantiles of residuals, in bands of predicted throughput."""

    at: Floats
    """Median of log(predicted throughput in Gbit/s) of each band, ascending."""
    quantiles: Floats
    """Bands × quantiles."""

    @classmethod
    def of(cls, residuals: Floats, predicted: Floats, freedom: float = math.inf) -> Scatter:
        """Take it from residuals of single measurements, on whatever scale.

        Cells of the same prediction are in one band, whatever their order. The i-th of n residuals stands for the
        probability i/(n + 1), so that one more lies between two of them as often as it should; what is beyond the
        first and the last is as far as in a normal distribution through them.

        Args:
            residuals: a row for each measurement.
            predicted: Gbit/s, for each.
            freedom: degrees of freedom behind them; few widen the tails as Student's t is wider than the normal
                distribution.
        """
        place = np.log(np.maximum(predicted, 1e-9))
        numbers = _bands(place)
        bands = [np.flatnonzero(numbers == band) for band in range(numbers.max() + 1)]
        return cls(
            np.array([np.median(place[rows]) for rows in bands]),
            np.array([_quantiles(residuals[rows], freedom) for rows in bands]),
        )

    @classmethod
    def none(cls) -> Scatter:
        return cls(np.zeros(1), np.zeros((1, len(_QUANTILES))))

    def residuals(self, levels: Floats, rates: Floats) -> Floats:
        """Give residuals at probabilities (draws), for predicted rates in Gbit/s (points): draws × points.

        Between the middles of bands they change evenly with the logarithm of the rate.
        """
        each = np.array([np.interp(levels, _QUANTILES, band) for band in self.quantiles])
        place = np.log(np.maximum(rates, 1e-9))
        shares = np.array([np.interp(place, self.at, share) for share in np.eye(len(self.at))])
        return np.asarray(each.T @ shares)

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": [number(value, 5) for value in self.at],
            "quantiles": [[number(value, 4) for value in band] for band in self.quantiles],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scatter:
        return cls(np.array(content["at"], float), np.array(content["quantiles"], float))


def log_ratio(throughput: Floats, predicted: Floats) -> Floats:
    """Give log(measured / predicted), within a factor of 20 to both sides."""
    return np.log(np.clip(throughput / np.maximum(predicted, 1e-9), 1 / _FARTHEST, _FARTHEST))


def _bands(place: Floats) -> NDArray[np.int64]:
    """The number of each row's band, from 0: at least `BAND` rows each, and equal ones in the same."""
    _, value, counts = np.unique(np.round(place, _EQUAL), return_inverse=True, return_counts=True)
    numbers = np.zeros(len(counts), np.int64)
    held, left = 0, len(place)
    for at, count in enumerate(counts):
        begins = held >= BAND and left >= BAND
        numbers[at] = numbers[max(at - 1, 0)] + begins
        held, left = count if begins else held + count, left - count
    return numbers[value]


def _quantiles(residuals: Floats, freedom: float) -> Floats:
    count = len(residuals)
    known = np.clip(_QUANTILES, 1 / (count + 1), count / (count + 1))
    middle = float(np.median(residuals))
    away = np.quantile(residuals, known, method="weibull") - middle
    if count > 1:
        away = away * np.where(known == _QUANTILES, 1.0, stats.norm.ppf(_QUANTILES) / stats.norm.ppf(known))
    return np.asarray(middle + away * _wider(freedom))


def _wider(freedom: float) -> Floats:
    """By how much Student's t is wider than the normal distribution, at each quantile."""
    return np.asarray(stats.t.ppf(_QUANTILES, max(freedom, 1.0)) / stats.norm.ppf(_QUANTILES))
