# SPDX-License-Identifier: Apache-2.0
"""A model's least-squares problem, and what comes out of it for resamples of the observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, stats

from tpcsweep.models.base import Floats, Model, Parameter
from tpcsweep.models.observations import Observations

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

MANY_DEPLOYMENTS = 8
"""From so many deployments on these are what the bootstrap draws: cells of one deployment share its luck."""

_SCREENED = 64  # points of the parameter space that are looked at, before the best become starts
_STARTS = 4
_HUBER = 1.345  # times the scale of residuals: 95 % efficiency for normal errors
_AWAY = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # shares of the way to a bound at which what is held is tried
_STEP = math.sqrt(np.finfo(float).eps)  # of the derivatives for a search
_AS_GOOD = 1.92  # half of the 95 % quantile of χ² with one degree of freedom


@dataclass(frozen=True)
class Problem:
    """The least-squares problem, over the free parameters in [0, 1]."""

    model: Model
    observations: Observations
    free: tuple[Parameter, ...]
    held: Mapping[str, float]
    rows: NDArray[np.int64] | None = None
    """The observations that count, in a resample; None: all, once each."""

    @classmethod
    def of(cls, model: Model, observations: Observations) -> Problem:
        held = {
            parameter.name: parameter.neutral
            for parameter in model.parameters
            if parameter.neutral is not None and not set(parameter.needs) <= set(observations.axes)
        }
        free = tuple(parameter for parameter in model.parameters if parameter.name not in held)
        return cls(model, observations, free, held)

    def values(self, units: Floats) -> dict[str, Any]:
        """Return every parameter: floats for one point of the space, columns for an array of points × parameters."""
        free = (one.from_unit(units[..., at]) for at, one in enumerate(self.free))
        shaped = (float(value) if units.ndim == 1 else value[:, np.newaxis] for value in free)
        known = {**self.held, **dict(zip((one.name for one in self.free), shaped, strict=True))}
        return {parameter.name: known[parameter.name] for parameter in self.model.parameters}

    def residuals(self, units: Floats) -> Floats:
        """Return residuals over errors, of one point of the space or of points × parameters.

        Where the model has no value, it is a residual that no search stays at.
        """
        with np.errstate(all="ignore"):
            estimate = self.model(self.observations.points, self.values(units))
            off = (estimate - self.observations.throughput) / self.observations.error_at(estimate)
        known = np.where(np.isnan(off), 1e6, np.clip(off, -1e6, 1e6))
        return known if self.rows is None else known[..., self.rows]

    def slopes(self, units: Floats, step: float = 1e-4) -> Floats:
        """Return the derivatives of the residuals (residuals × free parameters) by steps that stay inside the bounds.

        The model is called once for all of them.
        """
        steps = np.where(units < 0.5, step, -step)
        off = self.residuals(units + np.vstack([np.zeros_like(units), np.diag(steps)]))
        return np.asarray((off[1:] - off[0]) / steps[:, np.newaxis]).T

    def solve(self, start: Floats, scale: float, steps: int, tolerance: float = 1e-6) -> Any:
        """Minimize from a start; None where that fails."""
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

        def tried(problem: Problem, solution: Any) -> bool:
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
        costs = np.median(np.abs(self.residuals(cube)), axis=1)
        return list(cube[np.argsort(costs, kind="stable")[: _STARTS - 1]])


def bootstrap(problem: Problem, units: Floats, scale: float, resamples: int, seed: int) -> tuple[str, Floats]:
    """Give what was drawn, and the parameters of each resample."""
    optimum = list(problem.values(units).values())
    if not problem.free or not resamples:
        return "nothing", np.tile(optimum, (max(resamples, 1), 1))
    drawn, draw = _drawer(problem.observations)
    generator = np.random.default_rng(seed)
    samples = []
    for _ in range(resamples):
        solution = replace(problem, rows=draw(generator)).solve(units, scale, 25, 1e-4)
        if solution is not None:
            samples.append(list(problem.values(solution.x).values()))
    return drawn, np.array(samples or [optimum])


def units_of(observations: Observations) -> pd.Series:
    """Give the unit of each row that shares its luck: the deployment where there are many, else the point."""
    many = observations.frame["deployment"].nunique() >= MANY_DEPLOYMENTS
    return observations.frame["deployment" if many else "point"]


def _drawer(observations: Observations) -> tuple[str, Callable[[np.random.Generator], NDArray[np.int64]]]:
    """Give what is drawn, and a function that draws the rows of a resample: in each run that it draws, units of it."""
    frame, runs, units = observations.frame, observations.runs, units_of(observations)
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
    return max(float(1.4826 * np.median(np.abs(residuals))), 0.05)
