# SPDX-License-Identifier: Apache-2.0
"""Changes that relieve limits, with their effects in the limited settings themselves; pure functions.

The effect of a change is measured by pairs: a setting with the limit, and the one that differs in nothing but the next
value of one axis. Words such as tools have no order; the best of the other values counts. Settings with a warning are
in no pair. A change whose effect is below 1 is not recommended, and one whose interval contains 1 is no gain.

The effects of settings in a sweep with order: blocks are those of an analysis of its blocks, so that a page has one
interval for each.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.host_buffers import RECEIVE, SEND
from tpcsweep.data.redirectors import redirector_words
from tpcsweep.data.variables import REMEDIES, UNEXPLAINED, Remedy
from tpcsweep.pages.axis_changes import (
    FROM_HERE,
    MOST_RTTS,
    SCATTER_OF_PAIRS,
    AxisChanges,
    Effect,
    of_few,
    of_pairs,
    to_best,
    to_next,
)
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.contract import EffectRow
from tpcsweep.pages.gains import Gains
from tpcsweep.pages.host_changes import States, names_only
from tpcsweep.pages.host_limits import CONNECTION
from tpcsweep.sweeps.parameters import KNOBS, LINK, Parameters, name_text, value_text

_LOOKS = [remedy for limit in UNEXPLAINED for remedy in REMEDIES[limit]]
_REPEAT = "Measure {} on an idle machine first: the measuring machine was full, so {} may be its own."
_PAUSED = f"To measure it: {FLAGS['waited'].remedy}."
UNDECIDED_PAUSES = (
    "Other streams may fill these pauses: no setting with fewer streams was measured to show it."
)
_HERE, _WITH_LIMIT = "in these settings", "in settings with this limit"
BUFFER = "tcp_buffer"
_LIKE = {CONNECTION: "between_files"}  # limits of pages with the remedies of another one
_OF_THE_PATH = ("rtt", "bandwidth", "loss")  # axes that no site chooses
_BOTH_SIDES = {"cores": ", on both sides"}
"""Remark on the values of an axis that changes more than the words of its remedies name."""
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


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
        self._changes = dict[tuple[str, bool], list[AxisChanges]]()
        self._settings = tuple(
            Remedy(name_text(axis), axis)
            for axis in cells.several()
            if axis not in (*Parameters.model_fields, *LINK) and isinstance(cells.axes[axis][0], str)
        )
        """Settings of hosts, which may relieve any limit."""

    def of(self, limit: str) -> Sequence[Remedy]:
        """Return the changes that may relieve a limit; settings of hosts that change buffers stand for these."""
        known = REMEDIES.get(_LIKE.get(limit, limit), ())
        known = [remedy for remedy in known if not (remedy.axis == BUFFER and self._buffers)]
        return (*known, *(self._settings if limit else ()))

    @cached_property
    def _buffers(self) -> bool:
        """Whether a setting of hosts changes TCP's buffers, which no parameter of the sweep then does."""
        states = [state for each in self._host_changes.values() for state in each]
        return BUFFER not in self._cells.several() and any(
            state.endswith((RECEIVE, SEND)) for state in states
        )

    def effect(self, remedy: Remedy, held: Mask) -> tuple[str, Effect] | None:
        """Return a remedy's words and its effect in the settings `held`; None if it was not measured there."""
        options = self._options(remedy)
        in_parts = remedy in self._settings or self._in_blocks(remedy.axis)
        parts = self._by_value(remedy.axis, held) if in_parts else [("", held)]
        tried = self._tried(remedy)
        effects = [
            (self._words(remedy, option, old, part), effect)
            for old, part in parts
            for option in options
            if (effect := self._inside(remedy.axis, option.word, part) or self._mean(option, part, tried))
        ]
        # A word that more of these settings can change to comes before one that gains more in few of them.
        return max(effects, key=lambda each: (each[1].gain, each[1].pairs, each[1].ratio), default=None)

    def _tried(self, remedy: Remedy) -> int:
        """Return the number of changes of which one is named: of words to others, and of settings from each."""
        values = self._cells.axes.get(remedy.axis, [""])
        others = max(len(values) - 1, 1) if isinstance(values[0], str) else 1
        return others * len(values) if remedy in self._settings else others

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

    def _words(self, remedy: Remedy, option: AxisChanges, old: str, held: Mask) -> str:
        if option.word:
            before = f" instead of {old}" if old else ""
            return f"{remedy.words} ({option.word}{before}{self._on_hosts(remedy.axis, old, option.word)})"
        pairs = held & np.isfinite(option.log_ratio)
        also = redirector_words(remedy.axis, option.redirected[pairs], self._cells.redirected[pairs])
        if len(steps := self._steps(option, held)) > 1:
            return remedy.words + also
        old, new = (value_text(remedy.axis, self._cells.axes[remedy.axis][place]) for place in steps[0])
        return f"{remedy.words} ({new}{also} instead of {old}{_BOTH_SIDES.get(remedy.axis, '')})"

    def _on_hosts(self, axis: str, old: str, new: str) -> str:
        """Return the states of hosts that a setting changes, if they are recorded."""
        changed = names_only(self._host_changes.get(axis, {}), old, new)
        return f", which changes {changed}" if old and changed else ""

    def _steps(self, change: AxisChanges, held: Mask) -> list[tuple[int, int]]:
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

    def others_than(self, limit: str) -> Sequence[Remedy]:
        """Return more of each knob that is no remedy of a limit; its effect shows whether it helps all the same."""
        known = {remedy.axis for remedy in self.of(limit)}
        knobs = [name for name in KNOBS if name in self._cells.several() and name not in known]
        return [Remedy(f"more {name_text(name)}", name) for name in knobs]

    def lines(
        self, remedies: Mapping[Remedy, Mask], others: Mapping[Remedy, Mask] | None = None
    ) -> list[str]:
        """Describe remedies of some settings: gains first, then changes without a measured effect, then losses.

        Of `others`, which are no remedies, only measured effects are described.
        """
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
        for remedy, held in (others or {}).items():
            if effect := self.effect(remedy, held):
                steps.add(effect[1], effect[0], effect[1].times(_HERE))
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
                both = (
                    f"{there[1].times(_WITH_LIMIT)}; {here[1].times(FROM_HERE)}, which is not clear by itself"
                )
                steps.add(there[1], here[0], both)
            elif not here and self._is_last(remedy, cell):
                values, place = self._cells.axes[remedy.axis], self._cells.places[remedy.axis][cell]
                words = f"{remedy.words}, from {value_text(remedy.axis, values[place])} on"
                end = max if remedy.larger else min
                (steps.unknown if values[place] == end(values) else steps.untrusted).append(words)
            elif source := here or there:
                steps.add(source[1], source[0], source[1].times(FROM_HERE if here else _WITH_LIMIT))
            else:
                unknown.append(remedy)
        for remedy in unknown:
            if remedy.axis and self._gains and self._gains.axis[cell] == remedy.axis:
                steps.predicted.append(f"{remedy.words}, {self._gains.text[cell]}, by the fitted model")
            else:
                steps.add_unknown(remedy)
        for axis, effect in self._elsewhere(cell, {remedy.axis for remedy in remedies}):
            steps.add(effect, self._change_words(axis, cell), effect.times(FROM_HERE))
        return "\n".join(steps.lines())

    def _elsewhere(self, cell: int, known: Collection[str]) -> Iterator[tuple[str, Effect]]:
        """Yield the gain at the best value of each axis that no remedy names, as one origin instead of four."""
        for axis, best in self._best_values.items():
            if axis not in known and best.log_ratio[cell] > 0:
                error = float(np.hypot(best.error[cell], SCATTER_OF_PAIRS))
                effect = of_few(float(best.log_ratio[cell]), error, len(self._cells.axes[axis]) - 1)
                if effect.gain:
                    yield axis, effect

    def _change_words(self, axis: str, cell: int) -> str:
        best, values = self._best_values[axis], self._cells.axes[axis]
        ends = best.redirected[cell : cell + 1], self._cells.redirected[cell : cell + 1]
        old = value_text(axis, values[self._cells.places[axis][cell]])
        return (
            f"{self._cells.value(axis, int(best.to[cell]))}{redirector_words(axis, *ends)} instead of {old}"
        )

    @cached_property
    def _best_values(self) -> Mapping[str, AxisChanges]:
        """The changes to the fastest value of each axis that a site can choose."""
        return {
            axis: to_best(self._cells, axis)
            for axis in self._cells.several()
            if axis not in (*LINK, *_OF_THE_PATH) and not self._in_blocks(axis)
        }

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
        also = f"{redirector_words(remedy.axis, *ends)} instead of {old}{_BOTH_SIDES.get(remedy.axis, '')}"
        also += self._on_hosts(remedy.axis, old, new)
        words = f"{remedy.words} ({new}{also})"
        return words, of_few(float(best.log_ratio[cell]), error, self._tried(remedy))

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

    def _mean(self, change: AxisChanges, held: Mask, comparisons: int) -> Effect | None:
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
            effects.append(of_pairs(logs, np.hypot(own, scatter), comparisons))
        widest = max(effects, key=lambda effect: np.nan_to_num(effect.high / effect.low, nan=np.inf))
        at_rtts = self._at_rtts(change, held, change.log_ratio / size)
        return replace(widest, pairs=effects[0].pairs, step=step, at_rtts=at_rtts)

    def _at_rtts(self, change: AxisChanges, held: Mask, logs: Floats) -> str:
        """Return the geometric mean of a change at each RTT of some settings; "" for a single RTT, or very many."""
        rtts = np.unique(self._cells.places["rtt"][held]).tolist() if "rtt" in self._cells.several() else []
        if change.axis == "rtt" or not 1 < len(rtts) <= MOST_RTTS:
            return ""
        texts = []
        for place in rtts:
            ratio = float(np.exp(logs[held & (self._cells.places["rtt"] == place)].mean()))
            texts.append(f"{short(ratio)} at {value_text('rtt', self._cells.axes['rtt'][place])}")
        return ", ".join(texts)

    def _options(self, remedy: Remedy) -> Sequence[AxisChanges]:
        """Return the changes that a remedy means: to the next number, or to each of several words."""
        key = remedy.axis, remedy.larger
        if key not in self._changes:
            self._changes[key] = (
                list(to_next(self._cells, *key)) if remedy.axis in self._cells.several() else []
            )
        return self._changes[key]
