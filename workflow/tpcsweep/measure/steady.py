# SPDX-License-Identifier: Apache-2.0
"""When a cell's throughput is steady, what its mean is, and how sure that is.

Warm-up: MSER-5. Interval: non-overlapping batch means, the batch doubled until the batch means pass for independent;
correlation that this test misses widens it, and of the accepted batch and its doublings the widest interval counts.

Sources: references 1 to 7 of docs/measuring.md, with the coverage of such intervals on simulated series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MSER_BATCH = 5
_MSER_EXCLUDED = 5  # the last batches: so few values vary little by chance
_MSER_LEAST = 10  # batches; with fewer, no cut of the first half can be told from chance

_FEWEST_SAMPLES = 10
_MOST_BATCHES = 32  # Schmeiser: beyond some 30, more batches narrow the interval hardly, and bias it
_FEWEST_BATCHES = 8  # Fishman
_INDEPENDENCE_LEVEL = 0.2  # of the von Neumann test; a false alarm costs only degrees of freedom
_LARGEST_CORRELATION = 0.9  # allowed for; a few batch means tell no more than that it is large

# Looking again and again and stopping at the first narrow interval picks intervals that are narrow by luck.
_BATCHES_TO_STOP = 16
_NARROW_CHECKS_TO_STOP = 3


@dataclass(frozen=True)
class Steady:
    """What a series of throughput samples says once its warm-up is cut."""

    mean: float
    """In the unit of the samples, like the next two."""
    low: float
    """NaN where there are too few samples for an interval, like the next."""
    high: float
    warmup: float
    """Seconds."""
    warmup_samples: int
    batch: float
    """Seconds; zero without an interval, like the next."""
    batches: int
    steady: bool
    autocorrelated: bool

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in the unit of the samples; NaN without one."""
        return (self.high - self.low) / 2


def analyse(goodput: Sequence[float] | NDArray[np.float64], interval: float, confidence: float) -> Steady:
    """Cut the warm-up of a series and give the mean of the rest with its confidence interval.

    Not steady is a series whose best cut lies in its second half, or which is too short to tell (fewer than
    ten batches of five); its mean and interval are then those after the best cut in the first half.
    Takes time proportional to the number of samples.

    Args:
        goodput: rates in any unit, (samples,).
        interval: seconds between them.
        confidence: between 0 and 1.

    Raises:
        ValueError: for samples that are not finite.
    """
    samples = np.asarray(goodput, dtype=np.float64)
    if not np.isfinite(samples).all():
        raise ValueError(
            f"{np.count_nonzero(~np.isfinite(samples))} of {samples.size} samples are not finite"
        )
    if samples.size < _FEWEST_SAMPLES:
        mean = float(samples.mean()) if samples.size else math.nan
        return Steady(mean, math.nan, math.nan, 0.0, 0, 0.0, 0, steady=False, autocorrelated=False)
    cut, steady = _warmup(samples)
    kept = samples[cut:]
    size, autocorrelated = _batch_size(kept)
    half = max(_half_width(_batch_means(kept, each), confidence) for each in _doublings(size, kept.size))
    mean = float(kept.mean())
    return Steady(
        mean=mean,
        low=mean - half,
        high=mean + half,
        warmup=cut * interval,
        warmup_samples=cut,
        batch=size * interval,
        batches=kept.size // size,
        steady=steady,
        autocorrelated=autocorrelated,
    )


def narrow(steady: Steady, precision: float) -> bool:
    """Whether the mean is steady and its interval trusted and within ±`precision` (relative) of the mean.

    A series that is all zero never is: nothing has arrived yet, and a relative precision has no meaning.
    """
    return (
        steady.steady
        and not steady.autocorrelated
        and steady.mean > 0
        and steady.half_width <= precision * steady.mean  # False for NaN
    )


def enough(analyses: Sequence[Steady], precision: float) -> bool:
    """Whether a cell may stop: narrow with many batches, at each of the last three looks.

    Args:
        analyses: of the growing series, oldest first, one per look.
        precision: as of `narrow`.
    """
    last = analyses[-_NARROW_CHECKS_TO_STOP:]
    return len(last) == _NARROW_CHECKS_TO_STOP and all(
        narrow(each, precision) and each.batches >= _BATCHES_TO_STOP for each in last
    )


def _warmup(samples: NDArray[np.float64]) -> tuple[int, bool]:
    """Give the number of samples to cut, at most half of them, and whether the best cut is that one."""
    means = _batch_means(samples, _MSER_BATCH)
    count = means.size
    if count < _MSER_LEAST:
        return 0, False
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


def _batch_size(samples: NDArray[np.float64]) -> tuple[int, bool]:
    """Give the smallest batch whose means pass for independent, and whether none passed."""
    size = max(1, math.ceil(samples.size / _MOST_BATCHES))
    size = min(size, samples.size // _FEWEST_BATCHES) or 1
    sizes = _doublings(size, samples.size)
    independent = (each for each in sizes if not _dependent(_batch_means(samples, each)))
    chosen = next(independent, None)
    return chosen or sizes[-1], chosen is None


def _doublings(size: int, samples: int) -> list[int]:
    """Give `size` and its doublings that leave enough batches; `size` itself always."""
    sizes = [size]
    while samples // (2 * sizes[-1]) >= _FEWEST_BATCHES:
        sizes.append(2 * sizes[-1])
    return sizes


def _half_width(means: NDArray[np.float64], confidence: float) -> float:
    """Half the confidence interval of the mean of batch means, widened for the correlation of neighbours."""
    centred = means - means.mean()
    squares = float((centred**2).sum())
    if squares == 0:
        return 0.0
    correlation = float((centred[1:] * centred[:-1]).sum()) / squares
    correlation = min(max(correlation, 0.0), _LARGEST_CORRELATION)
    variance = squares / (means.size - 1) * (1 + correlation) / (1 - correlation)
    return float(special.stdtrit(means.size - 1, (1 + confidence) / 2)) * math.sqrt(variance / means.size)


def _dependent(means: NDArray[np.float64]) -> bool:
    """Whether von Neumann's ratio rejects independence against positive correlation (negative does no harm).

    1 - ratio/2 estimates the correlation of neighbours; for independent normal values it has mean 0 and
    variance (k-2)/(k²-1).
    """
    spread = float(((means - means.mean()) ** 2).sum())
    if spread <= (1e-12 * float(np.abs(means).max())) ** 2 * means.size:
        return False  # constant but for rounding
    correlation = 1 - float((np.diff(means) ** 2).sum()) / (2 * spread)
    count = means.size
    return bool(
        correlation > -special.ndtri(_INDEPENDENCE_LEVEL) * math.sqrt((count - 2) / (count * count - 1))
    )


def _batch_means(samples: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Means of consecutive groups of `size` samples; a remainder at the end belongs to no group."""
    count = samples.size // size
    return np.asarray(samples[: count * size].reshape(count, size).mean(axis=1))
