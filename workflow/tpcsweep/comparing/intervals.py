# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals of rates, shares and means; each holds the truth in `CONFIDENCE` of all cases or more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.comparing.effects import CONFIDENCE

Floats = NDArray[np.float64]


def rate_interval(events: int, exposure: float) -> tuple[float, float]:
    """Give the ends of the interval of a Poisson rate.

    Args:
        events: how many were counted.
        exposure: what they were counted in, such as hours.

    Returns:
        Both ends, per unit of exposure; from 0 on where nothing was counted, and no bound without exposure.

    Source:
        F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936: exact, and so conservative.
    """
    if not exposure > 0:
        return 0.0, np.inf
    tail = (1 - CONFIDENCE) / 2
    low = stats.chi2.ppf(tail, 2 * events) / 2 if events else 0.0
    return float(low / exposure), float(stats.chi2.isf(tail, 2 * events + 2) / 2 / exposure)


def share_interval(part: int, whole: int) -> tuple[float, float]:
    """Give the ends of the interval of a share, of so many cases that have it among so many; 0 to 1 of none.

    Source:
        E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American
        Statistical Association 22, 1927.
    """
    if not whole:
        return 0.0, 1.0
    interval = stats.binomtest(part, whole).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def half_width(values: Floats) -> Floats:
    """Give half of the width of the interval of a mean, by Student's t.

    Args:
        values: repetitions along the last axis; NaN: there is none.

    Returns:
        In the unit of the values, without their last axis; NaN where there are fewer than two.
    """
    count = np.isfinite(values).sum(axis=-1)
    freedom = np.where(count > 1, count - 1, np.nan)
    mean = np.nansum(values, axis=-1, keepdims=True) / np.where(count > 0, count, np.nan)[..., None]
    variance = np.nansum((values - mean) ** 2, axis=-1) / freedom
    half: Floats = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(variance / count.clip(1))
    return half
