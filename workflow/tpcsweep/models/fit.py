# SPDX-License-Identifier: Apache-2.0
"""A model fitted to observations: robust, weighted, from several starts, with intervals, and honest about itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, stats

from tpcsweep.files import number
from tpcsweep.models.base import Floats, Model, Parameter, Points
from tpcsweep.models.observations import Observations, complete
from tpcsweep.models.places import Domain, Predictor, levels
from tpcsweep.models.scatter import Scatter, log_ratio

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

RESAMPLES = 200
CONFIDENCE = 0.95
MANY_DEPLOYMENTS = 8
"""From so many deployments on these are what the bootstrap draws: cells of one deployment share its luck."""

_SCREENED = 64  # points of the parameter space that are looked at, before the best become starts
_STARTS = 4
_HUBER = 1.345  # times the scale of residuals: 95 % efficiency for normal errors
_TAILS = 4  # degrees of freedom of the t distribution that the information criteria assume of residuals
_SPAN = 0.5
"""An interval that covers more than this share of the bounds says nothing."""

_FACTOR = 10.0
"""Nor does one on a logarithmic scale whose ends differ by more than this factor."""

_EDGE = 2e-3  # of the range: nearer to a bound is at it
_FLAT = 1e-6  # influence of a parameter over its whole range, relative to that of the most influential
_SINGULAR = 1e-5  # smallest singular value of the scaled Jacobian, relative to the largest
_ALIKE = 0.98  # correlation from which two parameters are one
_AWAY = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # shares of the way to a bound at which what is held is tried
_AS_GOOD = 1.92  # half of the 95 % quantile of χ² with one degree of freedom


@dataclass(frozen=True)
class Fit(Predictor):
    """The outcome of fitting one model, also where that failed: then `problems` say why and values are NaN."""

    model: Model
    values: Mapping[str, float]
    low: Mapping[str, float]
    """Lower ends of the 95 % intervals of the parameters: by the bootstrap, and by what the data do not say."""
    high: Mapping[str, float]
    determined: Mapping[str, bool]
    reasons: Mapping[str, str]
    """Why a parameter is not determined."""
    correlations: Floats
    """Of the parameters over the bootstrap, in the order of the model, each on its scale."""
    samples: Floats
    """Bootstrap: resamples × parameters."""
    scatter: Scatter
    residuals: Floats
    """Measured less fitted, Gbit/s; empty after a round trip through JSON."""
    observed: int
    aicc: float
    bic: float
    drawn: str = ""
    """What the bootstrap drew: deployments or cells."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def ok(self) -> bool:
        """Whether it can predict."""
        return all(math.isfinite(value) for value in self.values.values())

    def estimate(self, points: Points | pd.DataFrame) -> Floats:
        full = complete(self.domain.filled(points, self.model.axes))
        return np.maximum(self.model(full, self.values), 0.0)

    def uncertainty(
        self, points: Points | pd.DataFrame, confidence: float = CONFIDENCE
    ) -> tuple[Floats, Floats]:
        tail = 50 * (1 - confidence)
        low, high = np.percentile(self._rates(points, len(self.samples)), [tail, 100 - tail], axis=0)
        return low, high

    def draws(self, points: Points | pd.DataFrame, count: int = 200, seed: int = 0) -> Floats:
        # Each draw has the parameters of one resample, and one quantile of the scatter of cells at all points.
        off = self.scatter.residuals(levels(count, seed), self.estimate(points))
        return np.asarray(self._rates(points, count) * np.exp(off))

    def _rates(self, points: Points | pd.DataFrame, count: int) -> Floats:
        """Throughput of so many resamples: resamples × points."""
        full = complete(self.domain.filled(points, self.model.axes))
        chosen = self.samples[np.arange(count) % len(self.samples)]
        rates = [self.model(full, dict(zip(self.values, sample, strict=True))) for sample in chosen]
        return np.maximum(rates, 0.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "parameters": {
                parameter.name: {
                    "value": number(self.values[parameter.name], 8),
                    "low": number(self.low[parameter.name], 8),
                    "high": number(self.high[parameter.name], 8),
                    "unit": parameter.unit,
                    "determined": self.determined[parameter.name],
                    "reason": self.reasons.get(parameter.name, ""),
                }
                for parameter in self.model.parameters
            },
            "correlations": [[number(value, 3) for value in row] for row in self.correlations],
            "samples": [[number(value, 6) for value in row] for row in self.samples],
            "scatter": self.scatter.to_dict(),
            "observations": self.observed,
            "aicc": number(self.aicc, 8),
            "bic": number(self.bic, 8),
            "domain": self.domain.to_dict(),
            "problems": list(self.problems),
            "drawn": self.drawn,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], models: Mapping[str, Model]) -> Fit:
        """Give back the fit that `to_dict` wrote; `models` is `tpcsweep.models.MODELS`.

        Raises:
            KeyError: for a model that is not among `models`, or has other parameters there.
        """
        parameters, model = content["parameters"], models[content["model"]]
        if list(parameters) != [parameter.name for parameter in model.parameters]:
            raise KeyError(f"parameters of {model.name}")
        values, low, high = (
            {name: _known(about[key]) for name, about in parameters.items()}
            for key in ("value", "low", "high")
        )
        return cls(
            model=model,
            values=values,
            low=low,
            high=high,
            determined={name: about["determined"] for name, about in parameters.items()},
            reasons={name: about["reason"] for name, about in parameters.items() if about["reason"]},
            correlations=np.array(content["correlations"], float).reshape(len(parameters), len(parameters)),
            samples=np.array(content["samples"], float).reshape(-1, len(parameters)),
            scatter=Scatter.from_dict(content["scatter"]),
            residuals=np.empty(0),
            observed=content["observations"],
            aicc=_known(content["aicc"]),
            bic=_known(content["bic"]),
            domain=Domain.from_dict(content["domain"]),
            problems=tuple(content["problems"]),
            drawn=content["drawn"],
        )


def fit(
    model: Model,
    observations: Observations,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    start: Mapping[str, float] | None = None,
) -> Fit:
    """Fit a model; what goes wrong is said in `problems`, and nothing is raised for it.

    The loss is soft L1 (scipy's `least_squares`) of residuals over errors (`Observations.error_at`), with the knee at
    1.345 times their scale (the median absolute residual of a first pass; Huber 1981), so that outliers do not pull.
    Intervals are percentiles of a bootstrap (Davison, Hinkley 1997) that begins at the optimum. It draws whole
    deployments where there are at least 8, else cells, with the repetitions of each cell drawn anew.

    Args:
        model: with the unknowns.
        observations: what it is fitted to.
        resamples: of the bootstrap; 0: no intervals.
        seed: of the bootstrap and of the points below.
        start: parameters to begin at, besides the model's guess; None: the best of 64 seeded points of the parameter
            space.
    """
    problem = _Problem.of(model, observations)
    count, unknowns = len(observations), len(problem.free)
    if count < unknowns + 1:
        return _failed(model, observations, f"{count} observations do not determine {unknowns} parameters")
    optimum = problem.search(seed, start)
    if optimum is None:
        return _failed(model, observations, "no start led to a finite fit")
    units, scale, converged = optimum
    problems = [] if converged else ["the search ended before it had converged"]
    values = problem.values(units)
    estimate = model(observations.points, values)
    if not np.all(np.isfinite(estimate)):
        return _failed(model, observations, "the model has no value at some of the cells")
    residuals = observations.throughput - estimate
    drawn, samples = _bootstrap(problem, units, scale, resamples, seed)
    if resamples and len(samples) < 0.9 * resamples:
        problems.append(f"{resamples - len(samples)} of {resamples} resamples could not be fitted")
    low, high = _percentiles(values, samples)
    if resamples:
        low, high = _widened(low, high, problem.alternatives(units, scale, seed))
    reasons = _undetermined(problem, units, low, high)
    aicc, bic = _information(residuals, observations.error_at(estimate), unknowns)
    return Fit(
        model=model,
        values=values,
        low=low,
        high=high,
        determined={parameter.name: parameter.name not in reasons for parameter in model.parameters},
        reasons=reasons,
        correlations=_correlations(model.parameters, samples),
        samples=samples,
        scatter=_scatter(observations.throughput, estimate, unknowns),
        residuals=residuals,
        observed=count,
        aicc=aicc,
        bic=bic,
        domain=Domain.of(observations),
        problems=tuple(problems),
        drawn=drawn,
    )


@dataclass(frozen=True)
class _Problem:
    """The least-squares problem, over the free parameters in [0, 1]."""

    model: Model
    observations: Observations
    free: tuple[Parameter, ...]
    held: Mapping[str, float]

    @classmethod
    def of(cls, model: Model, observations: Observations) -> _Problem:
        held = {
            parameter.name: parameter.neutral
            for parameter in model.parameters
            if parameter.neutral is not None and not set(parameter.needs) <= set(observations.axes)
        }
        free = tuple(parameter for parameter in model.parameters if parameter.name not in held)
        return cls(model, observations, free, held)

    def values(self, units: Floats) -> dict[str, float]:
        free = zip(self.free, units, strict=True)
        known = {
            **self.held,
            **{parameter.name: float(parameter.from_unit(unit)) for parameter, unit in free},
        }
        return {parameter.name: known[parameter.name] for parameter in self.model.parameters}

    def residuals(self, units: Floats) -> Floats:
        """Give residuals over errors; where the model has no value, a residual that no search stays at."""
        with np.errstate(all="ignore"):
            estimate = self.model(self.observations.points, self.values(units))
            off = (estimate - self.observations.throughput) / self.observations.error_at(estimate)
        return np.nan_to_num(np.clip(off, -1e6, 1e6), nan=1e6)

    def jacobian(self, units: Floats) -> dict[str, Floats]:
        """Give how the residuals change with each free parameter, over its range."""
        columns = {}
        for at, parameter in enumerate(self.free):
            step = 1e-4 if units[at] < 0.5 else -1e-4
            moved = units.copy()
            moved[at] += step
            columns[parameter.name] = (self.residuals(moved) - self.residuals(units)) / step
        return columns

    def solve(self, start: Floats, scale: float, steps: int, tolerance: float = 1e-6) -> Any:
        """Minimize from a start; None where that fails."""
        try:
            return optimize.least_squares(
                self.residuals,
                np.clip(start, 1e-6, 1 - 1e-6),
                bounds=(0.0, 1.0),
                loss="soft_l1",
                f_scale=_HUBER * scale,
                ftol=tolerance,
                xtol=tolerance,
                gtol=1e-2 * tolerance,
                max_nfev=steps,
            )
        except (ValueError, np.linalg.LinAlgError):
            return None

    def alternatives(self, units: Floats, scale: float, seed: int) -> list[dict[str, float]]:
        """Give the free parameters of fits with other values of what is held, as far as they are as good.

        One is the best with everything free. For the others each held parameter is moved in steps towards its bounds,
        until all others, fitted anew, cannot make up for it.
        """
        best = self.solve(units, scale, 1)
        loose = tuple(one for one in self.model.parameters if one.name in self.held and not one.absorbed)
        if best is None or not loose:
            return []
        limit = float(best.cost) + _AS_GOOD * scale**2
        found = []

        def tried(problem: _Problem, solution: Any) -> bool:
            good = solution is not None and solution.cost <= limit
            if good:
                values = problem.values(solution.x)
                found.append({one.name: values[one.name] for one in self.free})
            return good

        freed = replace(self, free=self.free + loose)
        if optimum := freed.search(seed, None):
            tried(freed, freed.solve(optimum[0], scale, 50, 1e-5))
        for moving, end in itertools.product(loose, (0.0, 1.0)):
            others = tuple(one for one in loose if one is not moving)
            start = np.concatenate([units, [float(one.to_unit(self.held[one.name])) for one in others]])
            place = float(moving.to_unit(self.held[moving.name]))
            for share in _AWAY if place != end else ():
                value = float(moving.from_unit(place + share * (end - place)))
                problem = replace(self, free=self.free + others, held={**self.held, moving.name: value})
                solution = problem.solve(start, scale, 50, 1e-5)
                if not tried(problem, solution):
                    break
                start = solution.x
        return found

    def search(self, seed: int, start: Mapping[str, float] | None) -> tuple[Floats, float, bool] | None:
        """Give the optimum, the scale of its residuals and whether it converged."""
        guess = np.array([float(parameter.to_unit(parameter.guess)) for parameter in self.free])
        if not self.free:
            return guess, _scale(self.residuals(guess)), True
        if start is None:
            starts = [guess, *self._screened(guess, seed)]
        else:
            given = [float(parameter.to_unit(start[parameter.name])) for parameter in self.free]
            starts = [guess, np.array(given)]
        solutions = [self.solve(begin, 1.0, 50, 1e-4) for begin in starts]
        solutions = [solution for solution in solutions if solution is not None]
        if not solutions:
            return None
        best = min(solutions, key=lambda solution: float(solution.cost))
        scale = _scale(self.residuals(best.x))
        final = self.solve(best.x, scale, 300) or best
        return final.x, scale, bool(final.status > 0)

    def _screened(self, guess: Floats, seed: int) -> list[Floats]:
        """Give the best of seeded points of the parameter space, by their median absolute residuals.

        The median is not misled by a few residuals that are huge far from the optimum.
        """
        cube = stats.qmc.Sobol(len(guess), seed=seed).random(_SCREENED)
        costs = [float(np.median(np.abs(self.residuals(units)))) for units in cube]
        return [cube[at] for at in np.argsort(costs, kind="stable")[: _STARTS - 1]]


def _scatter(throughput: Floats, estimate: Floats, unknowns: int) -> Scatter:
    """Log ratios of measured to fitted, widened by the degrees of freedom that the fit used up."""
    freedom = len(throughput) - unknowns
    off = log_ratio(throughput, estimate) * math.sqrt(len(throughput) / freedom)
    return Scatter.of(off, estimate, freedom)


def _widened(
    low: Mapping[str, float], high: Mapping[str, float], alternatives: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Intervals that hold what else may be so."""
    return (
        {name: min([end, *(other.get(name, end) for other in alternatives)]) for name, end in low.items()},
        {name: max([end, *(other.get(name, end) for other in alternatives)]) for name, end in high.items()},
    )


def _scale(residuals: Floats) -> float:
    return max(float(1.4826 * np.median(np.abs(residuals))), 0.05)


def _bootstrap(
    problem: _Problem, units: Floats, scale: float, resamples: int, seed: int
) -> tuple[str, Floats]:
    """Give what was drawn, and the parameters of each resample."""
    if not problem.free:
        return "nothing", np.tile(list(problem.held.values()), (max(resamples, 1), 1))
    drawn, draw = _drawer(problem.observations.frame)
    generator = np.random.default_rng(seed)
    samples = []
    for _ in range(resamples):
        resample = replace(problem, observations=problem.observations.take(draw(generator)))
        solution = resample.solve(units, scale, 25, 1e-5)
        if solution is not None:
            samples.append(list(problem.values(solution.x).values()))
    return drawn, np.array(samples or [list(problem.values(units).values())])


def _drawer(frame: pd.DataFrame) -> tuple[str, Callable[[np.random.Generator], NDArray[np.int64]]]:
    """Give what is drawn, and a function that draws the rows of a resample."""
    many = frame["deployment"].nunique() >= MANY_DEPLOYMENTS
    units = frame["deployment" if many else "point"]
    cells: dict[str, list[NDArray[np.int64]]] = {}
    for rows in frame.groupby("point", sort=False).indices.values():
        cells.setdefault(units.iloc[rows[0]], []).append(np.asarray(rows))
    owned = list(cells.values())

    def draw(generator: np.random.Generator) -> NDArray[np.int64]:
        chosen = generator.integers(0, len(owned), len(owned))
        return np.concatenate(
            [rows[generator.integers(0, len(rows), len(rows))] for unit in chosen for rows in owned[unit]]
        )

    return ("deployments" if many else "cells"), draw


def _undetermined(
    problem: _Problem, units: Floats, low: Mapping[str, float], high: Mapping[str, float]
) -> dict[str, str]:
    """Give the reason for each parameter that is not determined, by its interval."""
    values, jacobian = problem.values(units), problem.jacobian(units)
    reasons: dict[str, str] = {}
    same = _indistinguishable(jacobian)
    norms = {name: float(np.linalg.norm(column)) for name, column in jacobian.items()}
    largest = max(norms.values(), default=0.0)
    for parameter in problem.model.parameters:
        name = parameter.name
        if lacking := [axis for axis in parameter.needs if axis not in problem.observations.axes]:
            end = f": held at {parameter.neutral:g}" if name in problem.held else ""
            reasons[name] = f"the data have one value of {' and of '.join(lacking)}{end}"
        elif norms[name] <= _FLAT * largest:
            reasons[name] = "it makes no difference to any measured cell"
        elif reason := _at_bound(parameter, values[name]) or _too_wide(parameter, low[name], high[name]):
            reasons[name] = reason
        elif name in same:
            reasons[name] = f"it cannot be told from {' and '.join(same[name])}"
    return reasons


def _at_bound(parameter: Parameter, value: float) -> str:
    unit = float(parameter.to_unit(value))
    if unit < _EDGE:
        return f"it is at its lower bound, {parameter.low:g}"
    return f"it is at its upper bound, {parameter.high:g}" if unit > 1 - _EDGE else ""


def _too_wide(parameter: Parameter, low: float, high: float) -> str:
    if math.isnan(low):
        return ""
    if parameter.scale == "log" and high > _FACTOR * low:
        return f"its interval spans a factor of {high / low:.2g}"
    unit = parameter.to_unit(np.array([low, high]))
    return "its interval spans most of its bounds" if unit[1] - unit[0] > _SPAN else ""


def _indistinguishable(jacobian: Mapping[str, Floats]) -> dict[str, list[str]]:
    """Give those parameters whose effects on the cells are combinations of each other, with the others."""
    names = [name for name, column in jacobian.items() if np.linalg.norm(column) > 0]
    if len(names) < 2:
        return {}
    scaled = np.column_stack([jacobian[name] / np.linalg.norm(jacobian[name]) for name in names])
    same: dict[str, list[str]] = {}
    _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
    for value, direction in zip(singular, directions, strict=True):
        if value < _SINGULAR * singular[0]:
            among = [name for name, part in zip(names, direction, strict=True) if abs(part) > 0.2]
            same |= {name: [other for other in among if other != name] for name in among}
    alike = np.abs(scaled.T @ scaled)
    for at, name in enumerate(names):
        others = [names[to] for to in np.flatnonzero(alike[at] > 1 - (1 - _ALIKE) ** 2) if to != at]
        if others:
            same.setdefault(name, others)
    return same


def _percentiles(values: Mapping[str, float], samples: Floats) -> tuple[dict[str, float], dict[str, float]]:
    if len(samples) < 2:
        return dict.fromkeys(values, math.nan), dict.fromkeys(values, math.nan)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(samples, [tail, 100 - tail], axis=0).tolist()
    return dict(zip(values, low, strict=True)), dict(zip(values, high, strict=True))


def _correlations(parameters: Sequence[Parameter], samples: Floats) -> Floats:
    """Correlate parameters on their scales; NaN with one that never changes."""
    size = len(parameters)
    if len(samples) < 3 or not size:
        return np.full((size, size), np.nan)
    units = np.column_stack([p.to_unit(column) for p, column in zip(parameters, samples.T, strict=True)])
    with np.errstate(all="ignore"):
        return np.corrcoef(units, rowvar=False).reshape(size, size)


def _information(residuals: Floats, error: Floats, unknowns: int) -> tuple[float, float]:
    """AICc and BIC of residuals that have Student's t distribution with 4 degrees of freedom.

    Its heavy tails are those of the robust loss (Lange, Little, Taylor 1989); its scale is one more parameter.
    """
    count, k = len(residuals), unknowns + 1

    def cost(log_scale: float) -> float:
        scale = error * math.exp(log_scale)
        return float(-2 * np.sum(stats.t.logpdf(residuals / scale, _TAILS) - np.log(scale)))

    least = float(optimize.minimize_scalar(cost, bounds=(-7, 14), method="bounded").fun)
    aicc = least + 2 * k + 2 * k * (k + 1) / (count - k - 1) if count > k + 1 else math.inf
    return aicc, least + k * math.log(count)


def _failed(model: Model, observations: Observations, problem: str) -> Fit:
    nothing = {parameter.name: math.nan for parameter in model.parameters}
    size = len(nothing)
    return Fit(
        model=model,
        values=nothing,
        low=nothing,
        high=nothing,
        determined=dict.fromkeys(nothing, False),
        reasons=dict.fromkeys(nothing, "not fitted"),
        correlations=np.full((size, size), np.nan),
        samples=np.full((1, size), np.nan),
        scatter=Scatter.none(),
        residuals=np.full(len(observations), np.nan),
        observed=len(observations),
        aicc=math.inf,
        bic=math.inf,
        domain=Domain.of(observations),
        problems=(problem,),
    )


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)
