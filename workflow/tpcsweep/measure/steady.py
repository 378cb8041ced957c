# SPDX-License-Identifier: Apache-2.0
"""When a cell's throughput is steady, what its mean is, and how sure that is.

Warm-up: MSER-5. Of what is left, the cosine transform tells the rest: how it varies at frequencies of a few periods in
the cell is what the interval of its mean is made of; a slowest part that stands out is a trend, and a slow half that
stands out is correlation that is as long as the cell. Who is not steady or too short to tell has no interval.

Sources: references 1 to 7 of docs/measuring.md, with the coverage of such intervals on simulated series.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.fft import dct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MSER_BATCH = 5
_MSER_EXCLUDED = 5  # the last batches: so few values vary little by chance
_MSER_LEAST = 10  # batches; with fewer, no cut of the first half can be told from chance

_FEWEST = 4  # frequencies of an interval: fewer make it wide, and more want cells that are longer
_MOST = 16  # Student's t of more degrees of freedom hardly differs from the normal distribution
_MORE_LEVEL = 0.2  # of the test that keeps higher frequencies out; a false alarm costs degrees of freedom
_TREND_LEVEL = 0.05
_SLOW_LEVEL = 0.05

_SHORTEST = 15  # correlation times: below, intervals hold the truth less often than they say
_LARGEST_CORRELATION = 0.99  # of neighbouring samples; no cell tells more

# Looking again and again and stopping at the first narrow interval picks intervals that are narrow by luck.
_LENGTH_TO_STOP = 60  # correlation times
_NARROW_CHECKS_TO_STOP = 3


@dataclass(frozen=True)
class Steady:
    """What a series of throughput samples says once its warm-up is cut."""

    mean: float
    """In the unit of the samples, like the next two."""
    low: float
    """NaN where the series is not steady or too short, as for the next two."""
    high: float
    freedom: float
    """Degrees of freedom of Student's t behind the interval."""
    warmup: float
    """Seconds."""
    warmup_samples: int
    length: float
    """Of what is left, in correlation times; NaN where the cut does not lie in the first half."""
    steady: bool
    too_short: bool

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in the unit of the samples; NaN without one."""
        return (self.high - self.low) / 2


def analyse(
    goodput: Sequence[float] | NDArray[np.float64], interval: float, confidence: float, rtt: float = 0.0
) -> Steady:
    """Cut the warm-up of a series and give the mean of the rest with its confidence interval.

    Not steady is a series whose best cut lies in its second half (its mean is then that after the best cut in the
    first half), one with a trend after the cut, and one that is too short to tell (fewer than ten batches of five).
    Too short is one of fewer than 15 correlation times, or whose correlation is as long as itself. Neither has an
    interval. Takes time in proportion to the number of samples, but for a logarithm.

    Args:
        goodput: rates in any unit, (samples,).
        interval: seconds between them.
        confidence: between 0 and 1.
        rtt: round-trip time in seconds: senders hear of nothing earlier, so that no correlation time is shorter.

    Raises:
        ValueError: for samples that are not finite.
    """
    samples = np.asarray(goodput, dtype=np.float64)
    if unknown := np.count_nonzero(~np.isfinite(samples)):
        raise ValueError(f"{unknown} of {samples.size} samples are not finite")
    cut, settled = _warmup(samples)
    kept = samples[cut:]
    mean = float(kept.mean()) if kept.size else math.nan
    low = high = freedom = length = math.nan
    steady = too_short = False
    if settled:
        centred = _centred(kept)
        power = _power(centred)
        half, count = _half_width(power, kept.size, confidence)
        time = max(_correlation_time(centred, float(power[:count].mean())), rtt / interval)
        length = kept.size / time
        steady = not _exceeds(power[:1], power[1 : 2 * _FEWEST], _TREND_LEVEL)
        slow = _exceeds(power[:_FEWEST], power[_FEWEST : 4 * _FEWEST], _SLOW_LEVEL)
        too_short = slow or length < _SHORTEST
        if steady and not too_short:
            # What is left of a warm-up is in the first half, and takes the mean away from that of the last.
            last = float(kept[kept.size // 2 :].mean())
            low, high, freedom = min(mean, last) - half, max(mean, last) + half, float(count)
    return Steady(mean, low, high, freedom, cut * interval, cut, length, steady, too_short)


def narrow(steady: Steady, precision: float) -> bool:
    """Whether there is an interval, within ±`precision` (relative) of the mean; never for a series that is all zero."""
    return steady.mean > 0 and steady.half_width <= precision * steady.mean  # False for NaN


def enough(analyses: Sequence[Steady], precision: float) -> bool:
    """Whether a cell may stop, by all its looks in order: `narrow` and 60 correlation times long at the last three."""
    last = analyses[-_NARROW_CHECKS_TO_STOP:]
    narrowed = [narrow(each, precision) and each.length >= _LENGTH_TO_STOP for each in last]
    return len(last) == _NARROW_CHECKS_TO_STOP and all(narrowed)


def _warmup(samples: NDArray[np.float64]) -> tuple[int, bool]:
    """Give the number of samples to cut, at most half of them, and whether the best cut is that one."""
    count = samples.size // _MSER_BATCH
    if count < _MSER_LEAST:
        return 0, False
    means = samples[: count * _MSER_BATCH].reshape(count, _MSER_BATCH).mean(axis=1)
    # Sums of the tail from every cut on. Taken from the median, so that constant series give exact zeros and
    # large offsets do not cancel.
    centred = means - np.median(means)
    left = np.arange(count, 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    error = np.maximum(squares - total**2 / left, 0.0) / left**2.0
    candidates = error[: count - _MSER_EXCLUDED + 1]
    best = int(np.argmin(candidates))
    half = count // 2
    if best < half:
        return best * _MSER_BATCH, True
    return int(np.argmin(error[:half])) * _MSER_BATCH, False


def _centred(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = samples - samples.mean()
    constant = np.abs(centred).max() <= 1e-12 * np.abs(samples).max()
    return np.zeros_like(centred) if constant else centred


def _power(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squares of the lowest coefficients of the cosine transform: half a period in the series, one, one and a half …

    Each has the spectral density as its mean, if that is flat so far down; n times the variance of the mean is the
    density at zero. Normal samples make them independent of each other and of the mean, whatever their correlation,
    in long series; a trend is nearly all in the first.
    """
    coefficients = dct(centred, type=2)[1 : 2 * _MOST + 1] / 2
    return np.asarray(2 / centred.size * coefficients**2)


def _half_width(power: NDArray[np.float64], size: int, confidence: float) -> tuple[float, int]:
    """Half the confidence interval of a mean, and the number of frequencies that it comes of.

    As many as may have the density of zero: four, and twice as many while the further ones have no less. The widest
    interval of these counts.
    """
    counts = [_FEWEST]
    while (more := 2 * counts[-1]) <= _MOST and not _exceeds(
        power[: counts[-1]], power[counts[-1] : more], _MORE_LEVEL
    ):
        counts.append(more)
    quantiles = {count: float(special.stdtrit(count, (1 + confidence) / 2)) for count in counts}
    return max((quantiles[count] * math.sqrt(power[:count].mean() / size), count) for count in counts)


def _correlation_time(centred: NDArray[np.float64], density: float) -> float:
    """The integrated correlation time in samples: half of what n is divided by to count independent samples.

    The longer of two: that of AR(1) by the correlation of neighbouring samples, and that by the spectral density at
    zero. A short series shows its correlation too small: it is taken without Kendall's bias, and larger by one
    standard error.
    """
    squares = float(centred @ centred)
    if squares == 0:
        return 0.5
    correlation = float(centred[1:] @ centred[:-1]) / squares
    correlation += (1 + 3 * correlation) / centred.size
    correlation += math.sqrt(max(0.0, 1 - correlation**2) / centred.size)
    correlation = min(correlation, _LARGEST_CORRELATION)
    neighbours = (1 + correlation) / (1 - correlation) / 2
    return max(0.5, neighbours, density * centred.size / squares / 2)


def _exceeds(some: NDArray[np.float64], others: NDArray[np.float64], level: float) -> bool:
    """Whether the mean power of some frequencies is above that of others by more than chance, by an F test."""
    return bool(some.mean() > _f_quantile(some.size, others.size, level) * others.mean())


@functools.cache
def _f_quantile(some: int, others: int, level: float) -> float:
    return float(special.fdtri(some, others, 1 - level))
