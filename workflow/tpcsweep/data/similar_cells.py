# SPDX-License-Identifier: Apache-2.0
"""Whether cells are long enough for their intervals, by all cells of a sweep that are similar. Pure.

A single cell knows too little. If its throughput happens to vary less than in the long run, its interval is too narrow,
and the correlation time that would show this is too short as well. Neighbours in the grid vary alike, and their luck is
independent (docs/measuring.md).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d

SHORTEST = 10.0  # s: below this, and below this many correlation times, intervals miss the truth too often
FEWEST_TIMES = 15
FEWEST_POOLED = 20  # correlation times by the mean of similar cells
NARROW = 0.6
"""Interval over the usual one of similar cells, both relative to the mean, below which it may be narrow by luck."""
_NEIGHBOUR = 0.5  # weight of the next value on an axis; along several axes weights multiply


def too_short(
    lengths: NDArray[np.float64], round_trips: NDArray[np.float64], widths: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which cells of at least `SHORTEST` are too short for their intervals.

    All arrays have one dimension for each axis of the grid. `lengths` and `round_trips` are the cells' times after the
    warm-up over their correlation times and over their RTTs, NaN if unknown. `widths` are their intervals over their
    means. A cell whose length and width are unknown is not too short by them, and does not count for others.
    """
    times = np.exp(_pooled(lengths, np.log))
    expected = _by_axes(widths)
    # A mean of roots follows rare wide intervals more than a geometric mean, and less than the usual one.
    usual = expected * _pooled(widths / expected, np.sqrt) ** 2
    return np.asarray((times < FEWEST_POOLED) | (round_trips < FEWEST_TIMES) | (widths < NARROW * usual))


def _by_axes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive values as a product of a factor for each value of each axis, by geometric means of known ones."""
    known = np.isfinite(values) & (values > 0)
    logs = np.where(known, np.log(np.where(known, values, 1.0)), 0.0)

    def mean(axes: tuple[int, ...]) -> NDArray[np.float64]:
        count = known.sum(axis=axes, keepdims=True)
        return np.asarray(logs.sum(axis=axes, keepdims=True) / np.maximum(count, 1))

    every = tuple(range(values.ndim))
    middle = mean(every)
    effects = (mean(every[:axis] + every[axis + 1 :]) - middle for axis in every)
    return np.asarray(np.exp(middle + sum(effects, np.zeros(values.shape))))


def _pooled(
    values: NDArray[np.float64], scale: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the weighted mean of each cell and its neighbours in the grid on a scale; NaN where a value is NaN."""
    known = np.isfinite(values) & (values > 0)
    sums, weights = np.where(known, scale(np.where(known, values, 1.0)), 0.0), known.astype(float)
    for axis in range(values.ndim):
        sums, weights = (
            correlate1d(each, [_NEIGHBOUR, 1, _NEIGHBOUR], axis, mode="constant") for each in (sums, weights)
        )
    return np.asarray(np.where(np.isfinite(values), sums / np.maximum(weights, 1e-9), np.nan))
