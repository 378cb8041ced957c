# SPDX-License-Identifier: Apache-2.0
"""Where throughput changed in a history: candidates by ruptures, each tested. Pure.

`docs/history.md` describes it for those who use it, and has its rate of false alarms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tpcsweep import extras

Floats = NDArray[np.float64]

LEAST = 2
"""Runs between two changes, and before the first and after the last: one run that stands apart is no change."""
SIGNIFICANT = 0.01
"""Share of histories without a change in which one is found, at most, where runs scatter normally."""
_SHARE = 0.5
"""Of the runs that a cell must be in, for its changes to be looked for."""
_MAD = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""


def changes(logs: Floats) -> dict[int, float]:
    """Find the change points of a sweep.

    Candidates are where the mean of all cells, or all cells at once, are best cut by least squares (PELT, by ruptures),
    with a penalty that noise alone exceeds about once. Each is then tested by Student's t between the runs on its two
    sides, up to the next candidate: the mean of all cells, and every cell. The least certain goes as long as there is
    one that is not significant, and its two sides are one then.

    Args:
        logs: logarithms of throughput, runs × cells; NaN where a cell was not measured.

    Returns:
        The place of the first run after each change, in their order, and its p: corrected for the number of places
        where a change could have been (Bonferroni), for the two looks (mean, cells), and for the number of cells.
    """
    count = len(logs)
    if count < 2 * LEAST or not np.isfinite(logs).any():
        return {}
    used = logs[:, np.isfinite(logs).sum(axis=0) >= _SHARE * count]
    if not used.size:
        return {}
    places = sorted({*_cut(mean_of(used)[:, None]), *_cut(used)})
    while places:
        tests = {place: _test(used, *_sides(places, at, count)) for at, place in enumerate(places)}
        worst = max(places, key=lambda place: tests[place])
        if tests[worst][1] < SIGNIFICANT and not tests[worst][0]:
            return {place: p for place, (_, p) in tests.items()}
        places.remove(worst)
    return {}


def mean_of(logs: Floats) -> Floats:
    """The mean over cells of how far each is from its own mean over all runs, a value for each run.

    So a cell that is missing in a run does not move the mean of the others. NaN for a run without any cell.
    """
    known = np.isfinite(logs)
    centred = np.where(known, logs - _mean(logs, known), 0.0)
    return np.where(known.any(axis=1), centred.sum(axis=1) / known.sum(axis=1).clip(1), np.nan)


def _mean(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Means of what is known of columns; 0 where nothing is."""
    mean: Floats = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0).clip(1)
    return mean


def _cut(signal: Floats) -> list[int]:
    """Where series are cut best, all at once; each is measured by its own scatter from run to run."""
    extras.require("history")
    import ruptures  # type: ignore[import-untyped]

    steps = np.abs(np.diff(signal, axis=0))
    with np.errstate(invalid="ignore"):
        scatter = _MAD * np.nan_to_num(_median(steps)) / np.sqrt(2)
    scaled = np.nan_to_num((signal - _median(signal)) / np.where(scatter > 0, scatter, np.inf))
    penalty = float(stats.chi2.isf(1 / len(signal), signal.shape[1]))
    found = ruptures.KernelCPD(kernel="linear", min_size=LEAST).fit(scaled).predict(pen=penalty)
    return [int(place) for place in found[:-1]]


def _median(values: Floats) -> Floats:
    """Medians of columns; NaN of one without a value."""
    known = np.isfinite(values).any(axis=0)
    medians = np.full(values.shape[1], np.nan)
    medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians


def _sides(places: list[int], at: int, count: int) -> tuple[slice, slice]:
    """The runs before and after one of the places, up to the next ones."""
    before = places[at - 1] if at else 0
    after = places[at + 1] if at + 1 < len(places) else count
    return slice(before, places[at]), slice(places[at], after)


def _test(logs: Floats, before: slice, after: slice) -> tuple[bool, float]:
    """Whether a side has fewer than LEAST runs, and the p of what is between both."""
    few = min(before.stop - before.start, after.stop - after.start) < LEAST
    places = len(logs) - 2 * LEAST + 1
    mean = mean_of(logs)[:, None]
    smallest = _p(mean, before, after)
    if logs.shape[1] > 1:
        smallest = 2 * min(smallest, _p(logs, before, after) * logs.shape[1])
    return few, min(1.0, places * smallest)


def _p(values: Floats, before: slice, after: slice) -> float:
    """The smallest p of the columns, by Student's t with one variance for both sides; 1 where none can be tested.

    With one variance it holds for sides of two runs too, for which Welch's test finds too much.
    """
    with np.errstate(all="ignore"):
        found = stats.ttest_ind_from_stats(
            *_moments(values[before]), *_moments(values[after]), equal_var=True
        )
    p = np.asarray(found.pvalue, float)
    return float(np.min(np.where(np.isfinite(p), p, 1.0)))


def _moments(values: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Mean, standard deviation and number of what is known of each column."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    mean = _mean(values, known)
    squares = np.where(known, values - mean, 0.0) ** 2
    return mean, np.sqrt(squares.sum(axis=0) / (count - 1)), count
