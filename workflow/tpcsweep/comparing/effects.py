# SPDX-License-Identifier: Apache-2.0
"""Mean ratios of cells: over all of them, and over those that have a value of an axis in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.configuration.parameters import Value

CONFIDENCE = 0.95
"""Confidence of all intervals; 1 − this is the share of comparisons of equals that may find a difference."""

VERDICTS = FASTER, SLOWER, SAME, NOT_COMPARABLE = "faster", "slower", "no difference found", "not comparable"

Floats = NDArray[np.float64]

PARTS = (
    *("axis", "value", "cells", "ratio", "ratio_low", "ratio_high", "log_ratio", "error", "freedom", "p"),
    *("p_corrected", "verdict"),
)
"""The columns of `parts`: one of the values of an axis, how many comparable cells have it, and their mean ratio by a
random-effects model. The others are as in `comparison.TABLE`; p is corrected for all values of all axes."""


@dataclass(frozen=True)
class Overall:
    """The mean ratio over cells, new over base, with its confidence interval."""

    verdict: str
    ratio: float
    low: float
    high: float
    cells: int
    spread: float
    """Standard deviation of the cells' true log ratios, as estimated: 0 where all may have the same."""


def combined(cells: pd.DataFrame) -> Overall:
    """Return the mean ratio of a table's comparable cells, by a random-effects model: see `compare`."""
    used = cells[cells["verdict"] != NOT_COMPARABLE]
    if used.empty:
        return Overall(NOT_COMPARABLE, np.nan, np.nan, np.nan, 0, np.nan)
    mean = _mean(used)
    low, high = mean["ratio_low"], mean["ratio_high"]
    verdict = FASTER if low > 1 else SLOWER if high < 1 else SAME
    return Overall(verdict, mean["ratio"], low, high, len(used), mean["spread"])


def parts(cells: pd.DataFrame, axes: Mapping[str, Sequence[Value]]) -> pd.DataFrame:
    """Return the mean ratio of the comparable cells that have each value of each axis, a row each: see `PARTS`.

    A difference at one RTT alone is lost in the mean over all cells, whose interval it widens, and in single cells,
    whose p are corrected for all of them.
    """
    used = cells[cells["verdict"] != NOT_COMPARABLE]
    rows = [
        {"axis": axis, "value": value, "cells": len(part), **_mean(part)}
        for axis, values in axes.items()
        for value in values
        if len(values) > 1 and len(part := used[used[axis] == value])
    ]
    found = pd.DataFrame(rows, columns=[*PARTS])
    figures = ["ratio", "ratio_low", "ratio_high", "log_ratio", "error", "freedom"]
    found[figures] = found[figures].astype(float)  # also without rows
    found["p"] = 2 * stats.t.sf(found["log_ratio"].abs() / found["error"], found["freedom"])
    found["p_corrected"] = holm(found["p"].to_numpy())
    direction = np.where(found["log_ratio"] > 0, FASTER, SLOWER)
    found["verdict"] = np.where(found["p_corrected"] < 1 - CONFIDENCE, direction, SAME)
    return found


def _mean(used: pd.DataFrame) -> dict[str, float]:
    """Return the mean of some cells by the names of `PARTS`, and the `spread` of the true log ratios."""
    effects, errors = (used[name].to_numpy(float) for name in ("log_ratio", "error"))
    if len(used) == 1:
        mean, error, freedom, spread = effects[0], errors[0], used["freedom"].iloc[0], 0.0
    else:
        mean, error, spread = random_effects(effects, errors**2)
        freedom = len(used) - 1
    half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error
    ratio, low, high = np.exp([mean, mean - half, mean + half])
    figures = {"ratio": ratio, "ratio_low": low, "ratio_high": high, "log_ratio": mean}
    figures |= {"error": error, "freedom": freedom, "spread": spread}
    return {name: float(value) for name, value in figures.items()}


def random_effects(effects: Floats, variances: Floats) -> tuple[float, float, float]:
    """Return the mean of two or more effects, its standard error, and the standard deviation of the true effects.

    DerSimonian & Laird's estimate; of its standard error the largest of the model's own, Hartung & Knapp's, and
    Sidik & Jonkman's robust one (Computational Statistics & Data Analysis 50, 2006).
    """
    weights = 1 / variances
    mean = np.average(effects, weights=weights)
    heterogeneity = np.sum(weights * (effects - mean) ** 2) - (len(effects) - 1)
    between = max(0.0, heterogeneity / (weights.sum() - np.sum(weights**2) / weights.sum()))
    weights = 1 / (variances + between)
    mean = np.average(effects, weights=weights)
    count, squares, shares = len(effects), (effects - mean) ** 2, weights / weights.sum()
    hartung_knapp = np.sum(shares * squares) / (count - 1)
    # Variances of a few repetitions make poor weights: this holds whatever the weights are.
    sidik_jonkman = np.sum(shares**2 * squares / (1 - shares))
    error = np.sqrt(max(1 / weights.sum(), hartung_knapp, sidik_jonkman))
    return float(mean), float(error), float(np.sqrt(between))


def holm(p: Floats, tried: int | None = None) -> Floats:
    """Correct p-values for their number, so that one is below α by chance with a probability of α at most.

    `tried` is their number if none were missing by chance; by default the number of p-values. Holm 1979, A simple
    sequentially rejective multiple test procedure: the k-th smallest of n counts n − k + 1 times.
    """
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * ((tried or len(p)) - np.arange(len(p))))
    return np.minimum(corrected, 1.0)
