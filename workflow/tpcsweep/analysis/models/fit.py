# SPDX-License-Identifier: Apache-2.0
"""Robust weighted fit of a model from several starts, with bootstrap intervals and diagnostics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpcsweep.analysis.models.formula import Cells, Floats, Model, with_defaults
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.least_squares import UnfittableError, bootstrap, find_optimum, undetermined
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.models.predictor import (
    QUANTILES,
    Domain,
    Predictor,
    Scatter,
    interval,
    log_ratio,
    new_run,
)
from tpcsweep.common.numbers import between, json_number, short

RESAMPLES = 200


@dataclass(frozen=True)
class Fit(Predictor):
    """Outcome of fitting one model. After a failure `problems` contain the reason and values are NaN."""

    model: Model
    values: Mapping[str, float]
    low: Mapping[str, float]
    """Lower ends of the parameters' 95 % bootstrap intervals, with fixed parameters held constant."""
    high: Mapping[str, float]
    reasons: Mapping[str, str]  # reason for each parameter that the data do not determine
    samples: Floats  # bootstrap: resamples × parameters
    scatter: Scatter  # scatter of log(measured / fitted)
    observed: int  # number of observations
    drawn: str = ""  # units that the bootstrap drew: runs, deployments or cells

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def about(self) -> str:
        return f"{self.model.title}\n{self.model.formula}\n{self.model.source}"

    @property
    def ok(self) -> bool:
        """Whether the fit can predict."""
        return all(math.isfinite(value) for value in self.values.values())

    @property
    def determined(self) -> dict[str, bool]:
        return {name: name not in self.reasons for name in self.values}

    @property
    def correlations(self) -> Floats:
        """Correlations between parameters in the bootstrap, in the order of the model, each on its scale."""
        size = len(self.model.parameters)
        if len(self.samples) < 3 or not size:
            return np.full((size, size), np.nan)
        columns = zip(self.model.parameters, self.samples.T, strict=True)
        units = np.column_stack([parameter.to_unit(column) for parameter, column in columns])
        with np.errstate(all="ignore"):
            return np.corrcoef(units, rowvar=False).reshape(size, size)

    def parameter_rows(self, digits: int = 3) -> list[dict[str, str]]:
        """Return the texts of a table of the parameters; an undetermined one has a reason instead of numbers."""
        rows = []
        for parameter in self.model.parameters:
            name, reason = parameter.name, self.reasons.get(parameter.name, "")
            low, high = self.low[name], self.high[name]
            interval = between(low, high) if math.isfinite(low + high) else ""
            rows.append(
                {
                    "name": name,
                    "value": "" if reason else short(self.values[name], digits),
                    "interval": "not determined" if reason else interval,
                    "unit": "" if parameter.unit == "1" else parameter.unit,
                    "meaning": parameter.description,
                    "reason": reason,
                }
            )
        return rows

    def estimate(self, points: Cells) -> Floats:
        return self._rates(points, self.values)

    def uncertainty(self, points: Cells) -> tuple[Floats, Floats]:
        """Return the interval of the formula itself in Gbit/s, without the scatter of measurements."""
        return interval(self._resampled(points))

    def draws(self, points: Cells, count: int = 200) -> Floats:
        # Each draw combines one resample's parameters with one quantile of the cells' scatter at all points.
        off = self.scatter.drawn(count, self.estimate(points))
        rates = self._resampled(points)
        return np.asarray(rates[np.arange(count) % len(rates)] * np.exp(off))

    def _resampled(self, points: Cells) -> Floats:
        """Return Gbit/s as resamples × points."""
        return self._rates(points, dict(zip(self.values, self.samples.T[:, :, np.newaxis], strict=True)))

    def _rates(self, points: Cells, values: Mapping[str, Floats | float]) -> Floats:
        full = with_defaults(self.domain.filled(points, self.model.axes))
        return np.maximum(self.model(full, values), 0.0)

    def to_dict(self) -> dict[str, Any]:
        ends = {"value": self.values, "low": self.low, "high": self.high}
        return {
            "model": self.model.name,
            "parameters": {
                parameter.name: {
                    **{end: json_number(values[parameter.name], 8) for end, values in ends.items()},
                    "unit": parameter.unit,
                    "determined": parameter.name not in self.reasons,
                    "reason": self.reasons.get(parameter.name, ""),
                }
                for parameter in self.model.parameters
            },
            "correlations": [[json_number(value, 3) for value in row] for row in self.correlations],
            "samples": [[json_number(value, 6) for value in row] for row in self.samples],
            "scatter": self.scatter.to_dict(),
            "observations": self.observed,
            "domain": self.domain.to_dict(),
            "problems": list(self.problems),
            "drawn": self.drawn,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Fit:
        """Return the fit that `to_dict` wrote. Raises KeyError for an unknown model, or one with other parameters."""
        parameters, model = content["parameters"], MODELS[content["model"]]
        if list(parameters) != [parameter.name for parameter in model.parameters]:
            raise KeyError(f"parameters of {model.name}")
        values, low, high = (
            {name: math.nan if about[end] is None else about[end] for name, about in parameters.items()}
            for end in ("value", "low", "high")
        )
        return cls(
            model,
            values,
            low,
            high,
            reasons={name: about["reason"] for name, about in parameters.items() if about["reason"]},
            samples=np.array(content["samples"], float).reshape(-1, len(parameters)),
            scatter=Scatter.from_dict(content["scatter"]),
            observed=content["observations"],
            domain=Domain.from_dict(content["domain"]),
            problems=tuple(content["problems"]),
            drawn=content["drawn"],
        )


def fit(model: Model, observations: Observations, *, resamples: int = RESAMPLES) -> Fit:
    """Fit a model; failures are reported in `problems` of the fit and raise no exception.

    The loss is soft L1 (scipy's `least_squares`) of residuals over errors (`Observations.error_at`). Its knee is at
    1.345 times the scale of the residuals (median absolute residual of a first pass; Huber 1981), so that outliers do
    not pull. The search starts at the model's guess and at the best of 64 points of the parameter space.

    Intervals are percentiles of a bootstrap (Davison, Hinkley 1997) that starts at the optimum. It draws whole runs if
    cells were measured in several; within each run it draws whole deployments if there are at least 8, otherwise cells;
    within each cell it draws repetitions. With `resamples=0` there are no intervals.
    """
    try:
        problem, units, scale, converged = find_optimum(model, observations)
    except UnfittableError as error:
        return _failed(model, observations, str(error))
    problems = [] if converged else ["the search ended before it had converged"]
    values, count = problem.values(units), len(observations)
    estimate = model(observations.points, values)
    drawn, samples = bootstrap(problem, units, scale, resamples)
    if resamples and len(samples) < 0.9 * resamples:
        problems.append(f"{resamples - len(samples)} of {resamples} resamples could not be fitted")
    ends = interval(samples) if len(samples) > 1 else (np.full(len(values), math.nan),) * 2
    low, high = (dict(zip(values, end.tolist(), strict=True)) for end in ends)
    # Widen the scatter for a new run, and for the degrees of freedom that the fit used.
    freedom = count - len(problem.free)
    off = log_ratio(observations.throughput, estimate) * math.sqrt(count / freedom)
    scatter = Scatter.from_residuals(off * new_run(off, observations), estimate, freedom)
    reasons = undetermined(problem, units, low, high)
    domain, notes = Domain.from_observations(observations), tuple(problems)
    return Fit(
        model, values, low, high, reasons, samples, scatter, count, drawn, domain=domain, problems=notes
    )


def _failed(model: Model, observations: Observations, problem: str) -> Fit:
    nothing = {parameter.name: math.nan for parameter in model.parameters}
    reasons, samples = dict.fromkeys(nothing, "not fitted"), np.full((1, len(nothing)), np.nan)
    scatter = Scatter(np.zeros(1), np.zeros((1, QUANTILES.size)))
    domain, count = Domain.from_observations(observations), len(observations)
    ends = nothing, nothing, nothing
    return Fit(model, *ends, reasons, samples, scatter, count, domain=domain, problems=(problem,))
