# SPDX-License-Identifier: Apache-2.0
"""Correction of p-values for everything that an analysis says together. Pure."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def holm(p: Floats, weights: Floats | None = None) -> Floats:
    """Correct p-values for their number: the chance that any falls below α is at most α.

    This holds for any dependence. Weights are shares of α, with a sum of at most 1; by default they are equal. S. Holm,
    A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979: the smallest
    p-value over weight counts first, and the weights of rejected ones go to the others.
    """
    if weights is None:
        weights = np.full(p.size, 1 / max(p.size, 1))
    order = np.argsort(p / weights)
    left = 1 - np.cumsum(weights[order]) + weights[order]
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate((p / weights)[order] * left)
    return np.minimum(corrected, 1.0)
