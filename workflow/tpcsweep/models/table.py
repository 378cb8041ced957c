# SPDX-License-Identifier: Apache-2.0
"""Lookup table: medians of measured cells with linear interpolation between them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy.interpolate import RegularGridInterpolator

from tpcsweep.models.base import SEED, Cells, Floats
from tpcsweep.models.observations import Observations
from tpcsweep.models.predictor import CONFIDENCE, Domain, Predictor, Scatter, log_ratio, new_run
from tpcsweep.models.process import Features

_MOST = 100_000  # places; a larger grid would be almost empty
_PARTS = 8  # parts of the points, each left out in turn
_SMALLEST = 1e-9  # Gbit/s


class _Grid(NamedTuple):
    features: Features
    places: Mapping[str, Floats]
    """Logarithms of each numeric axis with several values, ascending."""
    words: Mapping[str, tuple[str, ...]]
    rates: Floats
    """log(throughput in Gbit/s): words × places, in their order."""

    @classmethod
    def of(cls, observations: Observations, features: Features) -> _Grid:
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
        for key, value in logs.groupby(list(index)).median().items() if index else [((), logs.median())]:
            rates[key] = value
        return cls(features, places, words, _filled(rates, list(places.values()), len(words)))

    def look_up(self, points: Cells) -> Floats:
        """Return Gbit/s by interpolation between places; an unknown word has the mean of all words."""
        at = [
            np.clip(self.features.logarithms(points, name), line[0], line[-1])
            for name, line in self.places.items()
        ]
        length = len(next(iter(np.asarray(points[name]) for name in points), []))
        texts = {name: np.asarray(points[name]).astype(str) for name in self.words}
        index = [pd.Categorical(texts[name], values).codes for name, values in self.words.items()]
        keys = pd.Series(list(zip(*index, strict=True)) if index else [()] * length)
        found = np.empty(length)
        for key, rows in keys.groupby(keys).indices.items() if length else ():
            part = self.rates
            for place, code in reversed(list(enumerate(key))):
                part = part.mean(axis=place) if code < 0 else part.take(code, axis=place)
            if at:
                inside = np.column_stack([line[rows] for line in at])
                part = RegularGridInterpolator(tuple(self.places.values()), part)(inside)
            found[rows] = part
        return np.exp(found)


@dataclass(frozen=True)
class LookupTable(Predictor):
    """Throughput over the grid of the axes, linear in logarithms between places and constant beyond them."""

    grid: _Grid
    scatter: Scatter
    """Scatter of single measurements about the table without their points."""
    medians: Scatter
    """Scatter of the medians of points."""
    name = "table"
    margin = 0.5  # with 1.0, 28 % of plans at 80 % fell short: benchmarks/held_out.py
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
    extrapolation. Leaving out an eighth of the points at a time estimates the scatter of measurements.

    Raises:
        ValueError: If there are fewer than three points, or the grid has more than 100,000 places.
    """
    features = Features.of(observations)
    points = np.asarray(pd.factorize(observations.frame["point"])[0])
    count = int(points.max()) + 1
    if count < 3:
        raise ValueError("a table needs at least three points")
    part = np.random.default_rng(SEED).permutation(count) % min(_PARTS, count)
    estimate = np.empty(len(observations))
    for at in range(int(part.max()) + 1):
        out = part[points] == at
        estimate[out] = _Grid.of(observations.take(~out), features).look_up(observations.take(out).frame)
    off = log_ratio(observations.throughput, estimate)
    rows = pd.DataFrame({"off": off, "estimate": estimate}).groupby(points).median()
    return LookupTable(
        _Grid.of(observations, features),
        Scatter.of(off * new_run(off, observations), estimate, count - 1),
        Scatter.of(rows["off"].to_numpy(), rows["estimate"].to_numpy(), count - 1),
        domain=Domain.of(observations),
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
