# SPDX-License-Identifier: Apache-2.0
"""Mean ratios over all cells, and over the cells of each value of an axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.sweeps.parameters import Value

RUN_TO_RUN = 0.02
"""Default relative standard deviation of a cell's throughput between runs, if no dataset has several.
Idle runs of the demo on one machine, compared in pairs, had a median difference of 1.6 to 1.8 %, which is that of a
standard deviation of 1.7 to 1.9 % in each run. Other machines may vary more."""

VERDICTS = FASTER, SLOWER, SAME, NOT_COMPARABLE = "faster", "slower", "no difference found", "not comparable"
TOO_SHORT = "measured once, and too short for a judgement of single cells"

Floats = NDArray[np.float64]

PARTS = (
    *("axis", "value", "cells", "ratio", "ratio_low", "ratio_high", "log_ratio", "error", "freedom", "p"),
    *("p_corrected", "verdict"),
)
"""Columns of `axis_value_effects`: a value of an axis, its number of comparable cells, and their mean ratio.
The mean is that of a random-effects model. The other columns are as in `analysis.comparison.TABLE`."""


@dataclass(frozen=True)
class Overall:
    """Mean ratio over cells, new over base, with its confidence interval."""

    verdict: str
    ratio: float
    low: float
    high: float
    cells: int
    spread: float  # estimated standard deviation of the cells' true log ratios; 0 if all may be equal
    error: float = math.nan  # standard error of the logarithm of the ratio, with `freedom` degrees of freedom
    freedom: float = math.nan
    p: float = math.nan
    p_corrected: float = math.nan


def run_to_run(sides: Sequence[pd.DataFrame]) -> float | None:
    """Return the relative standard deviation of throughput between runs beyond that within runs.

    One-way analysis of variance pools it over the cells of each side that were measured in several runs. Without such
    cells the result is None.
    """
    squares, inside, freedom = 0.0, list[float](), 0
    for rows in sides:
        used = rows[(rows["reason"] == "") & (rows["throughput"] > 0)]
        used = used.assign(log=np.log(used["throughput"]), noise=(used["error"] / used["throughput"]) ** 2)
        runs = used.groupby(["cell", "run"])[["log", "noise"]].agg(["mean", "size"])
        means = runs["log", "mean"]
        several = means.groupby("cell").transform("size") > 1
        means = means[several]
        squares += float(((means - means.groupby("cell").transform("mean")) ** 2).sum())
        freedom += len(means) - means.index.get_level_values("cell").nunique()
        inside += (runs["noise", "mean"] / runs["log", "size"])[several].dropna().tolist()
    if not freedom:
        return None
    return float(np.sqrt(max(squares / freedom - float(np.mean(inside or [0.0])), 0.0)))


def measured_cells(cells: pd.DataFrame) -> int:
    """Return the number of cells with a throughput on both sides.

    Cells without an interval count too: similar cells have an interval by luck, and look more certain than they are.
    """
    return int((cells["base"].notna() & cells["new"].notna()).sum())


def overall_effect(cells: pd.DataFrame) -> Overall:
    """Return the mean ratio of comparable cells by a random-effects model, see `analysis.comparison.compare`."""
    used = cells[cells["verdict"] != NOT_COMPARABLE]
    if used.empty:
        return Overall(NOT_COMPARABLE, np.nan, np.nan, np.nan, 0, np.nan)
    mean = _mean(used)
    known = {name: mean[name] for name in ("ratio", "error", "freedom", "spread", "p")}
    return Overall(SAME, low=mean["ratio_low"], high=mean["ratio_high"], cells=len(used), **known)


def axis_value_effects(cells: pd.DataFrame, axes: Mapping[str, Sequence[Value]]) -> pd.DataFrame:
    """Return one row for each value of each axis: the mean ratio of its comparable cells, see `PARTS`.

    A difference at a single RTT is lost in the mean over all cells, whose interval it widens, and in single cells,
    whose p-values are corrected for all of them. `add_verdicts` adds corrected p-values and verdicts.
    """
    used = cells[cells["verdict"] != NOT_COMPARABLE]
    rows = [
        {"axis": axis, "value": value, "cells": len(part), **_mean(part)}
        for axis, values in axes.items()
        for value in values
        if len(values) > 1 and len(part := used[used[axis] == value])
    ]
    found = pd.DataFrame(rows, columns=[*PARTS])
    return found.astype(dict.fromkeys(PARTS[3:-2], float))  # also without rows


def add_verdicts(
    cells: pd.DataFrame, axes: Mapping[str, Sequence[Value]]
) -> tuple[pd.DataFrame, pd.DataFrame, Overall]:
    """Return cells, parts and overall effect with corrected p-values and verdicts, as one family of tests.

    A comparison of equal datasets reports only "no difference found" with a probability of 95 %. Single measurements
    flagged `too_short` have too narrow intervals: they count for parts and the overall effect, whose errors follow from
    the cells' spread, but get no verdict of their own.
    """
    parts, overall = axis_value_effects(cells, axes), overall_effect(cells)
    comparable = cells["verdict"] != NOT_COMPARABLE
    good = comparable & cells["judged_singly"]
    cells = cells.drop(columns="judged_singly")
    cells["verdict"] = cells["verdict"].astype(object)
    cells.loc[comparable & ~good, ["verdict", "why", "evidence"]] = [NOT_COMPARABLE, TOO_SHORT, ""]
    cells.loc[~good, "difference":"p"] = np.nan
    p = correct_family(
        overall.p, parts["p"].to_numpy(), cells.loc[good, "p"].to_numpy(), measured_cells(cells)
    )
    cells["p_corrected"] = np.nan
    cells.loc[good, "p_corrected"] = p[2]
    cells.loc[good, "verdict"] = _verdicts(cells.loc[good, "log_ratio"], p[2])
    parts = parts.assign(p_corrected=p[1], verdict=_verdicts(parts["log_ratio"], p[1]))
    if overall.cells:
        [verdict] = _verdicts(np.log([overall.ratio]), p[0])
        overall = replace(overall, p_corrected=float(p[0][0]), verdict=str(verdict))
    return cells, parts, overall


def correct_family(overall: float, parts: Floats, cells: Floats, tried: int) -> list[Floats]:
    """Correct the p-values of the overall effect, of parts and of cells as one family.

    The overall effect has a fifth of the error; the others share the rest evenly (weighted Holm). `tried` is the number
    of `measured_cells`, with a single one of which all are one test.
    """
    if tried <= 1:
        return [np.array([overall]), parts, cells]
    weights = np.full(1 + len(parts) + len(cells), 0.8 / (len(parts) + tried))
    weights[0] = 0.2
    corrected = holm(np.concatenate([[overall], parts, cells]), weights)
    return np.split(corrected, [1, 1 + len(parts)])


def _verdicts(effects: Any, corrected: Floats) -> NDArray[np.str_]:
    return np.where(corrected < 1 - CONFIDENCE, np.where(np.asarray(effects) > 0, FASTER, SLOWER), SAME)


def _mean(used: pd.DataFrame) -> dict[str, float]:
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
    figures["p"] = 2 * stats.t.sf(abs(mean) / error, freedom)
    return {name: float(value) for name, value in figures.items()}


def random_effects(effects: Floats, variances: Floats) -> tuple[float, float, float]:
    """Return the mean of two or more effects, its standard error, and the true standard deviation.

    The mean is DerSimonian & Laird's estimate. The standard error is the largest of the model's own, Hartung & Knapp's,
    and Sidik & Jonkman's robust one (Computational Statistics & Data Analysis 50, 2006).
    """
    weights = 1 / variances
    mean = np.average(effects, weights=weights)
    heterogeneity = np.sum(weights * (effects - mean) ** 2) - (len(effects) - 1)
    between = max(0.0, heterogeneity / (weights.sum() - np.sum(weights**2) / weights.sum()))
    weights = 1 / (variances + between)
    mean = np.average(effects, weights=weights)
    count, squares, shares = len(effects), (effects - mean) ** 2, weights / weights.sum()
    hartung_knapp = np.sum(shares * squares) / (count - 1)
    # Variances of a few repetitions make poor weights; this error is valid for any weights.
    sidik_jonkman = np.sum(shares**2 * squares / (1 - shares))
    error = np.sqrt(max(1 / weights.sum(), hartung_knapp, sidik_jonkman))
    return float(mean), float(error), float(np.sqrt(between))


def holm(p: Floats, weights: Floats) -> Floats:
    """Correct p-values for their number: the chance that any falls below α is at most α.

    This holds for any dependence. Weights are shares of α, with a sum of at most 1. S. Holm, A simple sequentially
    rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979: the smallest p-value over weight
    counts first, and the weights of rejected ones go to the others.
    """
    order = np.argsort(p / weights)
    left = 1 - np.cumsum(weights[order]) + weights[order]
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate((p / weights)[order] * left)
    return np.minimum(corrected, 1.0)
