# SPDX-License-Identifier: Apache-2.0
"""Quantiles of intervals, without scipy, which looking at data does not need."""

import math
from functools import cache
from statistics import NormalDist

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_STEPS = 60  # far more than Newton's method needs
_MANY = 1e4  # degrees of freedom from which the quantile differs little from the normal one


def normal_quantile(tail: float) -> float:
    """Return the value that a normal distribution exceeds with the probability `tail`."""
    return -NormalDist().inv_cdf(tail)


@cache
def student_quantile(tail: float, freedom: float) -> float:
    """Return the value that Student's distribution exceeds with the probability `tail`.

    Degrees of freedom are whole numbers, or more than 2; below 1 the quantile is NaN.

    With t = √n tan a, the probability between 0 and t is c ∫ cosⁿ⁻¹ from 0 to a. Newton's method starts at the normal
    quantile, which is nearer to 0, and therefore never passes the solution.
    """
    normal = normal_quantile(tail)
    if freedom >= _MANY:
        return normal + (normal**3 + normal) / (4 * freedom)
    if not freedom >= 1:
        return math.nan
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    angle = math.atan(normal / math.sqrt(freedom))
    for _ in range(_STEPS):
        half = angle / 2
        area = float(half * _WEIGHTS @ np.cos(half * (1 + _NODES)) ** (freedom - 1))
        step = ((0.5 - tail) / factor - area) / math.cos(angle) ** (freedom - 1)
        angle += step
        if abs(step) <= 1e-15 * abs(angle):
            break
    return math.sqrt(freedom) * math.tan(angle)
