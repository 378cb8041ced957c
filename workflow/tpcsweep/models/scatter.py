# SPDX-License-Identifier: Apache-2.0
"""How far measured cells lie from a fit: more where a formula says little, less where a path is full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpcsweep.files import number
from tpcsweep.models.base import Floats

BAND = 40
"""Cells of similar throughput whose scatter is taken as one; fewer do not tell its tails."""

_QUANTILES = np.linspace(0.005, 0.995, 100)
_FARTHEST = 20.0  # a factor so large is as far off as it says


@dataclass(frozen=True)
class Scatter:
    """Quantiles of log(measured / fitted), in bands of fitted throughput."""

    at: Floats
    """Median of log(fitted throughput in Gbit/s) of each band, ascending."""
    quantiles: Floats
    """Bands × quantiles."""

    @classmethod
    def of(cls, throughput: Floats, fitted: Floats, unknowns: int = 0) -> Scatter:
        """Take it from cells, both in Gbit/s; widened by the degrees of freedom that the fit used up."""
        place = np.log(np.maximum(fitted, 1e-9))
        ratio = np.log(np.clip(throughput / np.exp(place), 1 / _FARTHEST, _FARTHEST))
        widened = ratio * math.sqrt(len(ratio) / (len(ratio) - unknowns))
        bands = np.array_split(np.argsort(place, kind="stable"), max(1, len(place) // BAND))
        return cls(
            np.array([np.median(place[rows]) for rows in bands]),
            np.array([np.quantile(widened[rows], _QUANTILES) for rows in bands]),
        )

    @classmethod
    def none(cls) -> Scatter:
        return cls(np.zeros(1), np.zeros((1, len(_QUANTILES))))

    def factors(self, levels: Floats, rates: Floats) -> Floats:
        """Give measured over fitted at probabilities (draws), for fitted rates in Gbit/s (points): draws × points.

        Between the middles of bands it changes evenly with the logarithm of the rate.
        """
        each = np.array([np.interp(levels, _QUANTILES, band) for band in self.quantiles])
        place = np.log(np.maximum(rates, 1e-9))
        shares = np.array([np.interp(place, self.at, share) for share in np.eye(len(self.at))])
        return np.asarray(np.exp(each.T @ shares))

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": [number(value, 5) for value in self.at],
            "quantiles": [[number(value, 4) for value in band] for band in self.quantiles],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scatter:
        return cls(np.array(content["at"], float), np.array(content["quantiles"], float))
