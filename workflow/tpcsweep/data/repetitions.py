# SPDX-License-Identifier: Apache-2.0
"""Settings of a sweep: the repetitions of each as one cell, with their mean throughput and its interval.

Page, figures and findings show these numbers. The repetitions with the best grade count: ones with a warning only if
a setting has none without, invalid ones only if it has no others.

The interval of a mean contains the scatter of repetitions. Few of them show little of it, so the scatter of all
settings, relative to their known noise, moderates that of each (`data.scatter`). The interval is at least as wide as
those of the repetitions require. Simulated intervals are spreads over parameters that repetitions share, so that the
mean has the means of their ends.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.common.quantiles import student_quantile
from tpcsweep.data.flags import FLAGS, GRADES, graded
from tpcsweep.data.labels import SIMULATED, STATUS, flag_masks, outside_sweep
from tpcsweep.data.scatter import RUN_TO_RUN, SHARED_FREEDOM, Spread, moderated
from tpcsweep.data.shared_rates import without_filled_pauses
from tpcsweep.data.tables import INTERVAL, observations
from tpcsweep.data.variables import LIMITS, SHARES
from tpcsweep.sweeps.sweep import REPETITION

_NEEDED = ("throughput", "error", "freedom")  # columns of `data.tables.observations`
Floats = NDArray[np.float64]


def settings_of(summary: xr.Dataset) -> xr.Dataset:
    """Return a dataset without the dimension `repetition`, whose cells are settings.

    Figures are means over the repetitions that count, whose number is the variable `counted`. The ends of the interval
    of `throughput` are those of its mean. The status is that of the most successful repetition. Flags are those of any
    repetition that counts, or of any if none counts; limits are the most frequent ones, without pauses that other
    streams fill (`data.shared_rates`).
    """
    counted = _first(summary, count_in_mean(summary))
    dims = summary["throughput"].dims
    figures = [name for name, each in summary.items() if each.dims == dims and each.dtype.kind == "f"]
    settings: dict[Hashable, NDArray[Any]] = {
        name: _mean(_first(summary, summary[name]), counted) for name in figures
    }
    status, flags, limit = (_first(summary, summary[name]) for name in ("status", "flags", "limit"))
    ranks = [STATUS.index(name) for name in ("not_measured", "failed", "ok")]
    settings["status"] = np.array(ranks)[np.argsort(ranks)[status].max(axis=0)]
    settings["counted"] = counted.sum(axis=0)
    settings["flags"] = np.bitwise_or.reduce(np.where(counted | ~counted.any(axis=0), flags, 0))
    shares = {name: settings[share] for name, share in SHARES.items() if share in settings}
    settings["limit"] = _most_frequent(limit, counted, shares)
    if "limit_second" in summary:
        # The limit of a repetition with another one than its setting is a second one of the setting.
        seconds = np.where(limit == settings["limit"], _first(summary, summary["limit_second"]), limit)
        settings["limit_second"] = _most_frequent(seconds, counted, shares)
    if summary.attrs.get("testbed_kind") != SIMULATED:
        settings |= _intervals(summary, counted, settings)
    first = summary["throughput"].isel({REPETITION: 0}, drop=True)
    variables = {
        name: (first.dims, values, summary[name].attrs if name in summary else {})
        for name, values in settings.items()
    }
    excluded = np.flatnonzero(_first(summary, outside_sweep(summary)).all(axis=0))
    attributes = summary.attrs | ({"excluded": excluded} if excluded.size else {})
    return without_filled_pauses(xr.Dataset(variables, first.coords, attributes))


def count_in_mean(summary: xr.Dataset) -> xr.DataArray:
    """Return which cells count in the mean of their setting: the successful ones with the best grade."""
    ok = ((summary["status"] == STATUS.index("ok")) & summary["throughput"].notnull()).values
    masks, grade = flag_masks(summary), np.zeros(ok.shape, int)
    for level, name in enumerate(GRADES[1:], 1):
        mask = sum(masks.get(flag, 0) for flag in graded(FLAGS, name))
        grade[(summary["flags"].values & mask) != 0] = level
    grade[~ok] = len(GRADES)
    best = grade.min(axis=summary["status"].get_axis_num(REPETITION), keepdims=True)
    return summary["status"].copy(data=ok & (grade == best))


def _first(summary: xr.Dataset, values: xr.DataArray) -> NDArray[Any]:
    """Return values of cells with repetitions as their first dimension."""
    return np.moveaxis(values.values, summary["throughput"].get_axis_num(REPETITION), 0)


def _mean(values: Floats, counted: NDArray[np.bool_]) -> Floats:
    known = counted & np.isfinite(values)
    number = known.sum(axis=0)
    return np.where(number > 0, np.where(known, values, 0.0).sum(axis=0) / np.maximum(number, 1), np.nan)


def _most_frequent(
    limits: NDArray[Any], cells: NDArray[np.bool_], shares: Mapping[str, Floats]
) -> NDArray[Any]:
    """Return the most frequent limit of each setting, in a tie that of the larger share of its time, or ""."""
    votes = np.stack([((limits == name) & cells).sum(axis=0) for name in LIMITS])
    times = np.stack([np.nan_to_num(shares.get(name, np.zeros(votes.shape[1:]))) for name in LIMITS])
    first = np.where(votes == votes.max(axis=0), times, -1.0).argmax(axis=0)
    return np.where(votes.any(axis=0), np.array([*LIMITS], object)[first], "")


def _intervals(
    summary: xr.Dataset, counted: NDArray[np.bool_], means: Mapping[Hashable, NDArray[Any]]
) -> dict[Hashable, Floats]:
    """Return the ends of the means' intervals, and their degrees of freedom; NaN if unknown."""
    rows = observations(summary)
    flat = {name: rows[name].to_numpy(float).reshape(summary["throughput"].shape) for name in _NEEDED}
    columns = {name: _first(summary, summary["throughput"].copy(data=each)) for name, each in flat.items()}
    rates, errors, freedoms = (np.where(counted, columns[name], np.nan) for name in _NEEDED)
    confidence = float(summary.attrs.get("measurement_confidence", CONFIDENCE))
    half, freedom, is_own = half_widths(rates, errors, freedoms, confidence)
    ends = dict(zip(INTERVAL, (means["throughput"] - half, means["throughput"] + half, freedom), strict=True))
    alone = (counted.sum(axis=0) == 1) & is_own  # such an interval need not have its mean in the middle
    return {name: np.where(alone, means.get(name, np.nan), end) for name, end in ends.items()}


def half_widths(
    rates: Floats, errors: Floats, freedom: Floats, confidence: float
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return half-widths of means, NaN if unknown, degrees of freedom, and where repetitions' intervals decide.

    Args:
        rates: Throughput, with a row for each repetition and a column for each setting; NaN where none counts.
        errors: Standard error of each, NaN if unknown.
        freedom: Degrees of freedom of each error.
        confidence: Confidence level.
    """
    number = np.maximum(np.isfinite(rates).sum(axis=0), 1)
    mean = np.nansum(rates, axis=0) / number
    scale = np.where(mean > 0, mean, np.nan)
    noise = np.where(np.isfinite(rates), (errors / scale) ** 2, 0.0)
    own = _mean_noise(noise, freedom, number)
    found = Spread(np.nansum((rates / scale - 1) ** 2, axis=0) / np.maximum(number - 1, 1), number - 1)
    scatter = _mean_scatter(found, noise.sum(axis=0) / number, number)
    tail = (1 - confidence) / 2
    half, of_scatter = (
        scale * _quantiles(tail, each.freedom) * np.sqrt(each.variance) for each in (own, scatter)
    )
    is_own = ~(of_scatter > np.nan_to_num(half))
    return np.fmax(half, of_scatter), np.where(is_own, own.freedom, scatter.freedom), is_own


def _mean_noise(noise: Floats, freedom: Floats, number: NDArray[np.int64]) -> Spread:
    """Return the variance of means that follows from the repetitions' intervals (Satterthwaite)."""
    sums = noise.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = sums**2 / np.nansum(noise**2 / freedom, axis=0)
    return Spread(sums / number**2, np.where(sums == 0, np.inf, joint))


def _mean_scatter(found: Spread, noise: Floats, number: NDArray[np.int64]) -> Spread:
    """Return the variance of means that follows from the scatter of repetitions; NaN without any.

    Without repetitions of its own a setting has the scatter that others show.
    """
    freedom = found.freedom.sum()
    if not freedom:
        return Spread(np.full(number.shape, np.nan), np.full(number.shape, np.nan))
    known = np.nan_to_num(noise) + RUN_TO_RUN**2
    pooled = Spread(np.nansum(found.freedom * found.variance / known) / freedom, freedom)
    default = Spread(1.0, SHARED_FREEDOM if np.isfinite(noise[number > 1]).any() else 0.0)
    factor = moderated(pooled, default)
    each = moderated(found, Spread(factor.variance * known, SHARED_FREEDOM))
    return Spread(each.variance / number, np.minimum(each.freedom, factor.freedom))


def _quantiles(tail: float, freedom: Floats) -> Floats:
    """Return Student's quantiles; degrees of freedom are rounded down to a tenth, so that few are computed."""
    tenths = np.floor(10 * np.minimum(freedom, 1e6)) / 10
    values, places = np.unique(tenths, return_inverse=True)
    return np.array([student_quantile(tail, value) for value in values])[places].reshape(np.shape(freedom))
