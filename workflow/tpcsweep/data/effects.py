# SPDX-License-Identifier: Apache-2.0
"""Effects with intervals, regions of claims, and decisions by pure functions.

A decision has three values: a claim is supported if the whole interval lies inside its region, contradicted if it lies
outside, and otherwise undecided (three-way decision of J. L. Rogers, K. I. Howard, J. T. Vessey, "Using significance
tests to evaluate equivalence between two experimental groups", Psychological Bulletin 113, 1993). Ratios of throughputs
are averaged as logarithms.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tpcsweep.common.numbers import CONFIDENCE, between, short
from tpcsweep.common.quantiles import normal_quantile, student_quantile
from tpcsweep.data.scatter import SHARED_FREEDOM, Spread, moderated

MARGIN = 0.05  # smallest effect that counts, 5 %; less is "nothing noticeable", "flat", "no help"
ABOUT = 1.5  # factor within which an effect is "about" the published one
FEWEST_PAIRS = 3  # fewest pairs for an average effect; fewer do not show the difference between runs
Decision = bool | None  # supported, contradicted, or None if the data do not decide


@dataclass(frozen=True)
class Interval:
    """Estimate with the ends of its confidence interval."""

    value: float
    low: float
    high: float

    def map(self, function: Callable[[float], float]) -> "Interval":
        """Return the interval of an increasing function of the estimate."""
        return Interval(*map(function, (self.value, self.low, self.high)))


@dataclass(frozen=True)
class Region:
    """Effects for which a claim is true: from `low` to `high`."""

    low: float = -math.inf
    high: float = math.inf

    def decide(self, interval: Interval | None) -> Decision:
        """Return True for an interval inside, False outside, or None if it crosses an end or is missing."""
        if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
            return None
        if self.low <= interval.low and interval.high <= self.high:
            return True
        if interval.high < self.low or interval.low > self.high:
            return False
        return None

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"at most {short(self.high)}"
        return f"at least {short(self.low)}" if math.isinf(self.high) else between(self.low, self.high)


REGIONS = {
    "more": Region(low=1 + MARGIN),
    "less": Region(high=1 - MARGIN),
    "no_loss": Region(low=1 - MARGIN),
    "no_gain": Region(high=1 + MARGIN),
    "no_change": Region(1 - MARGIN, 1 + MARGIN),
}
"""Ratios that count as a change, or as no change."""


def about_region(value: float) -> Region:
    """Return the region that counts as about a published figure."""
    return Region(value / ABOUT, value * ABOUT)


def all_true(decisions: Iterable[Decision]) -> Decision:
    """Return whether all are true; a single False decides (Kleene's logic)."""
    votes = list(decisions)
    if False in votes:
        return False
    return None if None in votes or not votes else True


def majority(decisions: Iterable[Decision]) -> Decision:
    """Return the majority of the decided votes, or None in a tie or if fewer than half are decided."""
    everyone = list(decisions)
    votes = [decision for decision in everyone if decision is not None]
    yes = sum(votes)
    return None if 2 * len(votes) < len(everyone) or 2 * yes == len(votes) else 2 * yes > len(votes)


def mean_ratio(
    ratios: ArrayLike,
    errors: ArrayLike,
    comparisons: int = 1,
    deployments: ArrayLike | None = None,
    luck: ArrayLike = 0.0,
) -> Interval | None:
    """Return the geometric mean of ratios with its interval, or None for fewer than `FEWEST_PAIRS`.

    The interval is Student's over the pairs, because runs differ by more than each interval says, and at least as wide
    as the errors require. Pairs have equal weights: a cell that is low by chance has a wide relative interval, so
    weights would favour the others. Pairs with `deployments` in common count as one, their mean, because they share the
    `luck` of these; the variance of several such means is moderated by the known one (`data.scatter`).

    Args:
        ratios: Ratios of pairs.
        errors: Standard errors of the ratios' logarithms, NaN if unknown.
        comparisons: Number of intervals that share the confidence (Bonferroni).
        deployments: Number of the deployments of each pair; all differ by default.
        luck: Part of the errors that pairs with their deployments in common share.
    """
    logs = np.log(np.asarray(ratios, float))
    if logs.size < FEWEST_PAIRS:
        return None
    lucks = np.broadcast_to(np.asarray(luck, float), logs.shape)
    if deployments is None or not lucks.any():
        deployments = np.arange(logs.size)
    groups = np.unique(np.asarray(deployments), return_inverse=True)[1]
    sizes = np.bincount(groups)
    means, count = np.bincount(groups, logs) / sizes, len(sizes)
    noise = np.nan_to_num(np.asarray(errors, float)) ** 2
    common = np.minimum(lucks**2, noise)
    known = np.bincount(groups, noise - common) / sizes**2 + np.bincount(groups, common) / sizes
    among = Spread(float(np.var(means, ddof=1)) if count > 1 else 0.0, count - 1)
    if count < logs.size:
        among = moderated(among, Spread(float(known.mean()), SHARED_FREEDOM))
    tail = (1 - CONFIDENCE) / (2 * comparisons)
    half = student_quantile(tail, among.freedom) * math.sqrt(among.variance / count)
    half = max(half, normal_quantile(tail) * math.sqrt(float(known.sum())) / count)
    middle = float(means.mean())
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def largest_level(levels: ArrayLike, errors: ArrayLike, comparisons: int = 1) -> Interval | None:
    """Return the largest of some true levels with a simultaneous interval (Bonferroni), or None if empty.

    A level whose standard error is NaN can have any value. `comparisons` intervals share the confidence.
    """
    level, error = np.asarray(levels, float), np.asarray(errors, float)
    if not level.size:
        return None
    half = normal_quantile((1 - CONFIDENCE) / (2 * comparisons * level.size)) * error
    half = np.where(np.isnan(half), np.inf, half)
    return Interval(float(level.max()), float((level - half).max()), float((level + half).max()))


@dataclass(frozen=True)
class Peak:
    """Rise and fall of a curve, as indices, and whether they exceed the noise."""

    decision: Decision
    fall: tuple[int, int]  # indices of the start and end of the clearest fall
    ratio: Interval  # throughput before the fall over that after it


def peak(levels: ArrayLike, errors: ArrayLike, comparisons: int = 1) -> Peak:
    """Return whether a curve of three points or more first rises and then falls.

    A rise or fall is a difference between any two points. Each is tested against the number of differences in all
    curves (Bonferroni), so that the largest noise is no peak. A curve without any fall or without any rise of `MARGIN`
    or more contradicts. Errors are the standard errors of the levels' logarithms; `comparisons` is the number of
    curves.
    """
    logs, error = np.log(np.asarray(levels, float)), np.asarray(errors, float)
    first, second = np.triu_indices(logs.size, 1)
    drop, noise = logs[first] - logs[second], np.hypot(error[first], error[second])
    tail = (1 - CONFIDENCE) / (len(drop) * comparisons)
    strict, once = normal_quantile(tail), normal_quantile((1 - CONFIDENCE) / comparisons)

    margin = math.log(1 + MARGIN)
    # Without noise, as in a simulation, any difference would count.
    bar = np.where(noise == 0, margin, strict * noise)
    falls = drop > bar
    after_rise = falls & np.isin(first, second[-drop > bar])
    never_falls, never_rises = (np.all(way * drop + once * noise < margin) for way in (1, -1))
    decision = True if after_rise.any() else False if never_falls or never_rises else None

    clearness = np.divide(drop, noise, out=np.copysign(np.inf, drop), where=noise > 0)
    shown = next((steps for steps in (after_rise, falls) if steps.any()), np.full(len(drop), True))
    step = max(np.flatnonzero(shown), key=lambda step: (clearness[step], drop[step]))
    half = strict * noise[step]
    ends = (math.exp(drop[step] + sign * half) for sign in (0, -1, 1))
    return Peak(decision, (int(first[step]), int(second[step])), Interval(*ends))


def exponents(ratios: ArrayLike, errors: ArrayLike, changes: ArrayLike) -> list[Interval]:
    """Return each pair's exponent e of throughput ~ axis^e, with joint intervals (Bonferroni).

    `ratios` and `errors` are as in `mean_ratio`; `changes` are the factors (not 1) by which the axis changes.
    """
    steps = np.log(np.asarray(changes, float))
    middle = np.log(np.asarray(ratios, float)) / steps
    tail = (1 - CONFIDENCE) / (2 * max(1, middle.size))
    half = normal_quantile(tail) * np.asarray(errors, float) / np.abs(steps)
    return [Interval(*ends) for ends in zip(middle, middle - half, middle + half, strict=True)]


def mean_exponent(
    ratios: ArrayLike, errors: ArrayLike, changes: ArrayLike, deployments: ArrayLike, luck: ArrayLike
) -> Interval | None:
    """Return the mean exponent e of throughput ~ axis^e over pairs, with arguments of `exponents` and `mean_ratio`."""
    steps = np.log(np.asarray(changes, float))
    errors, luck = (np.asarray(each, float) / np.abs(steps) for each in (errors, luck))
    base = mean_ratio(np.asarray(ratios, float) ** (1 / steps), errors, 1, deployments, luck)
    return base and base.map(math.log)
