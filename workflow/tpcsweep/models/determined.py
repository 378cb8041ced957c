# SPDX-License-Identifier: Apache-2.0
"""Which parameters of a fit the data do not determine, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tpcsweep.models.base import Floats, Parameter
from tpcsweep.models.least_squares import Problem

_SPAN = 0.5
"""An interval that covers more than this share of the bounds says nothing."""

_FACTOR = 10.0
"""Nor does one on a logarithmic scale whose ends differ by more than this factor."""

_EDGE = 2e-3  # of the range: nearer to a bound is at it
_FLAT = 1e-6  # influence of a parameter over its whole range, relative to that of the most influential
_SINGULAR = 1e-5  # smallest singular value of the scaled Jacobian, relative to the largest
_ALIKE = 0.98  # correlation from which two parameters are one


def undetermined(
    problem: Problem, units: Floats, low: Mapping[str, float], high: Mapping[str, float]
) -> dict[str, str]:
    """Give the reason for each parameter that is not determined, by its interval."""
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
