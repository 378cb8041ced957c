# SPDX-License-Identifier: Apache-2.0
"""Census of crashes and failures: server deaths and server hours for each value of an axis (docs/releases.md)."""

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy import stats

from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.flags import BROKEN
from tpcsweep.data.tables import NOT_MEASURED, observations
from tpcsweep.data.variables import TABLES

TABLE: Mapping[str, str] = TABLES["census"]  # columns of a census after the axis, with their meanings

_DEATH = re.compile(
    r"\b(?:xrootd|cmsd) (?:was killed by (?P<signal>SIG\w+)|ended with (?P<code>exit code \d+))"
)
"""Cause of death in a cell's message: a signal on netns, an exit code on Kubernetes (139: SIGSEGV)."""


def census(summary: xr.Dataset, axis: str) -> pd.DataFrame:
    """Return one row with the columns of `TABLE` for each value of an axis or fixed parameter, over measured cells."""
    # Without this the flag transfers_failed, a column of observations, would replace the count.
    counted = summary.rename(transfers_failed="failures")
    cells = observations(counted, also=("message", "duration", "transfers", "failures"))
    cells = cells[cells["reason"] != NOT_MEASURED]
    died = cells["message"].astype(str).str.extract(_DEATH)
    cells = cells.assign(
        death=died["signal"].fillna(died["code"]).where(cells[BROKEN]).fillna(""),
        server_hours=2 * cells["origins"] * cells["duration"].fillna(0) / 3600,
    )
    rows = [{axis: value, **_counted(part)} for value, part in cells.groupby(axis, sort=False)]
    return pd.DataFrame(rows, columns=[axis, *TABLE])


def rate_interval(events: int, exposure: float) -> tuple[float, float]:
    """Return the exact interval of a Poisson rate (F. Garwood, Biometrika 28, 1936); infinite without exposure."""
    if not exposure > 0:
        return 0.0, np.inf
    tail = (1 - CONFIDENCE) / 2
    low = stats.chi2.ppf(tail, 2 * events) / 2 if events else 0.0
    return float(low / exposure), float(stats.chi2.isf(tail, 2 * events + 2) / 2 / exposure)


def share_interval(part: int, whole: int) -> tuple[float, float]:
    """Return the interval of a share by E. B. Wilson, Journal of the American Statistical Association 22, 1927."""
    interval = stats.binomtest(part, whole).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def half_width(values: xr.DataArray, dimension: str) -> xr.DataArray:
    """Return half the width of the interval of a mean along a dimension (Student's t); NaN for one value."""
    freedom = values.count(dimension) - 1
    error = values.std(dimension, ddof=1) / np.sqrt(freedom + 1)
    return error * stats.t.ppf((1 + CONFIDENCE) / 2, freedom)


def _counted(cells: pd.DataFrame) -> dict[str, object]:
    deaths = Counter(death for death in cells["death"] if death)
    crashes, hours = deaths.total(), float(cells["server_hours"].sum())
    low, high = rate_interval(crashes, hours)
    failures = cells["failures"].fillna(0)
    whole = ~cells[BROKEN] & (failures == 0) & (cells["reason"] == "")
    throughput = cells.loc[whole, "throughput"]
    return {
        "cells": len(cells),
        "server_hours": hours,
        "crashes": crashes,
        "died_of": ", ".join(f"{death} {count}" for death, count in deaths.most_common()),
        "crashes_per_hour": crashes / hours if hours else np.nan,
        "crashes_per_hour_low": low,
        "crashes_per_hour_high": high,
        "otherwise_broken": int(cells[BROKEN].sum()) - crashes,
        "cells_with_failures": int((~cells[BROKEN] & ~whole).sum()),
        "transfers": int(cells["transfers"].fillna(0).sum() + failures.sum()),
        "transfers_failed": int(failures.sum()),
        "whole_cells": int(whole.sum()),
        "throughput": throughput.mean(),
        "throughput_least": throughput.min(),
        "throughput_most": throughput.max(),
    }
