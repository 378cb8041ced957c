# SPDX-License-Identifier: Apache-2.0
"""The group of time series. Dimensions: the axes, of what each origin has the origin, and time."""

from __future__ import annotations

import itertools
import math
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from tpcsweep.dataset.groups import Group, Slab, empty
from tpcsweep.variables import ORIGIN_SAMPLES, SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 2**18
"""The most values of a variable in one chunk of the file: 1 MB."""
_KNOWN = frozenset((*SAMPLES, *ORIGIN_SAMPLES, "time"))
_CLOCK = {"units": "s", "long_name": "time since the cell's start, to the nearest sampling interval"}


class _Layout(NamedTuple):
    """What series a cell has."""

    names: tuple[str, ...]
    """Of SAMPLES."""
    origins: tuple[int, ...]
    """For each of ORIGIN_SAMPLES how many origins have it."""

    def rows(self) -> list[tuple[str, int | None]]:
        """The series in the order in which they are kept: of each its name, and the origin that it is of."""
        of_origins = (
            (name, origin)
            for name, count in zip(ORIGIN_SAMPLES, self.origins, strict=True)
            for origin in range(count)
        )
        return [*((name, None) for name in self.names), *of_origins]


class Record(NamedTuple):
    """The samples of a cell."""

    layout: _Layout
    clock: bytes
    """Times in intervals, of 64 bits each."""
    values: bytes
    """Of 32 bits each: a row for each series of the layout, of as many as there are times."""


def record_of(samples: Mapping[str, Sequence[Any]], interval: float) -> Record:
    """Give the samples of a cell's file.

    Args:
        samples: a column for each name; of what origins have, a list of columns.
        interval: time between samples, s.

    Raises:
        KeyError: for an unknown name.
        TypeError: for what is no number.
        ValueError: for times before zero, and columns that differ in length.
    """
    # Samples are some milliseconds late; their places are whole numbers of intervals.
    index = np.rint(np.asarray(samples.get("time", ()), float) / interval).astype(np.int64)
    if np.any(index < 0):
        raise ValueError("samples have times before the cell's start")
    if unknown := samples.keys() - _KNOWN:
        raise KeyError(*sorted(unknown))
    names = tuple(name for name in SAMPLES if name in samples)
    origins = [samples.get(name, ()) for name in ORIGIN_SAMPLES]
    rows = [*(samples[name] for name in names), *itertools.chain.from_iterable(origins)]
    layout = _Layout(names, tuple(map(len, origins)))
    if any(len(row) != index.size for row in rows):
        lengths = zip(layout.rows(), map(len, rows), strict=True)
        wrong = dict.fromkeys(name for (name, _), length in lengths if length != index.size)
        raise ValueError(f"samples of {', '.join(wrong)} are not as many as times")
    packed = struct.Struct(f"{index.size}f")
    return Record(layout, index.tobytes(), b"".join(_numbers(row, packed) for row in rows))


def _numbers(row: Sequence[Any], packed: struct.Struct) -> bytes:
    """Numbers as they are, None as NaN."""
    try:
        return packed.pack(*row)  # several times as fast as numpy, but knows no None
    except struct.error:
        gaps = row.count(None)
        if not gaps:
            return array("f", row).tobytes()  # says what is no number
        values = np.full(len(row), np.nan, np.float32) if gaps == len(row) else np.array(row, np.float32)
        return values.tobytes()


class Series(Group):
    """Samples of cells, as 32-bit numbers: finer than any counter's noise.

    `interval` (s between samples) is to be set before anything is read.
    """

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        super().__init__(axes, shape, np.float32)
        self.interval = 1.0
        self._record_at = np.full(math.prod(shape), -1, np.int32)
        # Times and names of a cell's series; few differ, of 10⁵ cells too.
        self._clocks: dict[bytes, int] = {}
        self._clock_of = array("l")
        self._layouts: dict[_Layout, int] = {}
        self._layout_of = array("l")

    def add(self, at: int, record: Record) -> None:
        """Keep the samples of the cell at a place of the flattened grid."""
        self._record_at[at] = len(self._records)
        self._records.append(record.values)
        self._clock_of.append(self._clocks.setdefault(record.clock, len(self._clocks)))
        self._layout_of.append(self._layouts.setdefault(record.layout, len(self._layouts)))

    def outline(self) -> xr.Dataset:
        """See `Group`. A chunk is a block of the grid, of one origin, over all of the time."""
        times = self._places.size
        block = _box(self._shape, self._most)
        content: dict[str, Any] = {}
        for name, about in SAMPLES.items():
            chunks = {"chunksizes": (*block, max(1, times))}
            values = empty((*self._shape, times), np.float32)
            content[name] = ((*self._axes, "time"), values, self._about(about), chunks)
        for place, (name, about) in enumerate(ORIGIN_SAMPLES.items()):
            origins = max((layout.origins[place] for layout in self._layouts), default=0)
            chunks = {"chunksizes": (*block, 1, max(1, times))}
            values = empty((*self._shape, origins, times), np.float32)
            content[name] = ((*self._axes, "origin", "time"), values, self._about(about), chunks)
        time = ("time", self._places * self.interval, _CLOCK)
        return xr.Dataset(content, {**self.coordinates, "time": time}, self.attributes)

    def slabs(self) -> Iterator[Slab]:
        """See `Group`: chunks."""
        times = [_indices(np.searchsorted(self._places, clock)) for clock in self._all_clocks()]
        rows_of = [layout.rows() for layout in self._layouts]
        known = {row: place for place, row in enumerate(dict.fromkeys(itertools.chain(*rows_of)))}
        places_of = [np.array([known[row] for row in rows], int) for rows in rows_of]
        for first, last, where in blocks(self._shape, self._most):
            block = np.full((len(known), last - first, self._places.size), np.nan, np.float32)
            for point, number in enumerate(self._record_at[first:last]):
                if number < 0:
                    continue
                rows, time = places_of[self._layout_of[number]], times[self._clock_of[number]]
                values = self._records[number].reshape(rows.size, -1)
                if isinstance(time, slice):
                    block[rows, point, time] = values
                else:
                    block[rows[:, None], point, time] = values
            lengths = [part.stop - part.start for part in where]
            for (name, origin), values in zip(known, block, strict=True):
                if not np.isnan(values).all():
                    origins = () if origin is None else (slice(origin, origin + 1),)
                    shape = (*lengths, *(1 for _ in origins), -1)
                    yield Slab(name, (*where, *origins, slice(0, self._places.size)), values.reshape(shape))

    def _all_clocks(self) -> Iterator[NDArray[np.int64]]:
        return (np.frombuffer(clock, np.int64) for clock in self._clocks)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Times that occur, in intervals: long cells keep fewer samples."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *self._all_clocks()]))

    @property
    def _most(self) -> int:
        """How many points of the grid a block has at most."""
        return _CHUNK // max(1, self._places.size)


def _indices(places: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Places as a slice if they are consecutive: much faster."""
    return slice(places[0], places[-1] + 1) if places.size and (np.diff(places) == 1).all() else places


def _box(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """The shape of blocks of at most so many points: trailing axes whole, a part of one, one value of the others."""
    sizes: list[int] = []
    for size in reversed(shape):
        sizes.append(max(1, min(size, most // math.prod(sizes))))  # beyond a part of an axis that is one
    return tuple(reversed(sizes))


def blocks(shape: Sequence[int], most: int) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Divide a grid into blocks of at most so many points, in the order of the flattened grid.

    Returns:
        Of each block, which is a box in the grid, the first place and one past the last in the flattened grid, the
        last axis fastest, and the box's sides.
    """
    steps = [range(0, size, step) for size, step in zip(shape, _box(shape, most), strict=True)]
    first = 0
    for corner in itertools.product(*steps):
        sides = zip(corner, steps, shape, strict=True)
        where = tuple(slice(start, min(start + along.step, size)) for start, along, size in sides)
        last = first + math.prod(side.stop - side.start for side in where)
        yield first, last, where
        first = last
