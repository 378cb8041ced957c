# SPDX-License-Identifier: Apache-2.0
"""Throughput at the last value of an axis over that at its first, by pairs of settings; pure functions.

The settings of a pair differ in nothing else and have no warning. All limits count alike.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, short
from tpcsweep.data.effects import Interval, mean_ratio
from tpcsweep.data.redirectors import redirector_words
from tpcsweep.pages.axis_changes import MOST_RTTS, SCATTER_OF_PAIRS, doublings_of
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.finding import Change
from tpcsweep.sweeps.parameters import CELL, name_text, value_text


class Pairs(NamedTuple):
    """Trusted settings at the last and the first value of an axis that differ in nothing else, one place a pair."""

    axis: str
    settings: NDArray[np.intp]  # places of both settings, 2 × pairs
    log_ratio: NDArray[np.float64]
    error: NDArray[np.float64]  # with the scatter from run to run
    shared: NDArray[np.intp]  # number of the deployments that pairs have in common

    def among(self, which: NDArray[np.bool_]) -> "Pairs":
        settings = self.settings[:, which]
        return Pairs(self.axis, settings, self.log_ratio[which], self.error[which], self.shared[which])


def pairs_of(cells: Cells, axis: str) -> Pairs:
    shape = tuple(map(len, cells.axes.values()))
    dimension = list(cells.axes).index(axis)
    number = np.arange(len(cells.throughput)).reshape(shape)
    settings = np.array([number.take(end, dimension).ravel() for end in (-1, 0)])
    settings = settings[:, (cells.throughput[settings] > 0).all(axis=0)]
    rates = cells.throughput[settings]
    error = np.hypot(np.hypot(*cells.error[settings] / rates), SCATTER_OF_PAIRS)
    # Both settings of a pair along an axis of cells have their deployment in common, whose luck cancels.
    deployments = [name for name in cells.axes if name not in CELL]
    apart = [name for name in deployments if name != axis] if axis in deployments else [*cells.axes]
    log_ratio = np.log(rates[0]) - np.log(rates[1])
    return Pairs(axis, settings, log_ratio, error, cells.number(apart)[settings[1]])


def mean_change(cells: Cells, pairs: Pairs, at: str = "", comparisons: int = 1) -> Change:
    """Average pairs; the words begin with the settings `at` that they are limited to."""
    values = cells.axes[pairs.axis]
    also = redirector_words(pairs.axis, *cells.redirected[pairs.settings])
    new, old = cells.value(pairs.axis, len(values) - 1), value_text(pairs.axis, values[0])
    words = f"{at}{new}{also} instead of {old}"
    ratios = np.exp(pairs.log_ratio)
    found = mean_ratio(ratios, pairs.error, comparisons, pairs.shared, SCATTER_OF_PAIRS)
    found = found or Interval(float(np.exp(pairs.log_ratio.mean())), np.nan, np.nan)
    first, last = doublings_of([values[0], values[-1]]).tolist()
    return Change(words, found.value, found.low, found.high, len(ratios), last - first)


def differing(cells: Cells, pairs: Pairs) -> list[Change]:
    """Return a change at each value of the axis along which it differs most beyond chance; otherwise at each RTT.

    Nobody chooses the RTT of a site. With a single one, or very many, there are no such changes.
    """
    others = [name for name in cells.several() if name != pairs.axis]
    comparisons = sum(len(cells.axes[name]) for name in others)
    at_values = {name: _at_each_value(cells, pairs, name, comparisons) for name in others}
    apart = {name: gap for name, changes in at_values.items() if (gap := _gap(changes)) > 1}
    if apart:
        return at_values[max(apart, key=apart.__getitem__)]
    of_rtts = _at_each_value(cells, pairs, "rtt") if "rtt" in others else []
    return of_rtts if 1 < len(of_rtts) <= MOST_RTTS else []


def _at_each_value(cells: Cells, pairs: Pairs, name: str, comparisons: int = 1) -> list[Change]:
    places = cells.places[name][pairs.settings[1]]
    return [
        mean_change(cells, pairs.among(places == place), f"{cells.value(name, place)}: ", comparisons)
        for place in np.unique(places).tolist()
    ]


def _gap(changes: Sequence[Change]) -> float:
    """Return the ratio between the intervals that are farthest apart, all at the level of one family (Bonferroni)."""
    known = [change for change in changes if np.isfinite(change.low)]
    return max(one.low for one in known) / min(one.high for one in known) if known else 0.0


def each_doubling(cells: Cells, axis: str) -> str:
    """Return a sentence on the change by each doubling of an axis, at each RTT if there are several; "" if unknown."""
    if axis not in cells.several():
        return ""
    pairs = pairs_of(cells, axis)
    at_rtts = _at_each_value(cells, pairs, "rtt") if "rtt" in cells.several() else []
    changes = (
        at_rtts
        if 1 < len(at_rtts) <= MOST_RTTS
        else [mean_change(cells, pairs)]
        if pairs.log_ratio.size
        else []
    )
    texts = []
    for change in changes:
        if not change.doublings:
            return ""
        ratio, *ends = (each ** (1 / change.doublings) for each in (change.ratio, change.low, change.high))
        interval = f" ({between(*ends)})" if np.isfinite(ends).all() else ""
        where = change.words.partition(": ")[0] if at_rtts else ""
        texts.append(f"{short(ratio)} times{interval}{where and f' at {where}'}")
    every = f"Over all settings{cells.kind}, each doubling of {name_text(axis)} gives"
    return f"{every} {', '.join(texts)}." if texts else ""
