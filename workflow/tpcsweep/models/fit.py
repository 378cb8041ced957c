# SPDX-License-Identifier: Apache-2.0
"""A model fitted to observations: robust, weighted, from several starts, with intervals, and honest about itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, stats

from tpcsweep.files import number
from tpcsweep.models.base import Floats, Model, Parameter, Points
from tpcsweep.models.determined import undetermined
from tpcsweep.models.least_squares import Problem, bootstrap
from tpcsweep.models.observations import Observations, complete
from tpcsweep.models.places import Domain, Predictor, levels
from tpcsweep.models.runs import new_run
from tpcsweep.models.scatter import Scatter, log_ratio

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

RESAMPLES = 200
CONFIDENCE = 0.95
_TAILS = 4  # degrees of freedom of the t distribution that the information criteria assume of residuals


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
    """What the bootstrap drew: runs, deployments or cells."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def about(self) -> str:
        return f"{self.model.title}\n{self.model.formula}\n{self.model.source}"

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
        columns = dict(zip(self.values, self.samples.T[:, :, np.newaxis], strict=True))
        rates = np.maximum(self.model(full, columns), 0.0)
        return rates[np.arange(count) % len(rates)]

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
    Intervals are percentiles of a bootstrap (Davison, Hinkley 1997) that begins at the optimum. It draws whole runs
    where cells were measured in several, in each of them whole deployments where there are at least 8, else cells,
    with the repetitions of each cell drawn anew.

    Args:
        model: with the unknowns.
        observations: what it is fitted to.
        resamples: of the bootstrap; 0: no intervals.
        seed: of the bootstrap and of the points below.
        start: parameters to begin at, besides the model's guess; None: the best of 64 seeded points of the parameter
            space.
    """
    problem = Problem.of(model, observations)
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
    drawn, samples = bootstrap(problem, units, scale, resamples, seed)
    if resamples and len(samples) < 0.9 * resamples:
        problems.append(f"{resamples - len(samples)} of {resamples} resamples could not be fitted")
    low, high = _percentiles(values, samples)
    if resamples:
        low, high = _widened(low, high, problem.alternatives(units, scale, seed))
    reasons = undetermined(problem, units, low, high)
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
        scatter=_scatter(observations, estimate, unknowns),
        residuals=residuals,
        observed=count,
        aicc=aicc,
        bic=bic,
        domain=Domain.of(observations),
        problems=tuple(problems),
        drawn=drawn,
    )


def _scatter(observations: Observations, estimate: Floats, unknowns: int) -> Scatter:
    """Log ratios of measured to fitted, widened by the degrees of freedom that the fit used up, and for a new run."""
    freedom = len(observations) - unknowns
    off = log_ratio(observations.throughput, estimate) * math.sqrt(len(observations) / freedom)
    return Scatter.of(off * new_run(off, observations), estimate, freedom)


def _widened(
    low: Mapping[str, float], high: Mapping[str, float], alternatives: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Intervals that hold what else may be so."""
    return (
        {name: min([end, *(other.get(name, end) for other in alternatives)]) for name, end in low.items()},
        {name: max([end, *(other.get(name, end) for other in alternatives)]) for name, end in high.items()},
    )


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
