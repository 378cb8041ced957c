# SPDX-License-Identifier: Apache-2.0
"""Changes that relieve limits, with their effects in the limited cells themselves; pure functions.

The effect of a change is measured by pairs: a cell with the limit, and the setting that differs in nothing but the next
value of one axis. Words such as tools have no order; the best of the other values counts. Cells with a warning are in
no pair. A change whose effect is below 1 is not recommended, and one whose interval contains 1 is no gain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import CONFIDENCE, between, counted, short
from tpcsweep.common.quantiles import normal_quantile
from tpcsweep.data.effects import mean_ratio
from tpcsweep.data.scatter import RUN_TO_RUN
from tpcsweep.data.variables import REMEDIES, Remedy, alternatives
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.gains import Gains
from tpcsweep.sweeps.parameters import CELL, value_text
from tpcsweep.sweeps.sweep import REPETITION

_SCATTER = np.sqrt(2) * RUN_TO_RUN  # of a pair's two cells between runs, which their intervals do not contain
_HERE, _FROM_HERE, _WITH_LIMIT = "here", "from here", "in cells with this limit"
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

    @property
    def gain(self) -> bool:
        return self.low > 1

    @property
    def loss(self) -> bool:
        return self.high < 1

    def agrees(self, many: "Effect") -> bool:
        """Return whether this effect is unclear by itself, but in the direction of a clear one of many cells."""
        return not (self.gain or self.loss) and (many.gain if self.ratio > 1 else many.loss)

    def times(self, where: str) -> str:
        """Describe the effect at a place, with its interval."""
        interval = between(self.low, self.high) if np.isfinite(self.low) else ""
        pairs = "" if where == _FROM_HERE else counted(self.pairs, "pair")
        return f"{short(self.ratio)} times {where} ({', '.join(filter(None, (interval, pairs)))})"


@dataclass(frozen=True)
class _Changes:
    """One change at every cell, flattened: to the place `to` of the axis, -1 if no such setting was measured."""

    word: str  # the value that the change leads to, if values are words
    cluster: NDArray[np.intp]
    """Numbers of cells whose ratios share luck: repetitions of a setting, and all pairs of the same two deployments."""
    to: NDArray[np.intp]
    log_ratio: Floats  # NaN without a pair
    error: Floats  # NaN without a pair, or if an interval is unknown


class Remedies:
    """The measured effects of all changes that relieve a limit of some cell."""

    def __init__(self, cells: Cells, gains: Gains | None = None) -> None:
        self._cells = cells
        self._gains = gains
        self._setting = cells.setting
        self._changes = dict[tuple[str, bool], list[_Changes]]()

    def effect(self, remedy: Remedy, held: Mask) -> tuple[str, Effect] | None:
        """Return a remedy's words and its effect in the cells `held`; None if it was not measured there."""
        options = self._options(remedy)
        tried = max(len(options) - 1, 1)
        effects = [
            (f"{remedy.words} ({option.word})" if option.word else remedy.words, effect)
            for option in options
            if (effect := self._mean(option, held, tried))
        ]
        return max(effects, key=lambda each: each[1].ratio, default=None)

    def sentence(self, remedies: Mapping[Remedy, Mask]) -> str:
        """Describe remedies, each with its cells: gains first, then changes without a measured effect, then losses."""
        measured, fitted = list[tuple[str, Effect]](), list[str]()
        unknown, elsewhere = list[str](), list[str]()
        for remedy, held in remedies.items():
            if effect := self.effect(remedy, held):
                measured.append(effect)
            elif gain := self._fitted(remedy.axis, held):
                fitted.append(f"{remedy.words}: not measured here, {gain} by the fitted model")
            else:
                (unknown if remedy.axis else elsewhere).append(remedy.words)
        return _as_sentence(
            [
                *(_part(words, effect, _HERE) for words, effect in measured if effect.gain),
                *fitted,
                *([f"{alternatives(unknown)}: not measured here"] if unknown else []),
                *([alternatives(elsewhere)] if elsewhere else []),
                *(_part(words, effect, _HERE) for words, effect in measured if not effect.gain),
            ]
        )

    def of_cells(self) -> Iterator[str]:
        """Yield the advice for each cell, in the order of the flattened grid; "" for cells that were not judged."""
        for cell, (first, second) in enumerate(zip(self._cells.limit, self._cells.second, strict=True)):
            remedies = dict.fromkeys(REMEDIES.get(first, ()), first)
            for remedy in REMEDIES.get(second, ()):
                remedies.setdefault(remedy, second)
            yield self._advice(cell, remedies)

    def _advice(self, cell: int, remedies: Mapping[Remedy, str]) -> str:
        gains, others = list[str](), list[str]()
        unknown, elsewhere, ends = list[Remedy](), list[Remedy](), list[str]()
        for remedy, limit in remedies.items():
            here, there = self._from_here(remedy, cell), self._with_limit[limit][remedy]
            if here and there and here[1].agrees(there[1]):
                text = f"{here[0]}: {here[1].times(_FROM_HERE)}, {there[1].times(_WITH_LIMIT)}"
                gains.append(text) if there[1].gain else others.append(f"not {text}")
            elif not here and self._is_last(remedy, cell):
                last = self._cells.axes[remedy.axis][self._cells.places[remedy.axis][cell]]
                ends.append(f"{remedy.words}: not measured from {value_text(remedy.axis, last)} on")
            elif source := here or there:
                (gains if source[1].gain else others).append(
                    _part(*source, _FROM_HERE if here else _WITH_LIMIT)
                )
            else:
                (unknown if remedy.axis else elsewhere).append(remedy)
        if unknown:
            fitted = self._gains and self._gains.axis[cell] in [remedy.axis for remedy in unknown]
            gain = f" ({self._gains.text[cell]}, by the fitted model)" if self._gains and fitted else ""
            gains.append(f"{alternatives([remedy.words for remedy in unknown])}: not measured{gain}")
        if elsewhere:
            gains.append(alternatives([remedy.words for remedy in elsewhere]))
        return _as_sentence([*gains, *ends, *others])

    def _is_last(self, remedy: Remedy, cell: int) -> bool:
        """Return whether an axis has no measured setting after the cell in the direction of a remedy."""
        options = self._options(remedy)
        return bool(options) and not any(option.word or option.to[cell] >= 0 for option in options)

    @cached_property
    def _with_limit(self) -> Mapping[str, Mapping[Remedy, tuple[str, Effect] | None]]:
        cells = self._cells
        return {
            limit: {
                remedy: self.effect(remedy, cells.trusted & (cells.limit == limit)) for remedy in remedies
            }
            for limit, remedies in REMEDIES.items()
        }

    def _from_here(self, remedy: Remedy, cell: int) -> tuple[str, Effect] | None:
        """Return the change at a single cell, with its values, and the effect."""
        options = [option for option in self._options(remedy) if np.isfinite(option.log_ratio[cell])]
        if not options:
            return None
        best = max(options, key=lambda option: float(option.log_ratio[cell]))
        axis = self._cells.axes[remedy.axis]
        new, old = (
            value_text(remedy.axis, axis[place])
            for place in (best.to[cell], self._cells.places[remedy.axis][cell])
        )
        error = np.hypot(best.error[cell], _SCATTER)
        return f"{remedy.words} ({new} instead of {old})", _of_few(
            float(best.log_ratio[cell]), error, len(options)
        )

    def _fitted(self, axis: str, held: Mask) -> str:
        """Return the median gain along an axis by the fitted model, or ""."""
        if self._gains is None or not axis:
            return ""
        factors = self._gains.factor[held & (self._gains.axis == axis)]
        return f"{short(float(np.median(factors)))} times in the median" if factors.size else ""

    def _mean(self, change: _Changes, held: Mask, comparisons: int) -> Effect | None:
        """Average a change over cells, by pairs of settings and of clusters: the wider interval counts."""
        held = held & np.isfinite(change.log_ratio)
        if not held.any():
            return None
        effects = []
        for group in (self._setting, change.cluster):
            _, numbers = np.unique(group[held], return_inverse=True)
            count = np.bincount(numbers)
            logs = np.bincount(numbers, change.log_ratio[held]) / count
            errors = np.hypot(np.sqrt(np.bincount(numbers, change.error[held] ** 2)) / count, _SCATTER)
            effects.append(_effect(logs, errors, comparisons))
        widest = max(effects, key=lambda effect: np.nan_to_num(effect.high / effect.low, nan=np.inf))
        return replace(widest, pairs=effects[0].pairs)

    def _options(self, remedy: Remedy) -> Sequence[_Changes]:
        """Return the changes that a remedy means: to the next number, or to each of several words."""
        key = remedy.axis, remedy.larger
        if key not in self._changes:
            self._changes[key] = (
                list(_changes(self._cells, *key)) if remedy.axis in self._cells.several() else []
            )
        return self._changes[key]


def _effect(logs: Floats, errors: Floats, comparisons: int) -> Effect:
    interval = mean_ratio(np.exp(logs), errors, comparisons)
    if interval is None:
        return _of_few(
            float(logs.mean()), float(np.sqrt(np.sum(errors**2))) / len(logs), comparisons, len(logs)
        )
    return Effect(interval.value, interval.low, interval.high, len(logs))


def _of_few(middle: float, error: float, comparisons: int, pairs: int = 1) -> Effect:
    """Return the effect in pairs that are too few to show their scatter, by the intervals of their cells."""
    half = normal_quantile((1 - CONFIDENCE) / (2 * comparisons)) * error
    ratio, low, high = map(float, np.exp([middle, middle - half, middle + half]))
    return Effect(ratio, low, high, pairs)


def _changes(cells: Cells, axis: str, larger: bool) -> Iterator[_Changes]:
    shape = tuple(map(len, cells.axes.values()))
    names, values = list(cells.axes), cells.axes[axis]
    positive = np.where(cells.throughput > 0, cells.throughput, np.nan).reshape(shape)
    logs, errors = np.log(positive), cells.error.reshape(shape) / positive
    known = np.isfinite(logs)
    if REPETITION in names:
        repetitions = names.index(REPETITION)
        count = known.sum(repetitions, keepdims=True)
        some = np.maximum(count, 1)
        mean = np.where(count, np.where(known, logs, 0.0).sum(repetitions, keepdims=True) / some, np.nan)
        of_mean = np.sqrt((np.where(known, errors, 0.0) ** 2).sum(repetitions, keepdims=True)) / some
    else:
        mean, of_mean = logs, errors
    at = names.index(axis)
    deployed = [name for name in names if name not in (*CELL, REPETITION)]
    cluster = cells.number(deployed) if axis in deployed else cells.setting
    for word, target in _targets(np.moveaxis(np.isfinite(mean), at, 0), values, larger):
        to = np.broadcast_to(np.moveaxis(target, 0, at), shape)
        place = np.maximum(np.moveaxis(target, 0, at), 0)
        after, of_after = (np.take_along_axis(of, place, at) for of in (mean, of_mean))
        change = np.where(to >= 0, after - logs, np.nan)
        yield _Changes(word, cluster, to.ravel(), change.ravel(), np.hypot(errors, of_after).ravel())


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


def _part(words: str, effect: Effect, where: str) -> str:
    if effect.gain or effect.loss:
        return f"{'' if effect.gain else 'not '}{words}: {effect.times(where)}"
    return f"no clear effect of {words}: {effect.times(where)}"


def _as_sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
