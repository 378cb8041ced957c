# SPDX-License-Identifier: Apache-2.0
"""Changes that relieve limits, with their effects in the limited settings themselves; pure functions.

The effect of a change is measured by pairs: a setting with the limit, and the one that differs in nothing but the next
value of one axis. Words such as tools have no order; the best of the other values counts. Settings with a warning are
in no pair. A change whose effect is below 1 is not recommended, and one whose interval contains 1 is no gain.

The effects of settings in a sweep with order: blocks are those of an analysis of its blocks, so that a page has one
interval for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import CONFIDENCE, between, counted, short
from tpcsweep.common.quantiles import normal_quantile
from tpcsweep.data.effects import mean_ratio
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.redirectors import redirector_words
from tpcsweep.data.scatter import RUN_TO_RUN
from tpcsweep.data.variables import REMEDIES, UNEXPLAINED, Remedy
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.contract import EffectRow
from tpcsweep.pages.gains import Gains
from tpcsweep.pages.host_changes import States, names_only
from tpcsweep.sweeps.parameters import CELL, LINK, Parameters, name_text, value_text

SCATTER_OF_PAIRS = (
    np.sqrt(2) * RUN_TO_RUN
)  # of a pair's two settings between runs, which their intervals do not contain
_LOOKS = [remedy for limit in UNEXPLAINED for remedy in REMEDIES[limit]]
_REPEAT = "Measure {} on an idle machine first: the measuring machine was full, so {} may be its own."
_PAUSED = f"To measure it: {FLAGS['waited'].remedy}."
UNDECIDED_PAUSES = (
    "Other streams may fill these pauses: no setting with fewer streams was measured to show it."
)
_HERE, _FROM_HERE = "in these settings", "from this setting"
_WITH_LIMIT = "in settings with this limit"
_MOST_RTTS = 4  # with an effect each in a sentence
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
        pairs = "" if where == _FROM_HERE else counted(self.pairs, "pair")
        if self.where:
            where, pairs = self.where, counted(self.pairs, "block")
        words = " ".join(filter(None, (short(self.ratio), "times", where, self.step)))
        inside = ", ".join(filter(None, (interval, pairs)))
        return f"{words} ({'; '.join(filter(None, (inside, self.at_rtts)))})"


@dataclass(frozen=True)
class _Changes:
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


class _Steps:
    """Changes by what is known of each; every line of the text has changes of one kind."""

    def __init__(self, full: int, every: int = 1) -> None:
        """`full` of `every` setting that the changes are for were measured on a full machine."""
        self._full, self._every = full, every
        self.gains, self.predicted = list[str](), list[str]()
        self.unknown, self.untrusted, self.looks = list[str](), list[str](), list[str]()
        self.others = list[str]()

    def add(self, effect: Effect, words: str, times: str) -> None:
        """Add a measured change; `times` has its effect, which is that of an `Effect`."""
        if effect.gain:
            self.gains.append(f"Measured gain: {words}, {times}.")
        else:
            kind = "Measured loss" if effect.loss else "No clear effect, measured"
            self.others.append(f"{kind}: {words}, {times}.")

    def add_unknown(self, remedy: Remedy) -> None:
        (self.looks if remedy in _LOOKS else self.unknown).append(remedy.words)

    def lines(self) -> list[str]:
        predicted = [f"Predicted gain: {text}." for text in self.predicted]
        named = {
            "Not measured": self.unknown,
            "Without a trustworthy measurement": self.untrusted,
            "What shows it": self.looks,
        }
        listed = [f"{name}: {'; '.join(remedies)}." for name, remedies in named.items() if remedies]
        if self._full and self.looks:
            is_part = self._full < self._every
            which = f"{self._full} of {self._every} again" if is_part else "again"
            listed.insert(-1, _REPEAT.format(which, "their rate" if is_part else "the rate"))
        return [*self.gains, *predicted, *listed, *self.others]


class Remedies:
    """The measured effects of all changes that relieve a limit of some setting."""

    def __init__(
        self,
        cells: Cells,
        gains: Gains | None = None,
        effects: Sequence[EffectRow] = (),
        changes: Mapping[str, States] | None = None,
    ) -> None:
        """Measure them; `effects` are those inside blocks, and `changes` the states that settings of hosts change."""
        self._cells = cells
        self._host_changes = changes or {}
        self._gains = gains
        self._effects = [row for row in effects if row["drawn"]]
        self._changes = dict[tuple[str, bool], list[_Changes]]()
        self._settings = tuple(
            Remedy(name_text(axis), axis)
            for axis in cells.several()
            if axis not in (*Parameters.model_fields, *LINK) and isinstance(cells.axes[axis][0], str)
        )
        """Settings of hosts, which may relieve any limit."""

    def of(self, limit: str) -> Sequence[Remedy]:
        """Return the changes that may relieve a limit."""
        return (*REMEDIES.get(limit, ()), *(self._settings if limit else ()))

    def effect(self, remedy: Remedy, held: Mask) -> tuple[str, Effect] | None:
        """Return a remedy's words and its effect in the settings `held`; None if it was not measured there."""
        options = self._options(remedy)
        in_parts = remedy in self._settings or self._in_blocks(remedy.axis)
        parts = self._by_value(remedy.axis, held) if in_parts else [("", held)]
        tried = max(len(options) - 1, 1) * len(parts)
        effects = [
            (self._words(remedy, option, old, part), effect)
            for old, part in parts
            for option in options
            if (effect := self._inside(remedy.axis, option.word, part) or self._mean(option, part, tried))
        ]
        # A word that more of these settings can change to comes before one that gains more in few of them.
        return max(effects, key=lambda each: (each[1].gain, each[1].pairs, each[1].ratio), default=None)

    def _in_blocks(self, axis: str) -> bool:
        return any(row["setting"] == axis for row in self._effects)

    def _inside(self, axis: str, word: str, held: Mask) -> Effect | None:
        """Return the effect inside blocks of a value over the reference, if all settings `held` have the reference.

        It is that at the value of another axis which they share, if the effect depends on that axis.
        """
        rows = {
            (row["axis"], row["at"]): row
            for row in self._effects
            if (row["setting"], row["value"]) == (axis, word)
        }
        if not rows or not held.any() or self._cells.places[axis][held].any():
            return None
        shared = [
            (name, value_text(name, self._cells.axes[name][places[held][0]]))
            for name, places in self._cells.places.items()
            if len(np.unique(places[held])) == 1
        ]
        key = next((key for key in shared if key in rows), ("", ""))
        if key not in rows:
            return None
        where = f"with {name_text(key[0])} {key[1]}" if key[0] else "in all cells"
        row = rows[key]
        return Effect(row["ratio"], row["low"] or np.nan, row["high"] or np.nan, row["pairs"], where)

    def _words(self, remedy: Remedy, option: _Changes, old: str, held: Mask) -> str:
        if option.word:
            before = f" instead of {old}" if old else ""
            return f"{remedy.words} ({option.word}{before}{self._on_hosts(remedy.axis, old, option.word)})"
        pairs = held & np.isfinite(option.log_ratio)
        also = redirector_words(remedy.axis, option.redirected[pairs], self._cells.redirected[pairs])
        if len(steps := self._steps(option, held)) > 1:
            return remedy.words + also
        old, new = (value_text(remedy.axis, self._cells.axes[remedy.axis][place]) for place in steps[0])
        return f"{remedy.words} ({new}{also} instead of {old})"

    def _on_hosts(self, axis: str, old: str, new: str) -> str:
        """Return the states of hosts that a setting changes, if they are recorded."""
        changed = names_only(self._host_changes.get(axis, {}), old, new)
        return f", which changes {changed}" if old and changed else ""

    def _steps(self, change: _Changes, held: Mask) -> list[tuple[int, int]]:
        """Return the different steps of settings along an axis of numbers, from place to place; [] for words."""
        pairs = held & np.isfinite(change.log_ratio) if not change.word else np.zeros_like(held)
        places = self._cells.places[change.axis][pairs].tolist()
        return sorted({*zip(places, change.to[pairs].tolist(), strict=True)})

    def _by_value(self, axis: str, held: Mask) -> list[tuple[str, Mask]]:
        """Return the settings at the reference of an axis, its first value; without any, those at each other value."""
        places = self._cells.places[axis]
        known = np.unique(places[held]).tolist()
        return [
            (value_text(axis, self._cells.axes[axis][place]), held & (places == place))
            for place in ([0] if 0 in known else known)
        ]

    def lines(self, remedies: Mapping[Remedy, Mask]) -> list[str]:
        """Describe remedies of some settings: gains first, then changes without a measured effect, then losses."""
        every = np.any([*remedies.values()], axis=0)
        steps = _Steps(int((every & self._cells.full_machine).sum()), int(every.sum()))
        for remedy, held in remedies.items():
            if effect := self.effect(remedy, held):
                if effect[1].gain or remedy not in self._settings:
                    steps.add(effect[1], effect[0], effect[1].times(_HERE))
            elif gain := self._fitted(remedy.axis, held):
                steps.predicted.append(f"{remedy.words}, {gain} by the fitted model")
            else:
                steps.add_unknown(remedy)
        return steps.lines()

    def of_settings(self) -> Iterator[str]:
        """Yield lines of advice for each setting, in the order of the flattened grid; "" for unjudged ones."""
        for cell, (first, second) in enumerate(zip(self._cells.limit, self._cells.second, strict=True)):
            if np.isfinite(self._cells.paused[cell]):
                yield _PAUSED
                continue
            remedies = dict.fromkeys(self.of(first), first)
            for remedy in self.of(second):
                remedies.setdefault(remedy, second)
            advice = self._advice(cell, remedies)
            yield f"{UNDECIDED_PAUSES}\n{advice}" if self._cells.undecided[cell] else advice

    def _advice(self, cell: int, remedies: Mapping[Remedy, str]) -> str:
        steps, unknown = _Steps(int(self._cells.full_machine[cell])), list[Remedy]()
        for remedy, limit in remedies.items():
            here, there = self._from_here(remedy, cell), self._with_limit[limit][remedy]
            if remedy in self._settings and not (here and here[1].gain):
                continue
            if here and there and here[1].agrees(there[1]):
                both = f"{here[1].times(_FROM_HERE)}, and {there[1].times(_WITH_LIMIT)}"
                steps.add(there[1], here[0], both)
            elif not here and self._is_last(remedy, cell):
                values, place = self._cells.axes[remedy.axis], self._cells.places[remedy.axis][cell]
                words = f"{remedy.words}, from {value_text(remedy.axis, values[place])} on"
                end = max if remedy.larger else min
                (steps.unknown if values[place] == end(values) else steps.untrusted).append(words)
            elif source := here or there:
                steps.add(source[1], source[0], source[1].times(_FROM_HERE if here else _WITH_LIMIT))
            else:
                unknown.append(remedy)
        for remedy in unknown:
            if remedy.axis and self._gains and self._gains.axis[cell] == remedy.axis:
                steps.predicted.append(f"{remedy.words}, {self._gains.text[cell]}, by the fitted model")
            else:
                steps.add_unknown(remedy)
        return "\n".join(steps.lines())

    def _is_last(self, remedy: Remedy, cell: int) -> bool:
        """Return whether an axis has no trusted setting after this one in the direction of a remedy."""
        options = self._options(remedy)
        return bool(options) and not any(option.word or option.to[cell] >= 0 for option in options)

    @cached_property
    def _with_limit(self) -> Mapping[str, Mapping[Remedy, tuple[str, Effect] | None]]:
        cells = self._cells
        return {
            limit: {
                remedy: self.effect(remedy, cells.trusted & (cells.limit == limit))
                for remedy in self.of(limit)
            }
            for limit in {*REMEDIES, *cells.limit, *cells.second}
        }

    def _from_here(self, remedy: Remedy, cell: int) -> tuple[str, Effect] | None:
        """Return the change at a single setting, with its values, and the effect."""
        if self._in_blocks(remedy.axis) and not self._cells.places[remedy.axis][cell]:
            return self.effect(remedy, np.arange(len(self._cells.throughput)) == cell)
        options = [option for option in self._options(remedy) if np.isfinite(option.log_ratio[cell])]
        if not options:
            return None
        best = max(options, key=lambda option: float(option.log_ratio[cell]))
        axis = self._cells.axes[remedy.axis]
        new, old = (
            value_text(remedy.axis, axis[place])
            for place in (best.to[cell], self._cells.places[remedy.axis][cell])
        )
        error = np.hypot(best.error[cell], SCATTER_OF_PAIRS)
        ends = best.redirected[cell : cell + 1], self._cells.redirected[cell : cell + 1]
        also = (
            f"{redirector_words(remedy.axis, *ends)} instead of {old}{self._on_hosts(remedy.axis, old, new)}"
        )
        words = f"{remedy.words} ({new}{also})"
        return words, _of_few(float(best.log_ratio[cell]), error, len(options))

    def _fitted(self, axis: str, held: Mask) -> str:
        """Return the median and the range of gains along an axis by the fitted model, or ""."""
        if self._gains is None or not axis:
            return ""
        factors = self._gains.factor[held & (self._gains.axis == axis)]
        if not factors.size:
            return ""
        ends = between(float(factors.min()), float(factors.max()))
        spread = f" ({ends})" if " " in ends else ""
        median = short(float(np.median(factors)))
        return f"{median} times in the median of {counted(factors.size, 'setting')}{spread}"

    def _mean(self, change: _Changes, held: Mask, comparisons: int) -> Effect | None:
        """Average a change over settings, by pairs of them and of clusters: the wider interval counts.

        Pairs whose steps along the axis differ are averaged for each doubling of its value.
        """
        held = held & np.isfinite(change.log_ratio)
        if not held.any():
            return None
        size, step, doublings = np.ones(len(held)), "", change.doublings[held]
        if len(self._steps(change, held)) > 1:
            step = "for each step to the next measured value"
            if np.isfinite(doublings).all():
                size[held] = np.abs(doublings)
                step = "for each doubling" if doublings[0] > 0 else "for each halving"
        effects = []
        for group in (np.arange(len(held)), change.cluster):
            _, numbers = np.unique(group[held], return_inverse=True)
            count = np.bincount(numbers)
            logs = np.bincount(numbers, (change.log_ratio / size)[held]) / count
            scatter = SCATTER_OF_PAIRS * np.bincount(numbers, 1 / size[held]) / count
            own = np.sqrt(np.bincount(numbers, (change.error / size)[held] ** 2)) / count
            effects.append(_effect(logs, np.hypot(own, scatter), comparisons))
        widest = max(effects, key=lambda effect: np.nan_to_num(effect.high / effect.low, nan=np.inf))
        at_rtts = self._at_rtts(change, held, change.log_ratio / size)
        return replace(widest, pairs=effects[0].pairs, step=step, at_rtts=at_rtts)

    def _at_rtts(self, change: _Changes, held: Mask, logs: Floats) -> str:
        """Return the geometric mean of a change at each RTT of some settings; "" for a single RTT, or very many."""
        rtts = np.unique(self._cells.places["rtt"][held]).tolist() if "rtt" in self._cells.several() else []
        if change.axis == "rtt" or not 1 < len(rtts) <= _MOST_RTTS:
            return ""
        texts = []
        for place in rtts:
            ratio = float(np.exp(logs[held & (self._cells.places["rtt"] == place)].mean()))
            texts.append(f"{short(ratio)} at {value_text('rtt', self._cells.axes['rtt'][place])}")
        return ", ".join(texts)

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
    """Return the effect in pairs that are too few to show their scatter, by the intervals of their settings."""
    half = normal_quantile((1 - CONFIDENCE) / (2 * comparisons)) * error
    ratio, low, high = map(float, np.exp([middle, middle - half, middle + half]))
    return Effect(ratio, low, high, pairs)


def _changes(cells: Cells, axis: str, larger: bool) -> Iterator[_Changes]:
    shape = tuple(map(len, cells.axes.values()))
    names, values = list(cells.axes), cells.axes[axis]
    positive = np.where(cells.throughput > 0, cells.throughput, np.nan).reshape(shape)
    redirected = cells.redirected.reshape(shape)
    logs, errors = np.log(positive), cells.error.reshape(shape) / positive
    at = names.index(axis)
    deployed = [name for name in names if name not in CELL]
    cluster = cells.number(deployed if axis in deployed else names)
    size = _doublings(values)
    for word, target in _targets(np.moveaxis(np.isfinite(logs), at, 0), values, larger):
        to = np.broadcast_to(np.moveaxis(target, 0, at), shape)
        place = np.maximum(np.moveaxis(target, 0, at), 0)
        after, of_after = (np.take_along_axis(of, place, at) for of in (logs, errors))
        change = np.where(to >= 0, after - logs, np.nan)
        error, behind = np.hypot(errors, of_after), np.take_along_axis(redirected, place, at)
        doublings = size[to.ravel()] - size[cells.places[axis]]
        yield _Changes(
            axis, word, cluster, to.ravel(), change.ravel(), error.ravel(), behind.ravel(), doublings
        )


def _doublings(values: Sequence[object]) -> Floats:
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
