# SPDX-License-Identifier: Apache-2.0
"""Least-squares problem of a model: optimum, bootstrap, and parameters that the data do not determine."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import optimize, stats

from tpcsweep.analysis.models.formula import SEED, Floats, Model, Parameter
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.common.numbers import MAD_FACTOR, plain, short

MANY_DEPLOYMENTS = 8
"""Fewest deployments for the bootstrap to draw whole ones, whose cells share the deployment's luck."""

_SCREENED = 64  # points of the parameter space; the best become starts
_STARTS = 4
_HUBER = 1.345  # times the scale of residuals: 95 % efficiency for normal errors
_STEP = math.sqrt(np.finfo(float).eps)  # step of the search's derivatives

_SPAN = 0.5  # an interval wider than this share of the bounds does not determine a parameter,
_FACTOR = 10.0  # neither does one on a logarithmic scale whose ends differ by more than this factor
_EDGE = 2e-3  # share of the range within which a value is at its bound
_FLAT = 1e-6  # influence of a parameter over its whole range, relative to the most influential one
_SINGULAR = 1e-5  # smallest singular value of the scaled Jacobian, relative to the largest
_ALIKE = 0.98  # correlation above which two parameters are indistinguishable


class UnfittableError(ValueError):
    """A model cannot be fitted to the observations; the text says why."""


@dataclass(frozen=True)
class LeastSquares:
    """Least-squares problem over the free parameters in [0, 1]."""

    model: Model
    observations: Observations
    free: tuple[Parameter, ...]
    constants: Mapping[str, float]
    rows: NDArray[np.int64] | None = None  # rows that a resample uses, or None for all rows once each

    def values(self, units: Floats) -> dict[str, Any]:
        """Return every parameter: floats for one point, columns for an array of points × parameters."""
        free = (one.from_unit(units[..., at]) for at, one in enumerate(self.free))
        shaped = (float(value) if units.ndim == 1 else value[:, np.newaxis] for value in free)
        known = {**self.constants, **dict(zip((one.name for one in self.free), shaped, strict=True))}
        return {parameter.name: known[parameter.name] for parameter in self.model.parameters}

    def residuals(self, units: Floats) -> Floats:
        """Return residuals over errors, for one point or for points × parameters.

        If the model has no value, the residual is so large that no search stays there.
        """
        with np.errstate(all="ignore"):
            estimate = self.model(self.observations.points, self.values(units))
            off = (estimate - self.observations.throughput) / self.observations.error_at(estimate)
        known = np.where(np.isnan(off), 1e6, np.clip(off, -1e6, 1e6))
        return known if self.rows is None else known[..., self.rows]

    def slopes(self, units: Floats, step: float = 1e-4) -> Floats:
        """Return derivatives of the residuals (residuals × free parameters) by steps inside the bounds."""
        steps = np.where(units < 0.5, step, -step)
        off = self.residuals(units + np.vstack([np.zeros_like(units), np.diag(steps)]))
        return np.asarray((off[1:] - off[0]) / steps[:, np.newaxis]).T

    def solve(self, start: Floats, scale: float, steps: int, tolerance: float = 1e-6) -> Any:
        """Minimize from a start; return None if that fails."""
        try:
            return optimize.least_squares(
                self.residuals,
                np.clip(start, 1e-6, 1 - 1e-6),
                partial(self.slopes, step=_STEP),
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

    def search(self, start: Mapping[str, float] | None) -> tuple[Floats, float, bool]:
        """Return the optimum, the scale of its residuals and whether it converged. Raises UnfittableError."""
        guess = np.array([float(parameter.to_unit(parameter.guess)) for parameter in self.free])
        if not self.free:
            return guess, _scale(self.residuals(guess)), True
        if start is None:
            starts = self._screened(len(guess))
        else:
            starts = [np.array([float(one.to_unit(start[one.name])) for one in self.free])]
        tried = [self.solve(begin, 1.0, 50, 1e-4) for begin in (guess, *starts)]
        solutions = [solution for solution in tried if solution is not None]
        if not solutions:
            raise UnfittableError("no start led to a finite fit")
        best = min(solutions, key=lambda solution: float(solution.cost))
        scale = _scale(self.residuals(best.x))
        final = self.solve(best.x, scale, 300) or best
        return final.x, scale, bool(final.status > 0)

    def _screened(self, unknowns: int) -> list[Floats]:
        """Return the seeded points with the smallest median residual: far from the optimum a few are huge."""
        cube = stats.qmc.Sobol(unknowns, seed=SEED).random(_SCREENED)
        costs = np.median(np.abs(self.residuals(cube)), axis=1)
        return list(cube[np.argsort(costs, kind="stable")[: _STARTS - 1]])


def find_optimum(
    model: Model, observations: Observations, start: Mapping[str, float] | None = None
) -> tuple[LeastSquares, Floats, float, bool]:
    """Return a model's problem and the result of its search (`LeastSquares.search`).

    Raises UnfittableError if the model has no optimum, or no value at some observation.
    """
    held = {
        parameter.name: parameter.neutral
        for parameter in model.parameters
        if parameter.neutral is not None and not set(parameter.needs) <= set(observations.axes)
    }
    free = tuple(parameter for parameter in model.parameters if parameter.name not in held)
    count, unknowns = len(observations), len(free)
    if count < unknowns + 1:
        raise UnfittableError(f"too few observations to determine {unknowns} parameters: {count}")
    problem = LeastSquares(model, observations, free, held)
    found = problem.search(start)
    if not np.all(np.isfinite(model(observations.points, problem.values(found[0])))):
        raise UnfittableError("the model has no value at some of the cells")
    return problem, *found


def bootstrap(problem: LeastSquares, units: Floats, scale: float, resamples: int) -> tuple[str, Floats]:
    """Return the kind of the drawn units, and the parameters of each resample."""
    optimum = list(problem.values(units).values())
    if not problem.free or not resamples:
        return "nothing", np.tile(optimum, (max(resamples, 1), 1))
    drawn, draw = _drawer(problem.observations)
    generator = np.random.default_rng(SEED)
    samples = []
    for _ in range(resamples):
        solution = replace(problem, rows=draw(generator)).solve(units, scale, 25, 1e-4)
        if solution is not None:
            samples.append(list(problem.values(solution.x).values()))
    return drawn, np.array(samples or [optimum])


def luck_units(observations: Observations) -> pd.Series:
    """Return each row's unit of shared luck: its deployment if there are many, otherwise its point."""
    many = observations.frame["deployment"].nunique() >= MANY_DEPLOYMENTS
    return observations.frame["deployment" if many else "point"]


def _drawer(observations: Observations) -> tuple[str, Callable[[np.random.Generator], NDArray[np.int64]]]:
    """Return the kind of the units, and a function that draws a resample: runs, then units in each run."""
    frame, runs, units = observations.frame, observations.runs, luck_units(observations)
    numbers = np.zeros(len(frame), np.int64) if runs is None else runs
    cells: dict[int, dict[str, list[NDArray[np.int64]]]] = {}
    for rows in frame.groupby([numbers, "point"], sort=False).indices.values():
        of_run = cells.setdefault(numbers[rows[0]], {})
        of_run.setdefault(units.iloc[rows[0]], []).append(np.asarray(rows))
    owned = [list(of_run.values()) for of_run in cells.values()]

    def draw(generator: np.random.Generator) -> NDArray[np.int64]:
        among = generator.integers(0, len(owned), len(owned)) if len(owned) > 1 else [0]
        return np.concatenate(
            [
                rows[generator.integers(0, len(rows), len(rows))]
                for run in among
                for unit in generator.integers(0, len(owned[run]), len(owned[run]))
                for rows in owned[run][unit]
            ]
        )

    drawn = "deployments" if units.name == "deployment" else "cells"
    return (drawn if runs is None else "runs"), draw


def _scale(residuals: Floats) -> float:
    return max(float(MAD_FACTOR * np.median(np.abs(residuals))), 0.05)


def undetermined(
    problem: LeastSquares, units: Floats, low: Mapping[str, float], high: Mapping[str, float]
) -> dict[str, str]:
    """Return the reason for each parameter that the data do not determine."""
    values = problem.values(units)
    names = [parameter.name for parameter in problem.free]
    jacobian = dict(zip(names, problem.slopes(units).T, strict=True))
    reasons: dict[str, str] = {}
    same = _indistinguishable(jacobian)
    norms = {name: float(np.linalg.norm(column)) for name, column in jacobian.items()}
    largest = max(norms.values(), default=0.0)
    for parameter in problem.model.parameters:
        name = parameter.name
        if lacking := [axis for axis in parameter.needs if axis not in problem.observations.axes]:
            held = parameter.neutral if name in problem.constants else None
            end = "" if held is None else f": held at {plain(held)}"
            reasons[name] = f"the data have one value of {' and of '.join(lacking)}{end}"
        elif norms[name] <= _FLAT * largest:
            reasons[name] = "it makes no difference to any measured cell"
        elif reason := _loose(parameter, values[name], low[name], high[name]):
            reasons[name] = reason
        elif name in same:
            reasons[name] = f"it cannot be told from {' and '.join(same[name])}"
    return reasons


def _loose(parameter: Parameter, value: float, low: float, high: float) -> str:
    unit = float(parameter.to_unit(value))
    if unit < _EDGE:
        return f"it is at its lower bound, {plain(parameter.low)}"
    if unit > 1 - _EDGE:
        return f"it is at its upper bound, {plain(parameter.high)}"
    if math.isnan(low):
        return ""
    if parameter.scale == "log" and high > _FACTOR * low:
        return f"its interval spans a factor of {short(high / low, 2)}"
    ends = parameter.to_unit(np.array([low, high]))
    return "its interval spans most of its bounds" if ends[1] - ends[0] > _SPAN else ""


def _indistinguishable(jacobian: Mapping[str, Floats]) -> dict[str, list[str]]:
    """Return each parameter whose effect is a combination of others, with these others."""
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
