# SPDX-License-Identifier: Apache-2.0
"""Changes of one axis at every setting of a grid, and the effects of several such changes; pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import CONFIDENCE, between, counted, short
from tpcsweep.common.quantiles import normal_quantile
from tpcsweep.data.effects import mean_ratio
from tpcsweep.data.scatter import RUN_TO_RUN
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.sweeps.parameters import CELL

MOST_RTTS = 4
"""RTTs with an effect each in a sentence."""
SCATTER_OF_PAIRS = float(np.sqrt(2)) * RUN_TO_RUN
"""Scatter of a pair's two settings between runs, which their intervals do not contain."""
FROM_HERE = "from this setting"
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """Throughput after a change over that before, in the geometric mean of pairs, with the ends of its interval."""

    ratio: float
    low: float
    high: float
    """NaN, like `low`, if the pairs are too few and have no intervals of their own."""
    pairs: int
    where: str = ""  # cells that the effect is about, if it is one inside blocks, which `pairs` are then
    step: str = (
        ""  # change of the axis that the ratio is for, if the pairs have several, such as "for each doubling"
    )
    at_rtts: str = ""  # ratio at each RTT of the pairs, if they have several

    @property
    def gain(self) -> bool:
        return self.low > 1

    @property
    def loss(self) -> bool:
        return self.high < 1

    def agrees(self, many: "Effect") -> bool:
        """Return whether this effect is unclear by itself, but in the direction of a clear one of many settings."""
        return not (self.gain or self.loss) and (many.gain if self.ratio > 1 else many.loss)

    def times(self, where: str) -> str:
        """Describe the effect at a place, with its interval."""
        interval = between(self.low, self.high) if np.isfinite(self.low) else ""
        pairs = "" if where == FROM_HERE else counted(self.pairs, "pair")
        if self.where:
            where, pairs = self.where, counted(self.pairs, "block")
        words = " ".join(filter(None, (short(self.ratio), "times", where, self.step)))
        inside = ", ".join(filter(None, (interval, pairs)))
        at_rtts = self.at_rtts if self.gain else ""
        return f"{words} ({'; '.join(filter(None, (inside, at_rtts)))})"


@dataclass(frozen=True)
class AxisChanges:
    """One change at every setting, flattened: to the place `to` of the axis, -1 if no such setting was measured."""

    axis: str
    word: str  # the value that the change leads to, if values are words
    cluster: NDArray[np.intp]
    """Numbers of settings whose ratios share luck: all pairs of the same two deployments."""
    to: NDArray[np.intp]
    log_ratio: Floats  # NaN without a pair
    error: Floats  # NaN without a pair, or if an interval is unknown
    redirected: Mask  # whether the setting after the change contacts a redirector
    doublings: Floats
    """Logarithm to base 2 of the value after the change over that before; NaN for values without a ratio."""


def of_pairs(logs: Floats, errors: Floats, comparisons: int) -> Effect:
    interval = mean_ratio(np.exp(logs), errors, comparisons)
    if interval is None:
        return of_few(
            float(logs.mean()), float(np.sqrt(np.sum(errors**2))) / len(logs), comparisons, len(logs)
        )
    return Effect(interval.value, interval.low, interval.high, len(logs))


def of_few(middle: float, error: float, comparisons: int, pairs: int = 1) -> Effect:
    """Return the effect in pairs that are too few to show their scatter, by the intervals of their settings."""
    half = normal_quantile((1 - CONFIDENCE) / (2 * comparisons)) * error
    ratio, low, high = map(float, np.exp([middle, middle - half, middle + half]))
    return Effect(ratio, low, high, pairs)


def to_next(cells: Cells, axis: str, larger: bool) -> Iterator[AxisChanges]:
    shape = tuple(map(len, cells.axes.values()))
    names, values = list(cells.axes), cells.axes[axis]
    positive = np.where(cells.throughput > 0, cells.throughput, np.nan).reshape(shape)
    redirected = cells.redirected.reshape(shape)
    logs, errors = np.log(positive), cells.error.reshape(shape) / positive
    at = names.index(axis)
    deployed = [name for name in names if name not in CELL]
    cluster = cells.number(deployed if axis in deployed else names)
    size = doublings_of(values)
    for word, target in _targets(np.moveaxis(np.isfinite(logs), at, 0), values, larger):
        to = np.broadcast_to(np.moveaxis(target, 0, at), shape)
        place = np.maximum(np.moveaxis(target, 0, at), 0)
        after, of_after = (np.take_along_axis(of, place, at) for of in (logs, errors))
        change = np.where(to >= 0, after - logs, np.nan)
        error, behind = np.hypot(errors, of_after), np.take_along_axis(redirected, place, at)
        doublings = size[to.ravel()] - size[cells.places[axis]]
        yield AxisChanges(
            axis, word, cluster, to.ravel(), change.ravel(), error.ravel(), behind.ravel(), doublings
        )


def to_best(cells: Cells, axis: str) -> AxisChanges:
    """Return the change of each setting to the fastest trusted one along an axis; to itself if it is that."""
    shape, at = tuple(map(len, cells.axes.values())), list(cells.axes).index(axis)
    positive = np.where(cells.throughput > 0, cells.throughput, np.nan).reshape(shape)
    place = np.nan_to_num(positive, nan=-1.0).argmax(axis=at, keepdims=True)
    after, error, behind = (
        np.broadcast_to(np.take_along_axis(of.reshape(shape), place, at), shape).ravel()
        for of in (positive, cells.error, cells.redirected)
    )
    rates = positive.ravel()
    return AxisChanges(
        axis,
        "",
        np.zeros(rates.size, np.intp),
        np.broadcast_to(place, shape).ravel(),
        np.log(after / rates),
        np.hypot(error / after, cells.error / rates),
        behind,
        np.full(rates.size, np.nan),
    )


def gains_of_more(cells: Cells, axis: str) -> Floats:
    """Return how many times as much each setting reaches at a larger value of an axis; NaN without a clear gain."""
    if axis not in cells.several():
        return np.full(cells.throughput.size, np.nan)
    best = to_best(cells, axis)
    error = normal_quantile((1 - CONFIDENCE) / 2) * np.hypot(best.error, SCATTER_OF_PAIRS)
    is_clear = (best.to > cells.places[axis]) & (best.log_ratio > error)
    return np.where(is_clear, np.exp(best.log_ratio), np.nan)


def doublings_of(values: Sequence[object]) -> Floats:
    """Return logarithms to base 2; NaN for words, and for values without a ratio to others such as 0."""
    numbers = np.array([np.nan if isinstance(value, str) else value for value in values], float)
    return np.log2(np.where((numbers > 0) & np.isfinite(numbers), numbers, np.nan))


def _targets(known: Mask, values: Sequence[object], larger: bool) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield each change of the first dimension: its word if values are words, and the place that it leads to, or -1."""
    if isinstance(values[0], str):
        for place, word in enumerate(values):
            target = np.where(known[place], place, -1)[None].repeat(len(values), axis=0)
            target[place] = -1
            yield str(word), target
        return
    target, following = np.full(known.shape, -1), np.full(known.shape[1:], -1)
    order = np.argsort(np.array(values, float))
    for place in order[::-1] if larger else order:
        target[place] = following
        following = np.where(known[place], place, following)
    yield "", target
