"""The group of time series. Dimensions: the axes, of what each origin has the origin, and time."""

from __future__ import annotations

import itertools
import math
import struct
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from tpcsweep.dataset.labels import SIMULATED, attributes_of
from tpcsweep.dataset.slabs import Slab, blocks, box, empty
from tpcsweep.dataset.spool import Spool
from tpcsweep.variables import ORIGIN_SAMPLES, SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 2**18
"""The most values of a variable in one chunk of the file: 1 MB."""
_KNOWN = frozenset((*SAMPLES, *ORIGIN_SAMPLES, "time"))
_CLOCK = {"units": "s", "long_name": "time since the cell's start, to the nearest sampling interval"}


class _Row(NamedTuple):
    """One series of a cell."""

    name: str
    origin: int | None = None


class _Layout(NamedTuple):
    """What series a cell has."""

    names: tuple[str, ...]
    """Of SAMPLES."""
    origins: tuple[int, ...]
    """For each of ORIGIN_SAMPLES how many origins have it."""

    def rows(self) -> list[_Row]:
        """The series in the order in which they are kept."""
        found = [_Row(name) for name in self.names]
        for name, count in zip(ORIGIN_SAMPLES, self.origins, strict=True):
            found += [_Row(name, origin) for origin in range(count)]
        return found


class Record(NamedTuple):
    """The samples of a cell."""

    layout: _Layout
    clock: bytes
    """Times in intervals, of 64 bits each."""
    values: bytes
    """Of 32 bits each: a row for each series of the layout, of as many as there are times."""


def record_of(samples: Mapping[str, Sequence[Any]], interval: float) -> Record:
    """Give the samples of a cell's file. interval: s between samples.

    Raises:
        KeyError: for an unknown name.
        TypeError, ValueError: for what is no number, times before zero, and columns that differ in length.
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
        lengths = zip((row.name for row in layout.rows()), map(len, rows), strict=True)
        wrong = dict.fromkeys(name for name, length in lengths if length != index.size)
        raise ValueError(f"samples of {', '.join(wrong)} are not as many as times")
    packed = struct.Struct(f"{index.size}f")
    return Record(layout, index.tobytes(), b"".join(_numbers(row, packed) for row in rows))


def _indices(places: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Places as a slice if they are consecutive: much faster."""
    return slice(places[0], places[-1] + 1) if places.size and (np.diff(places) == 1).all() else places


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


class Series:
    """Samples of cells, as 32-bit numbers: finer than any counter's noise.

    coordinates, attributes and interval (s between samples) are to be set before anything is read.
    """

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self.coordinates: dict[Hashable, Any] = {}
        self.attributes: Mapping[str, Any] = {}
        self.interval = 1.0
        self._axes, self._shape = tuple(axes), tuple(shape)
        self._records = Spool(np.float32)  # of a cell: a row for each series that it has
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
        """See `slabs.Group`. A chunk is a block of the grid, of one origin, over all of the time."""
        time = ("time", self._places * self.interval, _CLOCK)
        block = box(self._shape, self._most)
        content: dict[str, Any] = {}
        simulated = self.attributes.get("testbed_kind") == SIMULATED
        for name, about in (SAMPLES | ORIGIN_SAMPLES).items():
            several = name in ORIGIN_SAMPLES
            dimensions = (*self._axes, "origin", "time") if several else (*self._axes, "time")
            shape = (*self._shape, *self._origins(name), self._places.size)
            chunks = (*block, *([1] if several else []), max(1, self._places.size))
            content[name] = (
                dimensions,
                empty(shape, np.float32),
                attributes_of(about, simulated),
                {"chunksizes": chunks},
            )
        return xr.Dataset(content, {**self.coordinates, "time": time}, self.attributes)

    def slabs(self) -> Iterator[Slab]:
        """See `slabs.Group`: chunks."""
        times = [
            _indices(np.searchsorted(self._places, np.frombuffer(one, np.int64))) for one in self._clocks
        ]
        known = {
            row: place for place, row in enumerate({row: None for one in self._layouts for row in one.rows()})
        }
        rows_of = [np.array([known[row] for row in one.rows()], int) for one in self._layouts]
        for block in blocks(self._shape, self._most):
            found = np.full((len(known), block.size, self._places.size), np.nan, np.float32)
            for point, number in enumerate(self._record_at[block.first : block.last]):
                if number < 0:
                    continue
                rows, time = rows_of[self._layout_of[number]], times[self._clock_of[number]]
                values = self._records[number].reshape(rows.size, -1)
                if isinstance(time, slice):
                    found[rows, point, time] = values
                else:
                    found[rows[:, None], point, time] = values
            for row, values in zip(known, found, strict=True):
                if not np.isnan(values).all():
                    one = () if row.origin is None else (slice(row.origin, row.origin + 1),)
                    where = (*block.where, *one, slice(0, self._places.size))
                    yield Slab(row.name, where, values.reshape(*block.shape, *(1 for _ in one), -1))

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Times that occur, in intervals: long cells keep fewer samples."""
        known = [np.frombuffer(one, np.int64) for one in self._clocks]
        return np.unique(np.concatenate([np.empty(0, np.int64), *known]))

    def _origins(self, name: str) -> tuple[int, ...]:
        """The size of a variable's dimension of origins, if it has one."""
        if name not in ORIGIN_SAMPLES:
            return ()
        place = list(ORIGIN_SAMPLES).index(name)
        return (max((layout.origins[place] for layout in self._layouts), default=0),)

    @property
    def _most(self) -> int:
        """How many points of the grid a block has at most."""
        return _CHUNK // max(1, self._places.size)
