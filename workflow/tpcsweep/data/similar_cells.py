# SPDX-License-Identifier: Apache-2.0
"""Whether cells are long enough for their intervals, by all cells of a sweep that are similar. Pure.

A single cell knows too little. If its throughput happens to vary less than in the long run, its interval is too narrow,
and so is the correlation that would show this. Neighbours in the grid vary alike, and their luck is independent
(docs/measuring.md).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tpcsweep.data.flags import SHORTEST

FEWEST_TIMES = 15
FEWEST_CYCLES = 3
"""Cycles of files in three quarters of a cell, below which they widen its interval, because batches cut them."""
NARROW = 0.5
"""Interval over the usual one of similar cells, both relative to the mean, below which it may be narrow by luck."""
_NEIGHBOUR = 0.5  # weight of the next value on an axis; along several axes weights multiply

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def judged(figures: Mapping[str, Floats], ok: Mask, interval: float) -> tuple[Mask, dict[str, Mask]]:
    """Return which cells can be judged by similar ones, and for each reason of `too_short` the cells that have it.

    `figures` are those of cells by their names, `ok` marks successful cells, all with a dimension for each axis of the
    grid. `interval` is the time between samples in s.
    """
    known = ok & np.isfinite(figures["batch_correlation"])
    low, high, middle = (figures[f"throughput{end}"] for end in ("_low", "_high", ""))
    widths = np.divide(high - low, middle, out=np.full_like(middle, np.nan), where=middle > 0)
    # An unknown cycle is NaN, and widens nothing.
    widths[0.75 * figures["duration"] < FEWEST_CYCLES * figures["cycle"]] = np.nan
    compared = (figures["batch_correlation"], figures["length_rtts"], widths)
    reasons = by_similar(*(np.where(known, values, np.nan) for values in compared))
    return known, {"seconds": figures["duration"] + interval / 2 < SHORTEST, **reasons}


def too_short(correlations: Floats, round_trips: Floats, widths: Floats) -> Mask:
    """Return which cells of at least `SHORTEST` are too short for their intervals, with arguments of `by_similar`."""
    return np.asarray(np.any([*by_similar(correlations, round_trips, widths).values()], axis=0))


def by_similar(correlations: Floats, round_trips: Floats, widths: Floats) -> dict[str, Mask]:
    """Return for each reason of flags.toml that similar cells show the cells that have it.

    All arrays have one dimension for each axis of the grid, and NaN for unknown values, which decide nothing.
    `correlations` are those of the cells' neighbouring batches, `round_trips` the cells' times after the warm-up over
    their RTTs, and `widths` their intervals over their means.

    Independent batches have a mean correlation of −1/8, because they are centred on the mean of eight. A positive one
    of similar cells shows noise as slow as the cells are long.
    """
    expected = _by_axes(widths)
    # The mean of squares is that of variances, which rare events make large in few cells.
    usual = expected * np.sqrt(_pooled((widths / expected) ** 2))
    return {
        "round_trips": round_trips < FEWEST_TIMES,
        "slow": _pooled(correlations) > 0,
        "narrow": widths < NARROW * usual,
    }


def _by_axes(values: Floats) -> Floats:
    """Return positive values as a product of a factor for each value of each axis, by geometric means of known ones."""
    known = np.isfinite(values) & (values > 0)
    logs = np.where(known, np.log(np.where(known, values, 1.0)), 0.0)

    def mean(axes: tuple[int, ...]) -> Floats:
        count = known.sum(axis=axes, keepdims=True)
        return np.asarray(logs.sum(axis=axes, keepdims=True) / np.maximum(count, 1))

    every = tuple(range(values.ndim))
    middle = mean(every)
    effects = (mean(every[:axis] + every[axis + 1 :]) - middle for axis in every)
    return np.asarray(np.exp(middle + sum(effects, np.zeros(values.shape))))


def _pooled(values: Floats) -> Floats:
    """Return the weighted mean of each cell and its neighbours in the grid; NaN where a value is NaN."""
    known = np.isfinite(values)
    sums, weights = np.where(known, values, 0.0), known.astype(float)
    for axis in range(values.ndim):
        sums, weights = (_with_neighbours(each, axis) for each in (sums, weights))
    return np.asarray(np.where(known, sums / np.maximum(weights, 1e-9), np.nan))


def _with_neighbours(values: Floats, axis: int) -> Floats:
    along = np.moveaxis(values, axis, 0)
    sums = along.copy()
    sums[1:] += _NEIGHBOUR * along[:-1]
    sums[:-1] += _NEIGHBOUR * along[1:]
    return np.moveaxis(sums, 0, axis)
