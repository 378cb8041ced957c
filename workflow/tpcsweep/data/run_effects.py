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
from tpcsweep.data.differences import Differences
from tpcsweep.data.scatter import Floats
from tpcsweep.sweeps.parameters import Value

VERDICTS = FASTER, SLOWER, SAME, NOT_COMPARABLE = "faster", "slower", "no difference found", "not comparable"
OVERALL_SHARE = 0.2  # of the error of all verdicts
TOO_SHORT = "measured once, and too short for a judgement of single cells"
DISTURBED = "measured once, on a disturbed or saturated machine"

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


def measured_cells(cells: pd.DataFrame) -> int:
    """Return the number of cells with a throughput on both sides.

    Cells without an interval count too: similar cells have an interval by luck, and look more certain than they are.
    """
    return int((cells["base"].notna() & cells["new"].notna()).sum())


def overall_effect(cells: pd.DataFrame, found: Differences) -> Overall:
    """Return the mean ratio of the cells that count together, see `analysis.comparison.compare`."""
    used = np.flatnonzero(cells["counted"])
    if not used.size:
        return Overall(NOT_COMPARABLE, np.nan, np.nan, np.nan, 0, np.nan)
    mean = _mean(found, used)
    known = {name: mean[name] for name in ("ratio", "error", "freedom", "spread", "p")}
    return Overall(SAME, low=mean["ratio_low"], high=mean["ratio_high"], cells=len(used), **known)


def axis_value_effects(
    cells: pd.DataFrame, axes: Mapping[str, Sequence[Value]], found: Differences
) -> pd.DataFrame:
    """Return one row for each value of each axis: the mean ratio of its cells that count together, see `PARTS`.

    A difference at a single RTT is lost in the mean over all cells, whose interval it widens, and in single cells,
    whose p-values are corrected for all of them. `add_verdicts` adds corrected p-values and verdicts.
    """
    rows = [
        {"axis": axis, "value": value, "cells": len(part), **_mean(found, part)}
        for axis, values in axes.items()
        for value in values
        if len(values) > 1 and len(part := np.flatnonzero(cells["counted"] & (cells[axis] == value)))
    ]
    parts = pd.DataFrame(rows, columns=[*PARTS])
    return parts.astype(dict.fromkeys(PARTS[3:-2], float))  # also without rows


def add_verdicts(
    cells: pd.DataFrame, axes: Mapping[str, Sequence[Value]], found: Differences
) -> tuple[pd.DataFrame, pd.DataFrame, Overall]:
    """Return cells, parts and overall effect with corrected p-values and verdicts, as one family of tests.

    A comparison of equal datasets reports only "no difference found" with a probability of 95 %. The column `unjudged`
    has the reason why a cell gets no verdict of its own, `counted` whether it counts for parts and the overall effect.
    """
    parts, overall = axis_value_effects(cells, axes, found), overall_effect(cells, found)
    comparable, unjudged = cells["verdict"] != NOT_COMPARABLE, cells["unjudged"]
    good = comparable & (unjudged == "")
    cells = cells.drop(columns=["unjudged", "counted"])
    alone = comparable & ~good
    cells["verdict"] = cells["verdict"].astype(object)
    cells.loc[alone, ["verdict", "evidence"]] = [NOT_COMPARABLE, ""]
    cells.loc[alone, "why"] = unjudged[alone]
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

    If nothing differs, any falls below α with a probability of at most α. Otherwise at most a share α of the parts and
    cells below α are false in the mean: the overall effect has a fifth of α, the others share the rest (Y. Benjamini,
    Y. Hochberg, Journal of the Royal Statistical Society B 57, 1995). `tried` is the number of `measured_cells`, with a
    single one of which all are one test.
    """
    if tried <= 1:
        return [np.array([overall]), parts, cells]
    unjudged = np.ones(tried - len(cells))
    corrected = stats.false_discovery_control([*parts, *cells, *unjudged]) / (1 - OVERALL_SHARE)
    both = np.minimum(corrected[: len(parts) + len(cells)], 1.0)
    return [np.minimum([overall / OVERALL_SHARE], 1.0), *np.split(both, [len(parts)])]


def _verdicts(effects: Any, corrected: Floats) -> NDArray[np.str_]:
    return np.where(corrected < 1 - CONFIDENCE, np.where(np.asarray(effects) > 0, FASTER, SLOWER), SAME)


def _mean(found: Differences, which: NDArray[np.int64]) -> dict[str, float]:
    mean, error, freedom, spread = found.mean(which)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error
    ratio, low, high = np.exp([mean, mean - half, mean + half])
    figures = {"ratio": ratio, "ratio_low": low, "ratio_high": high, "log_ratio": mean}
    figures |= {"error": error, "freedom": freedom, "spread": spread}
    figures["p"] = 2 * stats.t.sf(abs(mean) / error, freedom)
    return {name: float(value) for name, value in figures.items()}
