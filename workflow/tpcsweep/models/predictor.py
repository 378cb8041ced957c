# SPDX-License-Identifier: Apache-2.0
"""Everything that predicts: the interface, the reach of the fitted data, and how far measurements scatter."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import describe
from tpcsweep.dataset.labels import attributes_of
from tpcsweep.files import number
from tpcsweep.models.base import SEED, Cells, Floats
from tpcsweep.models.observations import Observations
from tpcsweep.numbers import plain
from tpcsweep.variables import Variable

CONFIDENCE = 0.95
"""The share that intervals contain."""

MOST_CHOSEN = 48
"""An axis with more values was measured rather than set, and none of its values is one to choose."""

BAND = 40
"""Cells of similar throughput whose scatter counts as one; fewer do not tell its tails."""

_QUANTILES = np.linspace(0.005, 0.995, 100)
_FARTHEST = 20.0  # the largest factor between measured and predicted: larger ones count as this
_EQUAL = 6  # digits of log(throughput) by which two predictions are one


@dataclass(frozen=True)
class Domain:
    """The reach of the fitted data: the range of each axis, and the one value of everything else."""

    ranges: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]
    fixed: Mapping[str, float]
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The measured values of each axis of numbers, ascending, if these are no more than `MOST_CHOSEN`."""

    @classmethod
    def of(cls, observations: Observations) -> Domain:
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
        """Return the columns of some points, with those that have one value in the data.

        Raises:
            KeyError: if one of `axes` varies in the data and is missing in the points.
        """
        columns = {str(name): points[name] for name in points}
        if lacking := [name for name in axes if name in self.ranges and name not in columns]:
            raise KeyError(
                f"the points to predict have no {' and no '.join(lacking)}: these vary in the data"
            )
        count = len(next(iter(columns.values()), [0]))
        return {name: np.full(count, value) for name, value in self.fixed.items()} | columns

    def outside(self, points: Cells) -> NDArray[np.bool_]:
        """Tell for each row whether it lies beyond the data on any axis, or differs from their one value."""
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
        return {
            "ranges": {name: [_text(end) for end in ends] for name, ends in self.ranges.items()},
            "words": {name: list(values) for name, values in self.words.items()},
            "fixed": {name: _text(value) for name, value in self.fixed.items()},
            "values": {name: [_text(value) for value in values] for name, values in self.values.items()},
        }

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
    """How far measured cells lie from predictions: quantiles of residuals, in bands of predicted throughput.

    A formula that says little scatters more, and a full path less.
    """

    at: Floats
    """Median of log(predicted throughput in Gbit/s) of each band, ascending."""
    quantiles: Floats
    """Bands × quantiles."""

    @classmethod
    def of(cls, residuals: Floats, predicted: Floats, freedom: float = math.inf) -> Scatter:
        """Estimate the scatter from residuals of single measurements, on any scale, and their predictions in Gbit/s.

        Cells of the same prediction are in one band, whatever their order. The i-th of n residuals stands for the
        probability i/(n + 1), so that one more lies between two of them as often as it should; beyond the first and
        the last the distribution is a normal one through them. Few degrees of `freedom` widen the tails as Student's t
        is wider than the normal distribution.
        """
        place = np.log(np.maximum(predicted, 1e-9))
        numbers = _bands(place)
        bands = [numbers == band for band in range(numbers.max() + 1)]
        return cls(
            np.array([np.median(place[rows]) for rows in bands]),
            np.array([_quantiles(residuals[rows], freedom) for rows in bands]),
        )

    @classmethod
    def none(cls) -> Scatter:
        return cls(np.zeros(1), np.zeros((1, len(_QUANTILES))))

    def residuals(self, levels: Floats, rates: Floats) -> Floats:
        """Return residuals at probabilities (draws), for predicted rates in Gbit/s (points): draws × points.

        Between the middles of bands they change evenly with the logarithm of the rate.
        """
        each = np.array([np.interp(levels, _QUANTILES, band) for band in self.quantiles])
        place = np.log(np.maximum(rates, 1e-9))
        shares = np.array([np.interp(place, self.at, share) for share in np.eye(len(self.at))])
        return np.asarray(each.T @ shares)

    def drawn(self, count: int, rates: Floats) -> Floats:
        """Return `residuals` for so many draws, each of one probability at all points: these cover (0, 1) evenly."""
        levels = (np.random.default_rng(SEED).permutation(count) + 0.5) / count
        return self.residuals(levels, rates)

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": [number(value, 5) for value in self.at],
            "quantiles": [[number(value, 4) for value in band] for band in self.quantiles],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scatter:
        return cls(np.array(content["at"], float), np.array(content["quantiles"], float))


@dataclass(frozen=True, kw_only=True)
class Predictor(ABC):
    """A fit of any model, or one of `choice.LEARNED`."""

    domain: Domain
    problems: tuple[str, ...] = ()
    """What went wrong in fitting."""
    margin = 1.0
    """The share of its risk that a plan may take: the cheapest of many settings is one that the model flatters."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in figures and tables."""

    @property
    @abstractmethod
    def about(self) -> str:
        """A description for people, of a line or a few."""

    @abstractmethod
    def estimate(self, points: Cells) -> Floats:
        """Return the fitted throughput in Gbit/s at each row.

        Raises:
            KeyError: for points without an axis of the data that the throughput depends on.
        """

    @abstractmethod
    def draws(self, points: Cells, count: int = 200) -> Floats:
        """Return possible results of measuring each point once, all with the same luck, in Gbit/s: draws × points."""

    @abstractmethod
    def uncertainty(self, points: Cells) -> tuple[Floats, Floats]:
        """Return the interval of the fitted throughput itself, Gbit/s, without the scatter of measurements."""

    def predict(self, points: xr.Dataset | Cells) -> xr.Dataset:
        """Return the throughput with the interval in which one more measurement would lie.

        `extrapolated` is true outside of the ranges of the data. The result has the dimensions of `points`, a dataset
        whose coordinates are axes, or the dimension `point` for rows of a table. Parameters with one value in the
        fitted data may be missing.

        Raises:
            KeyError: as `estimate`.
        """
        table, template = _table(points)
        low, high = interval(self.draws(table))
        end = f"end of the {plain(100 * CONFIDENCE)} % interval of a measurement"
        figures = {
            "throughput": (self.estimate(table), "predicted throughput", "Gbit/s"),
            "throughput_low": (low, f"lower {end}", "Gbit/s"),
            "throughput_high": (high, f"upper {end}", "Gbit/s"),
            "extrapolated": (self.domain.outside(table), "beyond the fitted data", ""),
        }
        variables: dict[str, Any] = {
            name: (template.dims, values.reshape(template.shape), attributes_of(Variable(units, about)))
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
    """Return log(measured / predicted), within a factor of 20 to both sides."""
    return np.log(np.clip(throughput / np.maximum(predicted, 1e-9), 1 / _FARTHEST, _FARTHEST))


def new_run(off: Floats, observations: Observations) -> float:
    """Return the factor by which residuals (on any scale) scatter more in a new run than in those that were fitted.

    Runs are a random effect, of which the next run has another value. In residuals about what R runs have in common,
    the variance σ² between runs counts (1 - 1/R) times, and in those of a new run (1 + 1/R) times. It is estimated
    point by point from the medians of each run there, less their share of the scatter inside of runs (one-way analysis
    of variance: S. R. Searle, G. Casella, C. E. McCulloch, Variance components, 1992, chapter 3).
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
    """Return the number of each row's band, from 0: at least `BAND` rows each, and equal ones in the same."""
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
    wider = stats.t.ppf(_QUANTILES, max(freedom, 1.0)) / stats.norm.ppf(_QUANTILES)
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


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
