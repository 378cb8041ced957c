# SPDX-License-Identifier: Apache-2.0
"""Findings of a dataset in at most seven sentences, each with its cells; pure functions.

Sentences describe successful cells without warnings or invalid figures. Separate sentences count the other cells.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.claims.effects import mean_ratio
from tpcsweep.configuration.parameters import value_text
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import STATUS, describe, flagged
from tpcsweep.figures.labels import name_text
from tpcsweep.flags import FLAGS, graded
from tpcsweep.numbers import between, short
from tpcsweep.pages.forecast import Gains, percent_more
from tpcsweep.variables import LIMIT_NAMES, LIMIT_REMEDIES

_MOST_LIMITS = 3  # limits of a dataset that have a sentence each
_MANY_DISTURBED = 0.2  # share of measured cells above which the page starts with a warning
_OF_THE_MACHINE = ("disturbed", "machine_saturated")


@dataclass(frozen=True)
class Sentence:
    text: str
    cells: tuple[int, ...]  # indices in the flattened grid of the cells that it describes


@dataclass(frozen=True)
class _Cells:
    axes: dict[str, list[Any]]
    places: dict[str, NDArray[np.intp]]  # index of each cell's value, by axis
    throughput: NDArray[np.float64]  # Gbit/s; NaN for cells that cannot be trusted
    limit: NDArray[Any]  # limit of each cell; "" if the cell cannot be trusted or was not judged

    def axis(self, name: str, place: int) -> str:
        value = self.axes[name][place]
        text = value_text(name, value)
        if isinstance(value, str) or describe(name).units not in ("1", "cores") or name == REPETITION:
            return f"{name_text(name)} {text}"
        return f"{text} {name_text(name).removesuffix('s') if value == 1 else name_text(name)}"

    def where(self, cell: int) -> str:
        """Return the cell's values on axes with several values, as text."""
        several = [name for name, values in self.axes.items() if len(values) > 1]
        return ", ".join(self.axis(name, int(self.places[name][cell])) for name in several)

    def several(self) -> list[str]:
        return [name for name, values in self.axes.items() if len(values) > 1 and name != REPETITION]


def findings(summary: xr.Dataset, gains: Gains | None = None) -> list[Sentence]:
    """Return the findings of a dataset, most important first; `gains` are those of the fitted model."""
    cells = _cells(summary)
    return [
        *_highest(cells, summary),
        *_limits(cells, gains),
        *_effects(cells),
        *_doubts(summary),
        *_holes(summary),
    ]


def disturbance(summary: xr.Dataset) -> str:
    """Return a warning if the machine was busy or slow during more than a fifth of measured cells, or ""."""
    measured = summary["status"] != STATUS.index("not_measured")
    which = {flag: flagged(summary, flag) & measured for flag in _OF_THE_MACHINE}
    count, every = int(np.any([held.values for held in which.values()], axis=0).sum()), int(measured.sum())
    if count <= _MANY_DISTURBED * every:
        return ""
    named = ", ".join(
        f"{FLAGS[flag].words} ({int(held.sum())})" for flag, held in which.items() if held.any()
    )
    return (
        f"The machine was busy or slow during {count} of {every} cells: {named}. Their throughput is that of the "
        "machine, not of the setting. Measure them again on an idle machine, or with fewer cores and a slower path."
    )


def doubtful(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells carry a warning or are invalid, flattened."""
    return np.asarray(flagged(summary, *graded(FLAGS, "warning", "invalid")).values.ravel())


def _cells(summary: xr.Dataset) -> _Cells:
    throughput = summary["throughput"]
    trusted = (summary["status"] == STATUS.index("ok")).values.ravel() & ~doubtful(summary)
    places = np.indices(throughput.shape).reshape(throughput.ndim, -1)
    return _Cells(
        {str(name): summary[name].values.tolist() for name in throughput.dims},
        {str(name): place for name, place in zip(throughput.dims, places, strict=True)},
        np.where(trusted, throughput.values.ravel(), np.nan),
        np.where(trusted, summary["limit"].values.ravel(), ""),
    )


def _highest(cells: _Cells, summary: xr.Dataset) -> Iterator[Sentence]:
    if np.isnan(cells.throughput).all():
        return
    best = int(np.nanargmax(cells.throughput))
    low, high = (float(summary[f"throughput_{end}"].values.ravel()[best]) for end in ("low", "high"))
    interval = f" ({between(max(low, 0), high)})" if np.isfinite(low + high) else ""
    bandwidth = (
        float(summary["bandwidth"]) if "bandwidth" in summary and not summary["bandwidth"].ndim else np.inf
    )
    share = f"{short(100 * cells.throughput[best] / bandwidth, 2)} %"
    full = f", {share} of the path's {value_text('bandwidth', bandwidth)}" if np.isfinite(bandwidth) else ""
    where = f", with {cells.where(best)}" if cells.where(best) else ""
    text = f"The highest throughput is {short(cells.throughput[best])} Gbit/s{interval}{full}{where}."
    yield Sentence(text, (best,))


def _limits(cells: _Cells, gains: Gains | None) -> Iterator[Sentence]:
    """Yield a sentence for each of the most frequent limits: number of cells, region and remedy."""
    judged = cells.limit != ""
    if not judged.any():
        if np.isfinite(cells.throughput).any():
            yield Sentence("The dataset does not record what limited its cells.", ())
        return
    names, counts = np.unique(cells.limit[judged], return_counts=True)
    for limit in names[np.argsort(-counts, kind="stable")][:_MOST_LIMITS].tolist():
        held = cells.limit == limit
        name = LIMIT_NAMES[limit]
        text = f"{name[0].upper()}{name[1:]} limits {_region(held, judged, cells)}"
        remedy = f": {LIMIT_REMEDIES[limit]}" if LIMIT_REMEDIES[limit] else ""
        yield Sentence(f"{text}{remedy}{_gain(held, gains)}.", _places(held))


def _gain(held: NDArray[np.bool_], gains: Gains | None) -> str:
    known = np.flatnonzero(held & np.isfinite(gains.factor)) if gains else np.array([], int)
    if gains is None or not known.size:
        return ""
    axes, counts = np.unique(gains.axis[known], return_counts=True)
    axis = axes[counts.argmax()]
    median = float(np.median(gains.factor[known][gains.axis[known] == axis]))
    return f"; {name_text(str(axis))} alone would bring {percent_more(median)} in the median, by the fitted model"


def _region(held: NDArray[np.bool_], judged: NDArray[np.bool_], cells: _Cells) -> str:
    """Describe the number of cells, and the box of the grid that contains most of them."""
    ends = _box(held, judged, cells)
    box = judged & _within(ends, cells)
    count, inside, size = held.sum(), (held & box).sum(), box.sum()
    ranges = [text for name in cells.several() if (text := _range(name, ends.get(name), cells))]
    if not ranges:
        return "every cell" if count == judged.sum() else f"{count} of {judged.sum()} cells"
    where = f"with {' and '.join(ranges)}"
    if inside < count:
        among = "all" if inside == size else f"{inside} of the {size}"
        return f"{count} of {judged.sum()} cells, {among} {where} among them"
    return f"every cell {where} ({size} cells)" if inside == size else f"{count} of the {size} cells {where}"


def _box(held: NDArray[np.bool_], judged: NDArray[np.bool_], cells: _Cells) -> Mapping[str, tuple[int, int]]:
    """Return the ends, on each ordered axis, of a box that loses outermost values while its F-measure improves."""
    ordered = [name for name in cells.several() if not isinstance(cells.axes[name][0], str)]
    ends = {name: (0, len(cells.axes[name]) - 1) for name in ordered}

    def quality(ends: Mapping[str, tuple[int, int]]) -> float:
        box = judged & _within(ends, cells)
        return float(2 * (held & box).sum() / (held.sum() + box.sum()))

    while True:
        smaller = [
            {**ends, name: end}
            for name, (first, last) in ends.items()
            if first < last
            for end in ((first + 1, last), (first, last - 1))
        ]
        best = max(smaller, key=quality, default=ends)
        if quality(best) <= quality(ends):
            return ends
        ends = best


def _within(ends: Mapping[str, tuple[int, int]], cells: _Cells) -> NDArray[np.bool_]:
    inside = np.ones(len(cells.throughput), bool)
    for name, (first, last) in ends.items():
        inside &= (cells.places[name] >= first) & (cells.places[name] <= last)
    return inside


def _range(name: str, ends: tuple[int, int] | None, cells: _Cells) -> str:
    first, last = ends or (0, len(cells.axes[name]) - 1)
    if (first, last) == (0, len(cells.axes[name]) - 1):
        return ""
    if first == last:
        return cells.axis(name, first)
    if first == 0:
        return f"up to {cells.axis(name, last)}"
    if last == len(cells.axes[name]) - 1:
        return f"{cells.axis(name, first)} or more"
    return f"{value_text(name, cells.axes[name][first])} to {cells.axis(name, last)}"


def _effects(cells: _Cells) -> Iterator[Sentence]:
    """Compare throughput at the last and first value of each axis, over settings that differ in nothing else.

    Repetitions of a setting count once, by the mean of their logarithms.
    """
    shape = tuple(map(len, cells.axes.values()))
    number = np.arange(len(cells.throughput)).reshape(shape)
    logs = np.ma.log(cells.throughput.reshape(shape))  # masked without a positive number
    settings = logs.mean(list(cells.axes).index(REPETITION), keepdims=True)
    texts, held = [], set[int]()
    for axis in cells.several():
        values = cells.axes[axis]
        if isinstance(values[0], str) and len(values) > 2:  # words have no order
            continue
        dimension, ends = list(cells.axes).index(axis), [0, -1]
        first, last = (np.ma.take(settings, [end], dimension) for end in ends)
        change = last - first
        count = int(change.count())
        if not count:
            continue
        interval = mean_ratio(np.exp(change.compressed()), np.nan)
        sure = f"{between(interval.low, interval.high, 2)}, " if interval else ""
        instead = f"{cells.axis(axis, len(values) - 1)} instead of {value_text(axis, values[0])}"
        times = f"{short(float(np.exp(change.mean())), 2)} times"
        texts.append(f"{instead}: {times} ({sure}{count} pair{'s' * (count > 1)})")
        masked = np.ma.getmaskarray(change) | np.ma.getmaskarray(logs).take(ends, dimension)
        held.update(number.take(ends, dimension)[~masked].tolist())
    if texts:
        start = "Throughput changes in the geometric mean of settings that differ in nothing else (95 % intervals):"
        yield Sentence(f"{start} {'; '.join(texts)}.", tuple(sorted(held)))


def _doubts(summary: xr.Dataset) -> Iterator[Sentence]:
    measured = (summary["status"] != STATUS.index("not_measured")).values.ravel()
    loud = graded(FLAGS, "warning", "invalid")
    found = ((int((flagged(summary, flag).values.ravel() & measured).sum()), flag) for flag in loud)
    counts = sorted(filter(lambda pair: pair[0], found), reverse=True)
    held = doubtful(summary) & measured
    if not measured.any():
        return
    if not counts:
        yield Sentence(f"All {measured.sum()} cells are without a warning.", ())
        return
    which = ", ".join(f"{FLAGS[flag].words} ({count})" for count, flag in counts)
    text = f"{held.sum()} of {measured.sum()} cells carry a warning or are invalid, and are not counted above: {which}."
    yield Sentence(text, _places(held))


def _holes(summary: xr.Dataset) -> Iterator[Sentence]:
    status = summary["status"].values.ravel()
    names = {"failed": "failed", "not_measured": "were not measured"}
    counts = [(int((status == STATUS.index(name)).sum()), text) for name, text in names.items()]
    said = " and ".join(f"{count} {text}" for count, text in counts if count)
    if said:
        yield Sentence(f"{len(status)} cells: {said}.", _places(status != STATUS.index("ok")))


def _places(which: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(which).tolist())
