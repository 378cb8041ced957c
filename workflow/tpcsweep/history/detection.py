# SPDX-License-Identifier: Apache-2.0
"""Where throughput changed in a history: candidates by ruptures, each tested. Pure.

`docs/history.md` describes it for those who use it, and has its rate of false alarms.
"""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import stats

from tpcsweep import extras

Floats = NDArray[np.float64]

LEAST = 2
"""Runs between two changes, and before the first and after the last: one run that stands apart is no change."""
SIGNIFICANT = 0.01
"""Largest share of histories without a change in which one is found, where runs scatter normally."""
_SHARE = 0.5
"""Share of the runs that must contain a cell for its changes to be searched."""
_MAD = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""


def changes(logs: Floats) -> dict[int, float]:
    """Find the change points of a sweep.

    Candidates are where the mean of all cells, or all cells at once, are best cut by least squares (PELT, by ruptures),
    with a penalty that noise alone exceeds about once. Each is then tested by Student's t between the runs on its two
    sides, up to the next candidate: the mean of all cells, and every cell. While one is not significant, the least
    certain is dropped, and its two sides become one.

    Args:
        logs: logarithms of throughput, runs × cells; NaN where a cell was not measured.

    Returns:
        The place of the first run after each change, in their order, and its p: corrected for the number of places
        where a change could have been (Bonferroni), for the two looks (mean, cells), and for the number of cells.
    """
    count = len(logs)
    frame = pd.DataFrame(logs)
    used = frame.loc[:, frame.notna().mean() >= _SHARE]
    if count < 2 * LEAST or used.empty:
        return {}
    mean = pd.DataFrame(mean_of(used.to_numpy()))
    places = sorted({*_cut(mean), *_cut(used)})
    while places:
        edges = [0, *places, count]
        tests = {place: _test(used, mean, *edges[at : at + 3]) for at, place in enumerate(places)}
        worst = max(places, key=lambda place: tests[place])
        if tests[worst][1] < SIGNIFICANT and not tests[worst][0]:
            return {place: p for place, (_, p) in tests.items()}
        places.remove(worst)
    return {}


def mean_of(logs: Floats) -> Floats:
    """Return for each run the mean over cells of the distance of a cell from its own mean over all runs.

    A cell that is missing in a run does not move the mean of the others. NaN for a run without any cell.
    """
    frame = pd.DataFrame(logs)
    return np.asarray((frame - frame.mean()).mean(axis=1), float)


def _cut(signal: pd.DataFrame) -> list[int]:
    """Return where series are cut best, all at once; each is measured by its own scatter from run to run."""
    extras.require("history")
    import ruptures  # type: ignore[import-untyped]

    scatter = _MAD * signal.diff().abs().median() / np.sqrt(2)
    scaled = ((signal - signal.median()) / scatter.where(scatter > 0, np.inf)).fillna(0.0).to_numpy()
    penalty = float(stats.chi2.isf(1 / len(signal), signal.shape[1]))
    found = ruptures.KernelCPD(kernel="linear", min_size=LEAST).fit(scaled).predict(pen=penalty)
    return [int(place) for place in found[:-1]]


def _test(used: pd.DataFrame, mean: pd.DataFrame, first: int, place: int, end: int) -> tuple[bool, float]:
    """Return whether a side of a place has fewer than LEAST runs, and the p of the difference of both sides."""
    few = min(place - first, end - place) < LEAST
    smallest = _p(mean[first:place], mean[place:end])
    cells = used.shape[1]
    if cells > 1:
        smallest = 2 * min(smallest, _p(used[first:place], used[place:end]) * cells)
    return few, min(1.0, (len(used) - 2 * LEAST + 1) * smallest)


def _p(before: pd.DataFrame, after: pd.DataFrame) -> float:
    """Return the smallest p of the columns, by Student's t with one variance for both sides; 1 without a test.

    One variance suits sides of two runs too, for which Welch's test finds too much.
    """
    sides = [
        [side.agg(name).to_numpy(float) for name in ("mean", "std", "count")] for side in (before, after)
    ]
    (mean, spread, count), (other_mean, other_spread, other_count) = sides
    with np.errstate(all="ignore"):
        found = stats.ttest_ind_from_stats(mean, spread, count, other_mean, other_spread, other_count)
    p = np.asarray(found.pvalue, float)
    return float(np.min(np.where(np.isfinite(p), p, 1.0)))
