# SPDX-License-Identifier: Apache-2.0
"""Where a prediction is wanted, what the data said of everything else, and how far they reach."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import describe
from tpcsweep.dataset.labels import attributes_of
from tpcsweep.models.base import Floats, Points
from tpcsweep.models.observations import Observations
from tpcsweep.variables import Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_VALUES = 48
"""More values on an axis than these were measured rather than set, and none of them is one to choose."""


@dataclass(frozen=True)
class Domain:
    """What the fitted data hold: the range of each axis, and the one value of everything else."""

    ranges: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]]
    fixed: Mapping[str, float]
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What was measured on each axis of numbers, ascending, where these are no more than `MOST_VALUES`."""

    @classmethod
    def of(cls, observations: Observations) -> Domain:
        frame, points = observations.frame, observations.points
        values = {name: tuple(sorted(set(frame[name]))) for name in observations.numeric}
        return cls(
            {name: (float(frame[name].min()), float(frame[name].max())) for name in observations.numeric},
            observations.words,
            {
                name: float(values[0])
                for name, values in points.items()
                if name in Parameters.model_fields and name not in observations.axes
            },
            {name: measured for name, measured in values.items() if len(measured) <= MOST_VALUES},
        )

    def filled(self, points: Points | pd.DataFrame, axes: Sequence[str]) -> dict[str, Any]:
        """Give the columns with what has one value in the data.

        Raises:
            KeyError: for an axis of the data among `axes` that is not given.
        """
        columns = {str(name): points[name] for name in points}
        if lacking := [name for name in axes if name in self.ranges and name not in columns]:
            raise KeyError(
                f"the points to predict have no {' and no '.join(lacking)}: these vary in the data"
            )
        count = len(next(iter(columns.values()), [0]))
        return {name: np.full(count, value) for name, value in self.fixed.items()} | columns

    def outside(self, points: Points | pd.DataFrame) -> NDArray[np.bool_]:
        """Which rows lie beyond the data on any axis, or differ from what has one value in them."""
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
            "ranges": {name: [_text(low), _text(high)] for name, (low, high) in self.ranges.items()},
            "words": {name: list(values) for name, values in self.words.items()},
            "fixed": {name: _text(value) for name, value in self.fixed.items()},
            "values": {name: list(map(_text, values)) for name, values in self.values.items()},
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Domain:
        return cls(
            {name: (float(low), float(high)) for name, (low, high) in content["ranges"].items()},
            {name: tuple(values) for name, values in content["words"].items()},
            {name: float(value) for name, value in content["fixed"].items()},
            {name: tuple(map(float, values)) for name, values in content["values"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class Predictor(ABC):
    """What has been fitted and can predict: a `Fit` of any model, or one of `learned.LEARNED`."""

    domain: Domain
    problems: tuple[str, ...] = ()
    """What went wrong in fitting."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What figures and tables call it."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What it is, in a line or a few, for people."""

    @abstractmethod
    def estimate(self, points: Points | pd.DataFrame) -> Floats:
        """Give the fitted throughput in Gbit/s at each row.

        Raises:
            KeyError: for points without an axis of the data that the throughput depends on.
        """

    @abstractmethod
    def draws(self, points: Points | pd.DataFrame, count: int = 200, seed: int = 0) -> Floats:
        """Give possible results of measuring each point once, in Gbit/s: draws × points, each with the same luck."""

    @abstractmethod
    def uncertainty(self, points: Points | pd.DataFrame, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Give the interval of the fitted throughput itself, Gbit/s, without the scatter of measurements."""

    def predict(
        self, points: xr.Dataset | pd.DataFrame | Points, confidence: float = 0.95, seed: int = 0
    ) -> xr.Dataset:
        """Give the throughput with the interval in which one more measurement would lie.

        `extrapolated` is true outside of the ranges of the data.

        Args:
            points: a dataset whose coordinates are axes (the result has the same dimensions), or rows of a table (the
                result has the dimension `point`). What has one value in the fitted data may be left out.
            confidence: of the interval.
            seed: of the draws that it is taken from.

        Raises:
            KeyError: as `estimate`.
        """
        table, template = _table(points)
        tail = 50 * (1 - confidence)
        low, high = np.percentile(self.draws(table, seed=seed), [tail, 100 - tail], axis=0)
        end = f"end of the {100 * confidence:g} % interval of a measurement"
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


def _table(points: xr.Dataset | pd.DataFrame | Points) -> tuple[pd.DataFrame, xr.DataArray]:
    """A row for each of some points, and the shape that they came in."""
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


def levels(count: int, seed: int) -> Floats:
    """Probabilities that cover (0, 1) evenly, in a seeded order: their quantiles are those of a distribution."""
    return np.asarray((np.random.default_rng(seed).permutation(count) + 0.5) / count)


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
