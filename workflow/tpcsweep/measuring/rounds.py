# SPDX-License-Identifier: Apache-2.0
"""Confidence interval of a cell if only the ends of a few files are known, which is so at endpoints. Pure.

A round is the k-th file of every stream. Its jackknife (Quenouille 1956; Tukey 1958) contains scatter that streams
share, and the correction of `steady` for correlated neighbours.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tpcsweep.common.quantiles import student_quantile
from tpcsweep.measuring.steady import Steady, standard_error

FEWEST_FILES = 8  # of each stream, the first one included; intervals from fewer contain the truth too rarely
BATCHED = 16  # files of each stream from which on batches of time hold enough files
FEWEST_ROUNDS = 20  # independent rounds, of streams that vary together
_ALIKE = 0.1  # probability of streams that seem to vary together by chance
_LEAST_ROUNDS = 3


def by_rounds(
    cell: Steady, seconds: NDArray[np.float64], sizes: NDArray[np.float64], confidence: float
) -> Steady:
    """Return a cell with the interval of its rounds, if it has few; it is too short if these say too little.

    Both arrays have one row for each stream and one column for each round: the time from the end of the stream's
    previous file, and the bytes. The mean remains.
    """
    count = seconds.shape[1]
    if not count:
        return cell
    if count + 1 < FEWEST_FILES or independent_rounds(seconds, sizes) < FEWEST_ROUNDS:
        cell = replace(cell, too_short=True, correlation=math.nan)  # no other cells say more about that
    if not _LEAST_ROUNDS <= count < BATCHED - 1:
        return cell
    half, freedom = half_width(seconds, sizes, confidence)
    return replace(cell, low=cell.mean * (1 - half), high=cell.mean * (1 + half), freedom=freedom)


def independent_rounds(seconds: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """Return the number of independent rounds, at least two rounds given; inf if streams vary independently.

    An analysis of variance tells whether streams vary together. A single stream may vary like other traffic on its way,
    which nothing shows but its own neighbouring files.
    """
    streams, count = seconds.shape
    together = _deviations(seconds, sizes).mean(axis=0)
    variance, error = together.var(ddof=1), standard_error(together)
    if streams > 1:
        alone = ((_deviations(seconds, sizes) - together) ** 2).sum() / ((streams - 1) * (count - 1))
        ratio = streams * variance / alone if alone else math.inf
        if special.fdtrc(count - 1, (streams - 1) * (count - 1), ratio) > _ALIKE:
            return math.inf
    return float(variance / error**2) if error else math.inf


def _deviations(seconds: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the deviations of the rates of files from those of their streams, in parts of the streams' sums."""
    carried, took = sizes.sum(axis=1, keepdims=True), seconds.sum(axis=1, keepdims=True)
    return np.asarray(sizes / carried - seconds / took)


def half_width(
    seconds: NDArray[np.float64], sizes: NDArray[np.float64], confidence: float
) -> tuple[float, float]:
    """Return half the interval's width over the mean rate, and the degrees of freedom of Student's t.

    The interval is the wider one of two: that of rounds, and that of independent files.
    """
    streams, count = seconds.shape
    carried, took = sizes.sum(axis=1, keepdims=True), seconds.sum(axis=1, keepdims=True)
    rates = carried / took
    without = ((carried - sizes) / (took - seconds)).sum(axis=0)  # rates of the cell without each round
    shared = standard_error(count * rates.sum() - (count - 1) * without)
    scatter = ((sizes - rates * seconds) ** 2).sum(axis=1, keepdims=True) / (count - 1)
    alone = math.sqrt(float((count * scatter / took**2).sum()))
    freedoms = float(count - 1), float(streams * (count - 1))
    halves = [
        error * student_quantile((1 - confidence) / 2, freedom)
        for error, freedom in zip((shared, alone), freedoms, strict=True)
    ]
    wider = int(np.argmax(halves))
    return halves[wider] / float(rates.sum()), freedoms[wider]
