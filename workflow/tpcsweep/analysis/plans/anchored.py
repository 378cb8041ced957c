# SPDX-License-Identifier: Apache-2.0
"""Predict one more measurement of a setting: from its own measurements, otherwise from a formula and nearby cells.

Figures are logarithms of throughput in Gbit/s, so that errors are shares. All functions are pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import cdist

from tpcsweep.analysis.models.fit import Fit
from tpcsweep.analysis.models.formula import SEED, Cells, Floats
from tpcsweep.analysis.models.learned import Features, Process, fit_regressor, some_rows
from tpcsweep.analysis.models.observations import FLOOR, Observations
from tpcsweep.analysis.models.predictor import Domain, Predictor
from tpcsweep.common.numbers import CONFIDENCE, MAD_FACTOR, short
from tpcsweep.data.scatter import run_to_run

_TINY = 1e-9  # Gbit/s, so that a logarithm exists
_OUTLIER = 2.5  # deviations at which a cell's error is capped in the scatter around it
_LENGTHS = (0.7, 10.0)  # bounds of the process's lengths, in standard deviations of the axes' logarithms
_CELLS_OF_A_LENGTH = 10
"""Cells for each axis from which on every axis has a length of its own; otherwise one length serves all.
Source: J. L. Loeppky, J. Sacks, W. J. Welch, Technometrics 51, 2009."""
_REACH = 0.75
"""Reach of a cell's error on the scatter around it, in standard deviations of the axes' logarithms."""
_PRIOR = 4.0  # weight of the scatter of all cells, in numbers of cells nearby
_LEAST_WEIGHT = 1e-6  # of a formula that is evaluated
_FEWEST = 4.0  # smallest degrees of freedom of the scatter between cells
_DIGITS = 6  # significant digits to which the values of a measured setting must agree


class Outlook(NamedTuple):
    """Distribution of one more measurement at each point."""

    middle: Floats
    doubt: Floats  # standard deviation of the middle
    single: Floats  # standard deviation of one measurement about the true middle
    freedom: Floats  # degrees of freedom of Student's t


@dataclass(frozen=True)
class Residuals:
    """Gaussian process of the cells' residuals about a formula, and how well it predicts each cell from the others."""

    features: Features
    process: Process
    inputs: Floats  # cells × features
    levels: Floats  # throughput of the cells
    off: Floats  # distance of each cell from its prediction by the others, in deviations
    single: Floats  # standard deviation of one measurement of each cell
    freedom: float
    evidence: float
    """Sum over cells of the log likelihood of each, as predicted by the others."""

    def correction(self, inputs: Floats, rates: Floats) -> Outlook:
        """Return the outlook of points (× features) with the formula's throughput `rates`.

        The deviations are a weighted mean of the squares of cells nearby that have a similar throughput. A cell is
        capped at 2.5 typical deviations. If cells are closer to their predictions than their intervals allow, the
        scatter of one measurement is smaller than the intervals too. The doubt is never below the floor of errors,
        because no smooth surface is exact.
        """
        correction, spread = self.process.surface(inputs)
        middle = rates + correction
        weights = np.exp(
            -cdist(self._places(inputs, middle), self._own_places, "sqeuclidean") / (2 * _REACH**2)
        )
        scale = _local(np.abs(self.off), MAD_FACTOR * float(np.median(np.abs(self.off))), weights)
        single = np.minimum(scale, 1.0) * _local(self.single, float(np.median(self.single)), weights)
        doubt = np.hypot(scale * np.hypot(spread, self.process.noise), FLOOR)
        return Outlook(middle, doubt, single, np.full(len(middle), float(self.freedom)))

    @cached_property
    def _own_places(self) -> Floats:
        return self._places(self.inputs, self.levels)

    def _places(self, inputs: Floats, levels: Floats) -> Floats:
        """Return the coordinates that decide on nearness: the features, and the throughput."""
        return np.column_stack([inputs, levels / (float(self.levels.std()) or 1.0)])


@dataclass(frozen=True)
class Anchored(Predictor):
    """Formulas corrected by the measured cells.

    A measured setting has its own mean and interval. Another setting has the mean over formulas, each multiplied by a
    Gaussian process of the cells' residuals. The weight of a formula is its success in predicting cells from others.
    Differences between formulas widen the interval.
    """

    formulas: Sequence[Fit]
    residuals: Sequence[Residuals]
    """Residuals of each formula."""
    measured: pd.DataFrame
    """Outlook of each measured setting."""
    settings: Sequence[tuple[str, ...]]
    """Values of the axes of each row of `measured`."""

    @property
    def name(self) -> str:
        return f"{', '.join(formula.name for formula in self.formulas)} and measured cells"

    @property
    def about(self) -> str:
        titles = "; ".join(formula.model.title for formula in self.formulas)
        return f"{titles}, with a Gaussian process of the residuals; measured settings as measured"

    @property
    def trend(self) -> Anchored:
        return replace(self, settings=())

    def estimate(self, points: Cells) -> Floats:
        return np.exp(self.outlook(points).middle)

    def draws(self, points: Cells, count: int = 200) -> Floats:
        return self.outcomes(points, count)[1]

    def outcomes(self, points: Cells, count: int = 200) -> tuple[Floats, Floats]:
        at = self.outlook(points)
        return np.exp(at.middle), _draws(at, np.hypot(at.doubt, at.single), count)

    def outlook(self, points: Cells) -> Outlook:
        """Return the distribution of one more measurement at each point."""
        features = self.residuals[0].features
        full = self.domain.filled(points, features.axes)
        outside = self.domain.outside(full)
        columns = self._between(full, outside)._asdict()
        rows = {setting: row for row, setting in enumerate(self.settings)}
        found = np.array([rows.get(one, -1) for one in _settings(full, features)])
        own = (found >= 0) & ~outside
        for name, values in columns.items():
            values[own] = self.measured[name].to_numpy()[found[own]]
        return Outlook(**columns)

    def _between(self, full: dict[str, Any], outside: NDArray[np.bool_]) -> Outlook:
        inputs = self.residuals[0].features(full)
        weights = self.weights
        counts = weights >= _LEAST_WEIGHT  # of many cells, one formula has all of the weight
        each = []
        for formula, residuals in zip(
            itertools.compress(self.formulas, counts), itertools.compress(self.residuals, counts), strict=True
        ):
            one = residuals.correction(inputs, np.log(np.maximum(formula.estimate(full), _TINY)))
            if outside.any():
                beyond = {name: np.asarray(values)[outside] for name, values in full.items()}
                low, high = np.log(np.maximum(formula.uncertainty(beyond), _TINY))
                wide = (high - low) / (2 * stats.norm.ppf(0.5 + CONFIDENCE / 2))
                one.doubt[outside] = np.hypot(one.doubt[outside], wide)
            each.append(one)
        middles, doubts, singles, freedoms = (np.array(columns) for columns in zip(*each, strict=True))
        weights = weights[counts] / weights[counts].sum()
        middle = weights @ middles
        doubt = np.sqrt(weights @ (doubts**2 + (middles - middle) ** 2))
        return Outlook(middle, doubt, weights @ singles, weights @ freedoms)

    @property
    def weights(self) -> Floats:
        """Weight of each formula by its evidence, halved because cells of a deployment share its conditions."""
        evidence = np.array([residuals.evidence for residuals in self.residuals])
        weights = np.exp((evidence - evidence.max()) / 2)
        return np.asarray(weights / weights.sum())


def anchor(formulas: Sequence[Fit], observations: Observations) -> Anchored:
    """Correct formulas by measured cells, usually those that they were fitted to."""
    features = Features.from_observations(observations)
    measured, groups = _measured(observations)
    first = observations.take(np.array([group[0] for group in groups]))
    residuals = [_residuals(formula, first, features, measured) for formula in formulas]
    settings, domain = _settings(first.frame, features), Domain.from_observations(observations)
    problems = tuple(dict.fromkeys(problem for formula in formulas for problem in formula.problems))
    return Anchored(formulas, residuals, measured, settings, domain=domain, problems=problems)


def _residuals(formula: Fit, cells: Observations, features: Features, measured: pd.DataFrame) -> Residuals:
    """Fit a process to the residuals of cells, one row for each.

    A cell more than 5 deviations from its prediction by the others affects its own setting alone: the process is fitted
    again with that prediction instead of the cell.
    """
    held = some_rows(len(cells), np.random.default_rng(SEED))
    frame, measured = cells.frame.iloc[held], measured.iloc[held]
    middle, errors = measured["middle"].to_numpy(), measured["doubt"].to_numpy()
    outputs = middle - np.log(np.maximum(formula.estimate(frame), _TINY))
    inputs = features(frame)
    axes = inputs.shape[1]
    lengths = np.full(axes if len(inputs) >= _CELLS_OF_A_LENGTH * axes else 1, 2.0)
    process = fit_regressor(inputs, outputs, errors, lengths, _LENGTHS)
    off = (outputs - process.predicted) / process.deviation
    count = len(outputs)
    freedom = max(count - len(formula.model.parameters), _FEWEST)
    wider = math.sqrt(count / freedom)
    evidence = float(
        np.sum(stats.t.logpdf(outputs - process.predicted, _FEWEST, scale=process.deviation * wider))
    )
    single = measured["single"].to_numpy()
    return Residuals(features, process, inputs, middle, off * wider, single, freedom, evidence)


def _measured(observations: Observations) -> tuple[pd.DataFrame, list[NDArray[np.int64]]]:
    """Return the outlook of each measured setting, and its rows.

    A measurement scatters by its interval and by the share from run to run, which several runs determine. Without an
    interval the repetitions, or an assumed error, take its place.
    """
    frame, throughput = observations.frame, observations.throughput
    least = float(throughput[throughput > 0].min(initial=np.inf)) / 2
    logs = np.log(np.maximum(throughput, least if math.isfinite(least) else _TINY))
    error = (frame["interval_error"] / frame["throughput"].where(throughput > 0)).to_numpy(float)
    relative = np.where(np.isfinite(error), error, frame["relative"])
    share = run_to_run(frame.assign(cell=frame["point"], error=relative * throughput))
    columns = {"middle": logs, "square": relative**2, "freedom": frame["freedom"], "run": frame["run"]}
    cells = pd.DataFrame(columns).groupby(frame["point"].to_numpy(), sort=False)
    square = cells["square"].mean()
    # The share has no error; the interval has its own degrees of freedom.
    wider = (1 + share**2 / square.clip(lower=_TINY)) ** 2
    table = {
        "middle": cells["middle"].median(),
        "doubt": np.sqrt(square / cells.size() + share**2 / cells["run"].nunique()),
        "single": np.sqrt(square + share**2),
        "freedom": np.maximum(cells["freedom"].sum() * wider, 1.0),
    }
    return pd.DataFrame(table).reset_index(drop=True), [cells.indices[point] for point in square.index]


def _local(values: Floats, usual: float, weights: Floats) -> Floats:
    """Return the root mean square of cells' values by weights (points × cells), and of the usual value."""
    squares = np.minimum(values, _OUTLIER * usual) ** 2
    return np.asarray(np.sqrt((_PRIOR * usual**2 + weights @ squares) / (_PRIOR + weights.sum(axis=1))))


def _draws(at: Outlook, width: Floats, count: int) -> Floats:
    levels = (np.arange(count) + 0.5) / count
    freedoms, which = np.unique(at.freedom, return_inverse=True)  # quantiles of Student's t take long
    return np.asarray(
        np.exp(at.middle + np.asarray(stats.t.ppf(levels[:, None], freedoms))[:, which] * width)
    )


def _settings(columns: Cells, features: Features) -> list[tuple[str, ...]]:
    texts = []
    for name in features.axes:
        values, rows = np.unique(np.asarray(columns[name]), return_inverse=True)
        known = [short(value, _DIGITS) if name in features.scales else str(value) for value in values]
        texts.append([known[row] for row in rows])
    return list(zip(*texts, strict=True))
