# SPDX-License-Identifier: Apache-2.0
"""What a dataset says, in sentences, each with the cells that it stands on. Pure.

A sentence is about cells that can be trusted: that went well, have a throughput, and no flag which makes it invalid.
What is left out is counted in sentences of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import value_text
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import STATUS, describe, flagged
from tpcsweep.figures.labels import words
from tpcsweep.flags import FLAGS, graded
from tpcsweep.numbers import between, short
from tpcsweep.variables import LIMIT_NAMES

_MOST_VALUES = 6  # of an axis, which have a sentence each
_FULL = 0.95  # share of its bandwidth in payload from which on a path is called full: headers take the rest
_ALIKE = 0.03  # difference of two throughputs, as a share, up to which they are called the same


@dataclass(frozen=True)
class Sentence:
    """A sentence that is true of a dataset."""

    text: str
    cells: tuple[int, ...]
    """The cells that it stands on: their places in the flattened grid."""


@dataclass(frozen=True)
class _Cells:
    """The cells of a dataset, flattened."""

    axes: dict[str, list[Any]]
    places: dict[str, NDArray[np.intp]]
    """Of each axis the place of each cell's value."""
    throughput: NDArray[np.float64]
    """Gbit/s; NaN of cells that cannot be trusted."""
    limit: NDArray[Any]
    """Empty of such cells, and where it was not judged."""

    def axis(self, name: str, place: int) -> str:
        value = self.axes[name][place]
        text = value_text(name, value)
        if isinstance(value, str) or describe(name).units not in ("1", "cores") or name == REPETITION:
            return f"{words(name)} {text}"
        return f"{text} {words(name).removesuffix('s') if value == 1 else words(name)}"

    def where(self, cell: int) -> str:
        """The values of the axes that have several, for people."""
        several = [name for name, values in self.axes.items() if len(values) > 1]
        return ", ".join(self.axis(name, int(self.places[name][cell])) for name in several)

    def several(self) -> list[str]:
        """The axes with two values or more, repetitions aside."""
        return [name for name, values in self.axes.items() if len(values) > 1 and name != REPETITION]


def findings(summary: xr.Dataset) -> list[Sentence]:
    """Say what a dataset shows, the most important first."""
    cells = _cells(summary)
    return [
        *_highest(cells, summary),
        *_bound(cells),
        *_effects(cells),
        *_full(cells, summary),
        *_doubts(summary),
        *_holes(summary),
    ]


def _cells(summary: xr.Dataset) -> _Cells:
    throughput = summary["throughput"]
    invalid = xr.zeros_like(summary["flags"], bool)
    for flag in graded(FLAGS, "invalid"):
        invalid = invalid | flagged(summary, flag)
    trusted = ((summary["status"] == STATUS.index("ok")) & ~invalid).values.ravel()
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
    where = f", with {cells.where(best)}" if cells.where(best) else ""
    yield Sentence(
        f"The highest throughput is {short(cells.throughput[best])} Gbit/s{interval}{where}.", (best,)
    )


def _bound(cells: _Cells) -> Iterator[Sentence]:
    """What binds with each value of the axis that limits are most about: cores, where these vary."""
    judged = cells.limit != ""
    if not judged.any():
        return
    several = cells.several()
    axis = next((name for name in ("cores", "rtt", "streams", *several) if name in several), None)
    if axis is None or len(cells.axes[axis]) > _MOST_VALUES:
        yield _most_often("", judged, cells)
        return
    for place in range(len(cells.axes[axis])):
        of_value = judged & (cells.places[axis] == place)
        if not of_value.any():
            continue
        with_value = f"With {cells.axis(axis, place)} "
        yield _from_streams(with_value, of_value, cells) or _most_often(with_value, of_value, cells)


def _from_streams(with_value: str, of_value: NDArray[np.bool_], cells: _Cells) -> Sentence | None:
    """The smallest number of streams from which on all cells are bound by the same, if two or more of these are."""
    streams = cells.places.get("streams", np.zeros(len(of_value), np.intp))
    most = streams[of_value].max()
    (limit, *others) = set(cells.limit[of_value & (streams == most)])
    bound_otherwise = streams[of_value & (cells.limit != limit)]
    held = of_value & (streams > bound_otherwise.max(initial=-1))
    if others or len(set(streams[held])) < 2:
        return None
    since = f" from {cells.axes['streams'][streams[held].min()]} streams on" if bound_otherwise.size else ""
    return Sentence(
        f"{with_value}{LIMIT_NAMES[limit]} binds every cell{since} ({held.sum()} cells).", _places(held)
    )


def _most_often(with_value: str, of_value: NDArray[np.bool_], cells: _Cells) -> Sentence:
    names, counts = np.unique(cells.limit[of_value], return_counts=True)
    most = names[counts.argmax()]
    often = f"{LIMIT_NAMES[most]} binds most often: {counts.max()} of {of_value.sum()} cells"
    text = f"{with_value}{often}." if with_value else f"{often[0].upper()}{often[1:]}."
    return Sentence(text, _places(of_value & (cells.limit == most)))


def _effects(cells: _Cells) -> Iterator[Sentence]:
    """What the last value of an axis does to the throughput of the first, over cells that differ in nothing else."""
    shape = tuple(map(len, cells.axes.values()))
    throughput, number = cells.throughput.reshape(shape), np.arange(len(cells.throughput)).reshape(shape)
    for axis in cells.several():
        values = cells.axes[axis]
        if isinstance(values[0], str) and len(values) > 2:  # words have no order
            continue
        dimension = list(cells.axes).index(axis)
        first, last = throughput.take(0, dimension).ravel(), throughput.take(-1, dimension).ravel()
        pairs = (first > 0) & np.isfinite(last)
        if not pairs.any():
            continue
        ratios = last[pairs] / first[pairs]
        instead = f"With {cells.axis(axis, len(values) - 1)} instead of {value_text(axis, values[0])}"
        median = float(np.median(ratios))
        same = abs(median - 1) < _ALIKE
        times = f"the same within {100 * _ALIKE:.0f} %" if same else f"{short(median, 2)} times as high"
        if pairs.sum() > 1:
            spread = f"{between(ratios.min(), ratios.max(), 2)} times"
            times += f" in the median of {pairs.sum()} pairs of cells that differ in nothing else ({spread})"
        held = np.concatenate([number.take(at, dimension).ravel()[pairs] for at in (0, -1)])
        yield Sentence(f"{instead} throughput is {times}.", tuple(sorted(held.tolist())))


def _full(cells: _Cells, summary: xr.Dataset) -> Iterator[Sentence]:
    known = np.isfinite(cells.throughput)
    if "bandwidth" not in summary.coords or summary["bandwidth"].ndim or not known.any():
        return
    bandwidth = float(summary["bandwidth"])
    if not np.isfinite(bandwidth):
        return
    full = known & (cells.throughput >= _FULL * bandwidth)
    path = f"the path's {value_text('bandwidth', bandwidth)}"
    if full.any():
        text = f"{full.sum()} of {known.sum()} cells bring payload at {100 * _FULL:.0f} % or more of {path}."
        yield Sentence(text, _places(full))
    else:
        best = int(np.nanargmax(cells.throughput))
        share = cells.throughput[best] / bandwidth
        yield Sentence(f"No cell fills {path}: the highest has {short(share, 2)} of it.", (best,))


def _doubts(summary: xr.Dataset) -> Iterator[Sentence]:
    measured = (summary["status"] != STATUS.index("not_measured")).values.ravel()
    held = {
        flag: flagged(summary, flag).values.ravel() & measured for flag in graded(FLAGS, "warning", "invalid")
    }
    doubtful = np.any(list(held.values()), axis=0)
    if not measured.any():
        return
    if not doubtful.any():
        yield Sentence(f"None of {measured.sum()} cells carries a warning.", ())
        return
    counts = sorted(((int(which.sum()), flag) for flag, which in held.items() if which.any()), reverse=True)
    which = ", ".join(f"{FLAGS[flag].words} ({count})" for count, flag in counts)
    text = f"{doubtful.sum()} of {measured.sum()} cells carry a warning or are invalid: {which}."
    yield Sentence(text, _places(doubtful))


def _holes(summary: xr.Dataset) -> Iterator[Sentence]:
    status = summary["status"].values.ravel()
    for name, said in (("failed", "failed"), ("not_measured", "were not measured")):
        if (which := status == STATUS.index(name)).any():
            yield Sentence(f"{which.sum()} of {len(status)} cells {said}.", _places(which))


def _places(which: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(which).tolist())
