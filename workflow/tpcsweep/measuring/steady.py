# SPDX-License-Identifier: Apache-2.0
"""Mean throughput of a cell after its warm-up, with confidence interval and diagnostics.

Batch means (Schmeiser 1982; Law, *Simulation Modeling and Analysis*) with Skart's correction for correlated batches
(Tafazzoli, Wilson, Lada, Steiger 2011), and the test of Mann and Kendall for a trend. docs/measuring.md has references
and coverage, docs/decisions/intervals.md the methods that were rejected.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.common.quantiles import student_quantile
from tpcsweep.data.flags import SHORTEST
from tpcsweep.data.similar_cells import FEWEST_CYCLES, FEWEST_TIMES

_LEAST_WARMUP = 2.0  # s: servers fill their buffers, simultaneous streams spread out
_MOST_WARMUP = 0.25  # of the cell, so that short cells keep data
_GROWN = 0.95  # of its later median: a congestion window that reached this has grown
_GROWTH_BIAS = 0.005  # of the mean: more missing throughput of windows that still grow raises a flag

# more than 30 have no advantage (Schmeiser), and fewer are longer: a cell has few correlation times
_BATCHES = 8
_LARGEST_CORRELATION = 0.9  # of neighbouring batches; eight batches cannot determine more
_TREND_LEVEL = 0.05
_CERTAIN = 4.0  # variance of a mean over that of independent samples up to which no slow noise shows


class Course(NamedTuple):
    """Course of a cell by time stamps and congestion windows, which decide on the warm-up instead of throughput."""

    ramp: float = 0.0
    """Seconds of the cell until every stream's slow start is over: its first byte, and the rounds of growth."""
    cycle: float = math.nan  # mean seconds between the ends of successive files of a stream; NaN if unknown
    windows: Sequence[float] | NDArray[np.float64] = ()
    """Mean congestion window of the connections in each sample, in any unit; empty if unknown."""


@dataclass(frozen=True)
class Steady:
    """Mean of a series of throughput samples after its warm-up, in their unit, with its uncertainty."""

    mean: float
    low: float  # lower end of the confidence interval; like the next two NaN with fewer than eight samples
    high: float
    freedom: float  # degrees of freedom of Student's t behind the interval
    warmup: float  # seconds
    warmup_samples: int
    length: float
    """Time after the warm-up over the larger of correlation time and RTT; NaN without an interval."""
    correlation: float
    """Correlation of neighbouring batches by slow noise; NaN without an interval, of equal batches, or by few files."""
    steady: bool  # whether windows have grown in the warm-up, and bytes arrive after it, without a trend
    too_short: bool  # whether the interval may be too narrow, by this cell alone
    weights: NDArray[np.float64]  # of the samples in the mean, (samples,); their sum is 1
    cycles: (
        float  # of a file in three quarters of the cell; with less than one its phase counts; NaN if unknown
    )

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in the unit of the samples; NaN without one."""
        return (self.high - self.low) / 2


def analyse(
    goodput: Sequence[float] | NDArray[np.float64],
    interval: float,
    confidence: float,
    rtt: float = 0.0,
    course: Course = Course(),  # noqa: B008 - immutable
) -> Steady:
    """Cut the warm-up of a series and return the mean of the rest with its confidence interval.

    `goodput` are finite rates in any unit, (samples,), each of an `interval` in s. The `rtt` in s is the shortest
    possible correlation time, because senders learn nothing sooner. The warm-up lasts until slow start is over by the
    `course`, but at least 2 s, and at most a quarter of the series. The weights of the first and of the last cycle of
    files rise and fall, so that any phase of a cycle counts equally, its pause included. Where three cycles fit, the
    interval is that of batches of the means over whole cycles, which do not differ by where a batch cuts a cycle.
    """
    samples = np.asarray(goodput, dtype=np.float64)
    most = int(_MOST_WARMUP * samples.size)
    cycle = _cycle_samples(course.cycle / interval, samples.size - most)
    # Each cycle begins with the same pause and growth as the first.
    grown = 0 if cycle else _grown(course.windows, max(1, round(1 / interval)))
    ramp = int(course.ramp / interval + 1e-6) if course.ramp > 0 else 0
    settled = max(int(_LEAST_WARMUP / interval + 1e-6), ramp, grown)
    cut = min(settled, most)
    growing = ramp > max(most, cycle) or _grows(samples, np.asarray(course.windows), cut, grown)
    # If all bytes arrived in the warm-up, they count: such a cell is very slow, but not empty.
    ceased = bool(samples.any() and not samples[cut:].any())
    cut = 0 if ceased else cut
    kept = samples[cut:]
    weights = np.concatenate([np.zeros(cut), _weights(kept.size, cycle)])
    mean = float(np.average(samples, weights=weights)) if kept.size else math.nan
    low = high = freedom = length = correlation = math.nan
    trend, too_short = False, True
    if kept.size >= _BATCHES:
        batches = _batch_means(kept, samples)
        error, freedom = standard_error(batches), _BATCHES - 1.0
        independent = kept.var() / error**2 if error else math.inf
        correlation = _neighbours(batches)
        if independent > kept.size / _CERTAIN:  # batches that cut periods look correlated by chance
            correlation = min(correlation, 0.0)
        if samples.size - most >= FEWEST_CYCLES * cycle > 0 and kept.size - cycle >= _BATCHES:
            whole = np.convolve(kept, np.full(cycle, 1 / cycle), "valid")
            error = standard_error(_batch_means(whole, samples))
        half = error * student_quantile((1 - confidence) / 2, freedom)
        low, high = mean - half, mean + half
        length = min(2.0 * kept.size, 2 * independent, kept.size * interval / (rtt or interval / 2))
        trend = error > 0 and bool(stats.kendalltau(range(_BATCHES), batches).pvalue <= _TREND_LEVEL)
        too_short = length < FEWEST_TIMES or (samples.size + 0.5) * interval < SHORTEST
    return Steady(
        mean=mean,
        low=low,
        high=high,
        freedom=freedom,
        warmup=cut * interval,
        warmup_samples=cut,
        length=float(length),
        correlation=correlation,
        steady=not (trend or ceased or growing),
        too_short=bool(too_short),
        weights=weights,
        cycles=(samples.size - most) * interval / (course.cycle or math.nan),
    )


def bounded(cell: Steady, wire: float) -> Steady:
    """Return a cell whose mean and interval are at most as many bytes as its path carried, by the same weights.

    Buffers that filled during the warm-up empty later. The rate `wire` has the unit of the mean, NaN if unknown.
    """
    if not 0 < wire < cell.mean:
        return cell
    share = wire / cell.mean
    return replace(cell, mean=wire, low=share * cell.low, high=share * cell.high)


def narrow(cell: Steady, precision: float) -> bool:
    """Return whether there is no trend and the interval is within ±`precision` (relative) of the mean."""
    return cell.steady and cell.mean > 0 and cell.half_width <= precision * cell.mean  # False for NaN


def _cycle_samples(cycle: float, kept: int) -> int:
    """Return a cycle as a number of samples; 0 if it is unknown, or more than the kept ones."""
    return max(1, round(cycle)) if cycle <= kept else 0  # False for NaN


def _batch_means(series: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of batches of a series; equal ones if they differ by rounding errors of the samples."""
    batches = np.array([batch.mean() for batch in np.array_split(series, _BATCHES)])
    return np.full(_BATCHES, batches.mean()) if np.ptp(batches) <= 1e-12 * np.abs(samples).max() else batches


def _weights(count: int, cycle: int) -> NDArray[np.float64]:
    """Return weights that sum to 1: equal ones, smoothed over a cycle if there is one.

    The mean over a whole cycle is free of its phase, and this is the mean of all of those. Source: A. V. Oppenheim,
    R. W. Schafer, Discrete-Time Signal Processing: a moving average has zeros at all multiples of its frequency.
    """
    cycle = min(max(cycle, 1), count)
    if not cycle:
        return np.zeros(0)
    return np.convolve(np.full(count - cycle + 1, 1 / (count - cycle + 1)), np.full(cycle, 1 / cycle))


def _grown(windows: Sequence[float] | NDArray[np.float64], second: int) -> int:
    """Return the end of the first second in which windows are as large as in the second half; 0 if unknown.

    Both are the number of a sample.
    """
    seen = np.asarray(windows, dtype=np.float64)
    if seen.size < second or np.isnan(seen[seen.size // 2 :]).all():
        return 0
    means = np.convolve(np.nan_to_num(seen), np.full(second, 1 / second), "valid")
    return int(np.argmax(means >= _GROWN * np.nanmedian(seen[seen.size // 2 :]))) + second


def _grows(goodput: NDArray[np.float64], windows: NDArray[np.float64], cut: int, grown: int) -> bool:
    """Return whether windows that still grew after the cut lower the mean.

    The windows of a stream that something else limits grow without any effect. Therefore goodput must miss at least
    half as much as the windows do.
    """
    if grown <= cut:
        return False
    missing = [
        float(np.nansum(1 - values[cut:grown] / (np.nanmedian(values[values.size // 2 :]) or math.nan)))
        for values in (windows, goodput)
    ]
    return missing[0] > _GROWTH_BIAS * (goodput.size - cut) and missing[1] > missing[0] / 2


def standard_error(batches: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of batches, corrected for the correlation r of neighbours.

    The correction is √((1 + r) / (1 − r)). Few batches underestimate r, so Kendall's bias, (1 + 3 r) / batches, is
    removed.
    """
    if not (variance := float(batches.var(ddof=1))):
        return 0.0
    correlation = _neighbours(batches)
    correlation = min(max(0.0, correlation + (1 + 3 * correlation) / batches.size), _LARGEST_CORRELATION)
    return math.sqrt(variance * (1 + correlation) / (1 - correlation) / batches.size)


def _neighbours(batches: NDArray[np.float64]) -> float:
    """Return the correlation of neighbouring batches; NaN if all are equal."""
    centred = batches - batches.mean()
    return float(centred[1:] @ centred[:-1]) / (float(centred @ centred) or math.nan)
