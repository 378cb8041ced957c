# SPDX-License-Identifier: Apache-2.0
"""Interface of predictors, range of the fitted data, and scatter of measurements."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.analysis.models.formula import SEED, Cells, Floats
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.common.numbers import CONFIDENCE, json_number, plain
from tpcsweep.data.labels import describe, variable_attributes
from tpcsweep.data.variables import Variable
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import REPETITION

MOST_CHOSEN = 48
"""Most values of an axis that can be recommended; an axis with more was measured rather than set."""

BAND = 40  # fewest cells of similar throughput in a band of the scatter; fewer do not determine its tails

QUANTILES = np.linspace(0.005, 0.995, 100)
_FARTHEST = 20.0  # largest factor between measured and predicted throughput; larger ones are clipped
_EQUAL = 6  # digits of log(throughput) to which two predictions are equal


@dataclass(frozen=True)
class Domain:
    """Range of the fitted data: the ends of each axis, and the single value of each other parameter."""

    ranges: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]
    fixed: Mapping[str, float]
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Measured values of each numeric axis, ascending, if there are at most `MOST_CHOSEN`."""

    @classmethod
    def from_observations(cls, observations: Observations) -> Domain:
        frame, axes = observations.frame, observations.axes
        values = {name: tuple(sorted(set(frame[name]))) for name in observations.numeric}
        parameters = {name: at for name, at in observations.points.items() if name in Parameters.model_fields}
        return cls(
            {name: (float(frame[name].min()), float(frame[name].max())) for name in observations.numeric},
            observations.words,
            {name: float(at[0]) for name, at in parameters.items() if name not in axes},
            {name: measured for name, measured in values.items() if len(measured) <= MOST_CHOSEN},
        )

    def filled(self, points: Cells, axes: Sequence[str]) -> dict[str, Any]:
        """Return `points` and what has a single value in the data. Raises KeyError without a varying one of `axes`."""
        columns = {str(name): points[name] for name in points}
        if lacking := [name for name in axes if name in self.ranges and name not in columns]:
            raise KeyError(
                f"the points to predict have no {' and no '.join(lacking)}: these vary in the data"
            )
        count = len(next(iter(columns.values()), [0]))
        return {name: np.full(count, value) for name, value in self.fixed.items()} | columns

    def outside(self, points: Cells) -> NDArray[np.bool_]:
        """Return for each row whether it is beyond the data on an axis, or differs from a fixed parameter."""
        columns = {str(name): np.asarray(points[name]) for name in points}
        out = np.zeros(len(next(iter(columns.values()), [0])), bool)
        for name, values in columns.items():
            if name in self.ranges:
                low, high = self.ranges[name]
                out |= (values < low) | (values > high)
            elif name in self.words:
                out |= ~np.isin(values.astype(str), self.words[name])
            elif name in self.fixed:
                out |= values != self.fixed[name]
        return out

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; infinity, which JSON lacks, becomes text."""
        text = json.dumps(asdict(self))
        content: dict[str, Any] = json.loads(text, parse_constant=lambda name: str(float(name)))
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Domain:
        return cls(
            {name: (float(low), float(high)) for name, (low, high) in content["ranges"].items()},
            {name: tuple(values) for name, values in content["words"].items()},
            {name: float(value) for name, value in content["fixed"].items()},
            {name: tuple(map(float, values)) for name, values in content["values"].items()},
        )


@dataclass(frozen=True)
class Scatter:
    """Quantiles of residuals in bands of predicted throughput: poor formulas scatter more, full paths less."""

    at: Floats  # median of log(predicted throughput in Gbit/s) of each band, ascending
    quantiles: Floats  # bands × quantiles

    @classmethod
    def from_residuals(cls, residuals: Floats, predicted: Floats, freedom: float = math.inf) -> Scatter:
        """Estimate the scatter from residuals of single measurements and their predictions in Gbit/s.

        Residuals may be on any scale. Cells with equal predictions share a band, so their order does not matter. The
        i-th of n residuals has the probability i/(n + 1), the chance that one more residual lies below it; beyond the
        first and the last, a normal distribution continues the tails. Few degrees of `freedom` widen the tails as
        Student's t does.
        """
        place = np.log(np.maximum(predicted, 1e-9))
        numbers = _bands(place)
        bands = [numbers == band for band in range(numbers.max() + 1)]
        return cls(
            np.array([np.median(place[rows]) for rows in bands]),
            np.array([_quantiles(residuals[rows], freedom) for rows in bands]),
        )

    def residuals(self, levels: Floats, rates: Floats) -> Floats:
        """Return residuals (draws × points) for probabilities (draws) and predicted rates in Gbit/s (points).

        Between the medians of bands the residuals change linearly with the logarithm of the rate.
        """
        each = np.array([np.interp(levels, QUANTILES, band) for band in self.quantiles])
        place = np.log(np.maximum(rates, 1e-9))
        shares = np.array([np.interp(place, self.at, share) for share in np.eye(len(self.at))])
        return np.asarray(each.T @ shares)

    def drawn(self, count: int, rates: Floats) -> Floats:
        """Return `residuals` of `count` draws, each with one probability at all points, evenly over (0, 1)."""
        levels = (np.random.default_rng(SEED).permutation(count) + 0.5) / count
        return self.residuals(levels, rates)

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": [json_number(value, 5) for value in self.at],
            "quantiles": [[json_number(value, 4) for value in band] for band in self.quantiles],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scatter:
        return cls(np.array(content["at"], float), np.array(content["quantiles"], float))


@dataclass(frozen=True, kw_only=True)
class Predictor(ABC):
    """Fit of a formula, or a predictor of `learned.LEARNED`."""

    domain: Domain
    problems: tuple[str, ...] = ()  # problems during the fit

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in figures and tables."""

    @property
    @abstractmethod
    def about(self) -> str:
        """Description for people, in one line or a few."""

    @abstractmethod
    def estimate(self, points: Cells) -> Floats:
        """Return the fitted throughput of each row in Gbit/s. Raises KeyError if the points lack an axis."""

    @abstractmethod
    def draws(self, points: Cells, count: int = 200) -> Floats:
        """Return possible results of measuring each point once under equal luck, in Gbit/s: draws × points."""

    def outcomes(self, points: Cells, count: int = 200) -> tuple[Floats, Floats]:
        """Return estimate and draws, for less than both take one after the other."""
        return self.estimate(points), self.draws(points, count)

    @property
    def trend(self) -> Predictor:
        """Predictor without the results of single cells."""
        return self

    def predict(self, points: xr.Dataset | Cells) -> xr.Dataset:
        """Return the throughput with the interval that would contain one more measurement.

        The points are a dataset whose coordinates are axes, or a table with one row for each; they may lack parameters
        with a single value in the fitted data. The result has their dimensions, or the dimension `point` for a table.
        `extrapolated` is true outside the ranges of the data. Raises KeyError if the points lack an axis that the
        throughput depends on.
        """
        table, template = _table(points)
        estimate, draws = self.outcomes(table)
        low, high = interval(draws)
        end = f"end of the {plain(100 * CONFIDENCE)} % interval of a measurement"
        figures = {
            "throughput": (estimate, "predicted throughput", "Gbit/s"),
            "throughput_low": (low, f"lower {end}", "Gbit/s"),
            "throughput_high": (high, f"upper {end}", "Gbit/s"),
            "extrapolated": (self.domain.outside(table), "beyond the fitted data", ""),
        }
        variables: dict[str, Any] = {
            name: (
                template.dims,
                values.reshape(template.shape),
                variable_attributes(name, Variable(units, about)),
            )
            for name, (values, about, units) in figures.items()
        }
        about = {"title": f"Throughput as predicted by {self.name}", "model": self.name}
        return xr.Dataset(variables, template.coords, about)


def interval(draws: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % interval of each column."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
    return low, high


def log_ratio(throughput: Floats, predicted: Floats) -> Floats:
    """Return log(measured / predicted), clipped to a factor of 20 in both directions."""
    return np.log(np.clip(throughput / np.maximum(predicted, 1e-9), 1 / _FARTHEST, _FARTHEST))


def new_run(off: Floats, observations: Observations) -> float:
    """Return the factor by which residuals (any scale) scatter more in a new run than in the fitted runs.

    Runs are a random effect. In residuals about the mean of R runs, the variance σ² between runs counts (1 - 1/R)
    times; in residuals of a new run it counts (1 + 1/R) times. For each point, σ² is estimated from the medians of its
    runs, minus their part of the scatter within runs (one-way analysis of variance: S. R. Searle, G. Casella, C. E.
    McCulloch, Variance components, 1992, chapter 3).
    """
    runs, total = observations.runs, float(np.var(off))
    if runs is None or total <= 0:
        return 1.0
    rows = pd.DataFrame({"point": observations.frame["point"], "run": runs, "off": off})
    cells = rows.groupby(["point", "run"])["off"].agg(["median", "var", "size"])
    cells = cells[cells.groupby("point")["median"].transform("size") > 1]
    points = cells.groupby("point")
    freedom = len(cells) - points.ngroups
    means = float(((cells["median"] - points["median"].transform("mean")) ** 2).sum()) / freedom
    inside = cells[cells["size"] > 1]
    within = float(np.average(inside["var"], weights=inside["size"] - 1)) if len(inside) else 0.0
    between = max(means - within * float((1 / cells["size"]).mean()), 0.0)
    return math.sqrt(1 + 2 * between / total * float((1 / points.size()).mean()))


def _bands(place: Floats) -> NDArray[np.int64]:
    """Return each row's band number, from 0; bands have at least `BAND` rows, and equal rows share a band."""
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
    known = np.clip(QUANTILES, 1 / (count + 1), count / (count + 1))
    middle = float(np.median(residuals))
    away = np.quantile(residuals, known, method="weibull") - middle
    if count > 1:
        away = away * np.where(known == QUANTILES, 1.0, stats.norm.ppf(QUANTILES) / stats.norm.ppf(known))
    wider = stats.t.ppf(QUANTILES, max(freedom, 1.0)) / stats.norm.ppf(QUANTILES)
    return np.asarray(middle + away * wider)


def _table(points: xr.Dataset | Cells) -> tuple[pd.DataFrame, xr.DataArray]:
    if not isinstance(points, xr.Dataset):
        table = pd.DataFrame({str(name): np.asarray(points[name]) for name in points})
        return table, xr.DataArray(np.zeros(len(table)), {"point": table.index}, ("point",))
    sizes = {str(name): len(points[name]) for name in points.sizes if name in points.coords}
    sizes.pop(REPETITION, None)
    coordinates = {
        str(name): values for name, values in points.coords.items() if set(values.dims) <= set(sizes)
    }
    template = xr.DataArray(np.zeros(tuple(sizes.values())), coordinates, tuple(sizes))
    columns = {
        name: values.broadcast_like(template).transpose(*sizes).values.ravel()
        for name, values in coordinates.items()
        if name in sizes or describe(name).units
    }
    return pd.DataFrame(columns, index=range(template.size)), template
