"""A model fitted to observations: robust, weighted, from several starts, with intervals, and honest about itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy import optimize, stats

from tpcsweep.models.base import Model, Parameter, Points
from tpcsweep.models.determined import undetermined
from tpcsweep.models.observations import Observations, complete, error_at
from tpcsweep.models.places import Domain, Places, levels, predicted
from tpcsweep.models.scatter import Scatter

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


@dataclass(frozen=True)
class Fit:
    """The outcome of fitting one model, also where that failed: then `problems` say why and values are NaN."""

    model: Model
    values: Mapping[str, float]
    low: Mapping[str, float]
    """Lower ends of the 95 % intervals of the parameters."""
    high: Mapping[str, float]
    determined: Mapping[str, bool]
    reasons: Mapping[str, str]
    """Why a parameter is not determined."""
    correlations: NDArray[np.float64]
    """Of the parameters over the bootstrap, in the order of the model, each on its scale."""
    samples: NDArray[np.float64]
    """Bootstrap: resamples × parameters."""
    scatter: Scatter
    residuals: NDArray[np.float64]
    """Measured less fitted, Gbit/s; empty after a round trip through JSON."""
    observed: int
    aicc: float
    bic: float
    domain: Domain
    problems: tuple[str, ...] = ()
    drawn: str = ""
    """What the bootstrap drew: deployments or cells."""

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def ok(self) -> bool:
        """Whether it can predict."""
        return all(math.isfinite(value) for value in self.values.values())

    def estimate(self, points: Points | pd.DataFrame) -> NDArray[np.float64]:
        """Give the fitted throughput in Gbit/s at each row.

        Raises:
            KeyError: for points without an axis that the model speaks about.
        """
        full = complete(self.domain.filled(points, self.model.axes))
        return np.maximum(self.model(full, self.values), 0.0)

    def uncertainty(
        self, points: Points | pd.DataFrame, confidence: float = CONFIDENCE
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the interval of the fitted throughput itself, Gbit/s: what the parameters leave open, no scatter."""
        tail = 50 * (1 - confidence)
        low, high = np.percentile(self._rates(points, len(self.samples)), [tail, 100 - tail], axis=0)
        return low, high

    def draws(self, points: Points | pd.DataFrame, count: int = 200, seed: int = 0) -> NDArray[np.float64]:
        """Give possible results of measuring each point once, in Gbit/s: draws × points.

        Each draw has the parameters of one resample, and lies at the same quantile of the scatter of cells at all
        its points.
        """
        factors = self.scatter.factors(levels(count, seed), self.estimate(points))
        return np.asarray(self._rates(points, count) * factors)

    def _rates(self, points: Points | pd.DataFrame, count: int) -> NDArray[np.float64]:
        full = complete(self.domain.filled(points, self.model.axes))
        names = list(self.values)
        chosen = self.samples[np.arange(count) % len(self.samples)]
        rates = [self.model(full, dict(zip(names, one, strict=True))) for one in chosen]
        return np.maximum(rates, 0.0)

    def predict(
        self, points: xr.Dataset | pd.DataFrame | Points, confidence: float = CONFIDENCE, seed: int = 0
    ) -> xr.Dataset:
        """Give the throughput with the interval in which one more measurement would lie.

        points: a dataset whose coordinates are axes (the result has the same dimensions), or rows of a table (the
        result has the dimension `point`). What has one value in the fitted data may be left out. `extrapolated` is
        true outside of the ranges of the data.

        Raises:
            KeyError: for points without an axis that the model speaks about.
        """
        return predicted(self, self.domain, Places.of(points), confidence, seed)

    def to_dict(self) -> dict[str, Any]:
        """Give what `from_dict` needs, as JSON has it."""
        order = list(self.values)
        return {
            "model": self.model.name,
            "parameters": {
                name: {
                    "value": _number(self.values[name]),
                    "low": _number(self.low[name]),
                    "high": _number(self.high[name]),
                    "unit": next(p.unit for p in self.model.parameters if p.name == name),
                    "determined": self.determined[name],
                    "reason": self.reasons.get(name, ""),
                }
                for name in order
            },
            "correlations": _rounded(self.correlations, 3),
            "samples": _rounded(self.samples, 6),
            "scatter": self.scatter.to_dict(),
            "observations": self.observed,
            "aicc": _number(self.aicc),
            "bic": _number(self.bic),
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
        if list(parameters) != [one.name for one in model.parameters]:
            raise KeyError(f"parameters of {model.name}")
        return cls(
            model=model,
            values={name: _back(about["value"]) for name, about in parameters.items()},
            low={name: _back(about["low"]) for name, about in parameters.items()},
            high={name: _back(about["high"]) for name, about in parameters.items()},
            determined={name: about["determined"] for name, about in parameters.items()},
            reasons={name: about["reason"] for name, about in parameters.items() if about["reason"]},
            correlations=np.array(content["correlations"], float).reshape(len(parameters), len(parameters)),
            samples=np.array(content["samples"], float).reshape(-1, len(parameters)),
            scatter=Scatter.from_dict(content["scatter"]),
            residuals=np.empty(0),
            observed=content["observations"],
            aicc=_back(content["aicc"]),
            bic=_back(content["bic"]),
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

    The loss is soft L1 (scipy's `least_squares`) of residuals over errors (`error_at`), with the knee at 1.345 times
    their scale (the median absolute residual of a first pass; Huber 1981), so that outliers do not pull. It is
    minimized from the model's guess and from the best of 64 seeded points of the parameter space; from `start` and
    the guess where that is given. Intervals are percentiles of a bootstrap (Davison, Hinkley 1997) that begins at
    the optimum. It draws whole deployments where there are at least 8, else cells, with the repetitions of each
    cell drawn anew.
    """
    problem = _Problem.of(model, observations)
    count, unknowns = len(observations), len(problem.free)
    if count < unknowns + 1:
        return _failed(model, observations, f"{count} observations do not determine {unknowns} parameters")
    best = problem.search(seed, start)
    if best is None:
        return _failed(model, observations, "no start led to a finite fit")
    units, scale, converged = best
    problems = [] if converged else ["the search ended before it had converged"]
    values = problem.values(units)
    estimate = model(problem.points, values)
    if not np.all(np.isfinite(estimate)):
        return _failed(model, observations, "the model has no value at some of the cells")
    residuals = observations.throughput - estimate
    drawn, samples = _bootstrap(problem, observations, units, scale, resamples, seed)
    if resamples and len(samples) < 0.9 * resamples:
        problems.append(f"{resamples - len(samples)} of {resamples} resamples could not be fitted")
    low, high = _percentiles(problem, samples, values)
    reasons = undetermined(
        model.parameters, observations.axes, values, samples, problem.jacobian(units), problem.held
    )
    criteria = _information(residuals, observations.error_at(estimate), unknowns)
    return Fit(
        model=model,
        values=values,
        low=low,
        high=high,
        determined={parameter.name: parameter.name not in reasons for parameter in model.parameters},
        reasons=reasons,
        correlations=_correlations(model.parameters, samples),
        samples=samples,
        scatter=Scatter.of(observations.throughput, estimate, unknowns),
        residuals=residuals,
        observed=count,
        aicc=criteria[0],
        bic=criteria[1],
        domain=Domain.of(observations),
        problems=tuple(problems),
        drawn=drawn,
    )


@dataclass(frozen=True)
class _Problem:
    """The least-squares problem, over the free parameters in [0, 1]."""

    model: Model
    points: Points
    throughput: NDArray[np.float64]
    error: NDArray[np.float64]
    level: NDArray[np.float64]
    free: tuple[Parameter, ...]
    held: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, observations: Observations) -> _Problem:
        held = {
            one.name: one.neutral
            for one in model.parameters
            if one.neutral is not None and not set(one.needs) <= set(observations.axes)
        }
        free = tuple(one for one in model.parameters if one.name not in held)
        level = np.asarray(observations.frame["level"], float)
        return cls(model, observations.points, observations.throughput, observations.error, level, free, held)

    def values(self, units: NDArray[np.float64]) -> dict[str, float]:
        """Give all parameters, in the order of the model."""
        found = {one.name: float(one.from_unit(u)) for one, u in zip(self.free, units, strict=True)}
        return {one.name: {**self.held, **found}[one.name] for one in self.model.parameters}

    def residuals(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give residuals over errors; where the model has no value, a residual that no search stays at."""
        with np.errstate(all="ignore"):
            estimate = self.model(self.points, self.values(units))
            off = (estimate - self.throughput) / error_at(self.error, self.level, estimate)
        return np.nan_to_num(np.clip(off, -1e6, 1e6), nan=1e6)

    def jacobian(self, units: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Give how the residuals change with each free parameter, over its range."""
        columns = {}
        for at, one in enumerate(self.free):
            step = 1e-4 if units[at] < 0.5 else -1e-4
            moved = units.copy()
            moved[at] += step
            columns[one.name] = (self.residuals(moved) - self.residuals(units)) / step
        return columns

    def drawn(self, rows: NDArray[np.int64]) -> _Problem:
        """Give the same problem of other observations."""
        points = {name: values[rows] for name, values in self.points.items()}
        columns = (self.throughput[rows], self.error[rows], self.level[rows])
        return _Problem(self.model, points, *columns, self.free, self.held)

    def solve(self, start: NDArray[np.float64], scale: float, steps: int, tolerance: float = 1e-6) -> Any:
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

    def search(
        self, seed: int, start: Mapping[str, float] | None
    ) -> tuple[NDArray[np.float64], float, bool] | None:
        """Give the optimum, the scale of its residuals and whether it converged."""
        size = len(self.free)
        guess = np.array([float(one.to_unit(one.guess)) for one in self.free])
        if not size:
            return guess, _scale(self.residuals(guess)), True
        if start is None:
            starts = [guess, *self._screened(guess, seed)]
        else:
            starts = [guess, np.array([float(one.to_unit(start[one.name])) for one in self.free])]
        found = [one for one in (self.solve(begin, 1.0, 50, 1e-4) for begin in starts) if one is not None]
        if not found:
            return None
        first = min(found, key=lambda one: float(one.cost))
        scale = _scale(self.residuals(first.x))
        final = self.solve(first.x, scale, 300) or first
        return final.x, scale, bool(final.status > 0)

    def _screened(self, guess: NDArray[np.float64], seed: int) -> list[NDArray[np.float64]]:
        """Give the best of seeded points of the parameter space, by their median absolute residuals.

        The median is not misled by a few residuals that are huge far from the optimum.
        """
        cube = stats.qmc.Sobol(len(guess), seed=seed).random(_SCREENED)
        costs = [float(np.median(np.abs(self.residuals(one)))) for one in cube]
        return [cube[at] for at in np.argsort(costs, kind="stable")[: _STARTS - 1]]


def _scale(residuals: NDArray[np.float64]) -> float:
    return max(float(1.4826 * np.median(np.abs(residuals))), 0.05)


def _bootstrap(
    problem: _Problem,
    observations: Observations,
    units: NDArray[np.float64],
    scale: float,
    resamples: int,
    seed: int,
) -> tuple[str, NDArray[np.float64]]:
    """Give what was drawn, and the parameters of each resample."""
    if not problem.free:
        return "nothing", np.tile(list(problem.held.values()), (max(resamples, 1), 1))
    drawn, draw = _drawer(observations)
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(resamples):
        found = problem.drawn(draw(generator)).solve(units, scale, 25, 1e-5)
        if found is not None:
            rows.append(list(problem.values(found.x).values()))
    if not rows:
        rows = [list(problem.values(units).values())]
    return drawn, np.array(rows)


def _drawer(
    observations: Observations,
) -> tuple[str, Callable[[np.random.Generator], NDArray[np.int64]]]:
    """Give what is drawn, and a function that draws the rows of a resample."""
    frame = observations.frame
    many = frame["deployment"].nunique() >= MANY_DEPLOYMENTS
    unit = "deployment" if many else "point"
    cells = [np.asarray(rows) for rows in frame.groupby("point", sort=False).indices.values()]
    owner = [frame[unit].iloc[rows[0]] for rows in cells]
    owned = [[cells[at] for at in ats] for ats in _indices(owner).values()]

    def draw(generator: np.random.Generator) -> NDArray[np.int64]:
        chosen = generator.integers(0, len(owned), len(owned))
        return np.concatenate(
            [rows[generator.integers(0, len(rows), len(rows))] for one in chosen for rows in owned[one]]
        )

    return ("deployments" if many else "cells"), draw


def _indices(keys: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found


def _percentiles(
    problem: _Problem, samples: NDArray[np.float64], values: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    tail = 50 * (1 - CONFIDENCE)
    if len(samples) < 2:
        nothing = dict.fromkeys(values, math.nan)
        return nothing, nothing
    ends = np.percentile(samples, [tail, 100 - tail], axis=0)
    names = [one.name for one in problem.model.parameters]
    low, high = (dict(zip(names, map(float, end), strict=True)) for end in ends)
    return low, high


def _correlations(parameters: Sequence[Parameter], samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlate parameters on their scales; NaN with one that never changes."""
    size = len(parameters)
    if len(samples) < 3 or not size:
        return np.full((size, size), np.nan)
    units = np.column_stack([one.to_unit(samples[:, at]) for at, one in enumerate(parameters)])
    with np.errstate(all="ignore"):
        return np.corrcoef(units, rowvar=False).reshape(size, size)


def _information(
    residuals: NDArray[np.float64], error: NDArray[np.float64], unknowns: int
) -> tuple[float, float]:
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
    nothing = {one.name: math.nan for one in model.parameters}
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


def _number(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def _back(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _rounded(values: NDArray[np.float64], digits: int) -> list[Any]:
    """Nested lists of numbers with so many digits; JSON has no NaN."""
    if values.ndim > 1:
        return [_rounded(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]
