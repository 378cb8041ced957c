# SPDX-License-Identifier: Apache-2.0
"""Mean throughput of a cell after its warm-up, with confidence interval and diagnostics.

Batch means (Schmeiser 1982; Law, *Simulation Modeling and Analysis*) with Skart's correction for correlated batches
(Tafazzoli, Wilson, Lada, Steiger 2011), and the test of Mann and Kendall for a trend. docs/measuring.md has references
and coverage, docs/decisions/intervals.md the methods that were rejected.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

_LEAST_WARMUP = 2.0  # s: servers fill their buffers, simultaneous streams spread out
_MOST_WARMUP = 0.25  # of the cell, so that short cells keep data

# more than 30 have no advantage (Schmeiser), and fewer are longer: a cell has few correlation times
_BATCHES = 8
_LARGEST_CORRELATION = 0.9  # of neighbouring batches; eight batches cannot determine more
_TREND_LEVEL = 0.05

_SHORTEST = 10.0  # s: below this, and below this many correlation times, intervals miss the truth too often
_FEWEST_TIMES = 15


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
    steady: bool  # whether the time after the warm-up has no trend, and bytes still arrive
    too_short: bool  # whether the interval contains the truth less often than its confidence

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in the unit of the samples; NaN without one."""
        return (self.high - self.low) / 2


def analyse(
    goodput: Sequence[float] | NDArray[np.float64],
    interval: float,
    confidence: float,
    rtt: float = 0.0,
    settled: float = 0.0,
) -> Steady:
    """Cut the warm-up of a series and return the mean of the rest with its confidence interval.

    `goodput` are finite rates in any unit, (samples,), each of an `interval` in s. The `rtt` in s is the shortest
    possible correlation time, because senders learn nothing sooner. The warm-up lasts until slow start is over and the
    first file of each stream has ended, `settled` seconds, but at least 2 s, and at most a quarter of the series.
    """
    samples = np.asarray(goodput, dtype=np.float64)
    cut = int(min(max(_LEAST_WARMUP, settled) / interval + 1e-6, _MOST_WARMUP * samples.size))
    # If all bytes arrived in the warm-up, they count: such a cell is very slow, but not empty.
    ceased = bool(samples.any() and not samples[cut:].any())
    cut = 0 if ceased else cut
    kept = samples[cut:]
    mean = float(kept.mean()) if kept.size else math.nan
    low = high = freedom = length = math.nan
    trend, too_short = False, True
    if kept.size >= _BATCHES:
        batches = np.array([batch.mean() for batch in np.array_split(kept, _BATCHES)])
        if np.ptp(batches) <= 1e-12 * np.abs(samples).max():
            batches[:] = mean  # rounding errors are no trend
        error, freedom = _standard_error(batches), _BATCHES - 1.0
        half = error * float(special.stdtrit(freedom, (1 + confidence) / 2))
        low, high = mean - half, mean + half
        independent = kept.var() / error**2 if error else math.inf
        length = min(2.0 * kept.size, 2 * independent, kept.size * interval / (rtt or interval / 2))
        trend = error > 0 and bool(stats.kendalltau(range(_BATCHES), batches).pvalue <= _TREND_LEVEL)
        too_short = length < _FEWEST_TIMES or (samples.size + 0.5) * interval < _SHORTEST
    steady = not (trend or ceased)
    return Steady(mean, low, high, freedom, cut * interval, cut, float(length), steady, bool(too_short))


def narrow(cell: Steady, precision: float) -> bool:
    """Return whether there is no trend and the interval is within ±`precision` (relative) of the mean."""
    return cell.steady and cell.mean > 0 and cell.half_width <= precision * cell.mean  # False for NaN


def _standard_error(batches: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of batches, corrected for the correlation r of neighbours.

    The correction is √((1 + r) / (1 − r)). Few batches underestimate r, so Kendall's bias, (1 + 3 r) / batches, is
    removed.
    """
    centred = batches - batches.mean()
    if not (squares := float(centred @ centred)):
        return 0.0
    correlation = float(centred[1:] @ centred[:-1]) / squares
    correlation = min(max(0.0, correlation + (1 + 3 * correlation) / batches.size), _LARGEST_CORRELATION)
    variance = squares / (batches.size - 1) * (1 + correlation) / (1 - correlation)
    return math.sqrt(variance / batches.size)
