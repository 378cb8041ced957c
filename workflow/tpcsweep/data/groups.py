# SPDX-License-Identifier: Apache-2.0
"""Groups of time series and of transfers, kept on disk and written in slabs to save memory."""

import itertools
import math
import pickle
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import GBIT
from tpcsweep.data.labels import SIMULATED, variable_attributes
from tpcsweep.data.variables import ORIGIN_SAMPLES, SAMPLES, TRANSFERS, Variable

_IN_MEMORY = 2**24  # bytes that a spool holds in memory before it uses a file
_CHUNK = 2**18  # values of a time series in one chunk of the file: 1 MB
_SLAB = 2**16  # transfers that are written at once, and transfers in a chunk of the file

_ALL_SAMPLES = SAMPLES | ORIGIN_SAMPLES
_CLOCK = {
    "units": "s",
    "long_name": "time",
    "comment": "time since the cell's start, to the nearest sampling interval",
}

_TEXTS = tuple(name for name, column in TRANSFERS.items() if not column.units)
_NUMBERS = tuple(name for name, column in TRANSFERS.items() if column.units and column.source != "fold")
_WHOLE: dict[str, Any] = {"stream": np.int32, "number": np.int32, "size": np.int64, "ok": np.int8}
_KINDS: dict[str, Any] = {**_WHOLE, **dict.fromkeys(_TEXTS, object), "cell": np.int64}


class Spool:
    """Records in a temporary file, which the last reference deletes; append all before reading any."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._places = array("q")

    def __len__(self) -> int:
        return len(self._places)

    def append(self, record: Any) -> None:
        self._places.append(self._file.tell())
        pickle.dump(record, self._file, pickle.HIGHEST_PROTOCOL)

    def __getitem__(self, number: int) -> Any:
        self._file.seek(self._places[number])
        return pickle.load(self._file)  # noqa: S301 - this process wrote it


Slab: TypeAlias = "tuple[str, tuple[slice, ...], NDArray[Any]]"
"""Part of a variable: its name, its position, and its values."""


class DatasetGroup(ABC):
    """Group of a dataset, with cells in the order of adding; set `coordinates` and `attributes` first."""

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self.coordinates: dict[Hashable, Any] = {}
        self.attributes: Mapping[str, Any] = {}
        self._axes, self._shape = tuple(axes), tuple(shape)
        self._records = Spool()

    @abstractmethod
    def outline(self) -> xr.Dataset:
        """Return coordinates, and variables without values: their shapes, types, attributes and chunks."""

    @abstractmethod
    def slabs(self) -> Iterator[Slab]:
        """Yield the values of the variables; the rest of a variable stays empty."""

    def load(self) -> xr.Dataset:
        outline = self.outline()
        values = {str(name): np.array(variable.values) for name, variable in outline.data_vars.items()}
        for name, where, part in self.slabs():
            values[name][where] = part
        return outline.assign({name: outline[name].copy(data=array) for name, array in values.items()})

    def _about(self, name: str, variable: Variable) -> dict[str, str]:
        return variable_attributes(name, variable, self.attributes.get("testbed_kind") == SIMULATED)


def _empty(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """Return a read-only array of NaN, zeros or empty texts that needs no memory."""
    value = "" if dtype is object else np.nan if np.issubdtype(dtype, np.floating) else 0
    return np.broadcast_to(np.array(value, dtype), tuple(shape))


# --- time series: dimensions are the axes, the origin for series of each origin, and time

_Name = tuple[str, int | None]
"""Time series: its variable, and the origin if the variable is one of ORIGIN_SAMPLES."""


class Record(NamedTuple):
    names: tuple[_Name, ...]
    clock: bytes  # times in intervals, 64 bits each
    values: NDArray[np.float32]  # one row for each name, one column for each time


def cell_samples(samples: Mapping[str, Sequence[Any]], interval: float) -> Record:
    """Return the samples of a cell's file, by columns; names of ORIGIN_SAMPLES have a list of columns.

    Raises KeyError if a name is unknown, TypeError or ValueError if a value is no number, a time is negative, or
    columns differ in length.
    """
    # Samples are some milliseconds late; their places are whole numbers of intervals.
    index = np.rint(np.asarray(samples.get("time", ()), float) / interval).astype(np.int64)
    if np.any(index < 0):
        raise ValueError("samples have times before the cell's start")
    if unknown := samples.keys() - {*_ALL_SAMPLES, "time"}:
        raise KeyError(*sorted(unknown))
    rows: dict[_Name, Sequence[Any]] = {(name, None): samples[name] for name in SAMPLES if name in samples}
    for name in ORIGIN_SAMPLES:
        rows |= {(name, origin): column for origin, column in enumerate(samples.get(name, ()))}
    if wrong := dict.fromkeys(name for (name, _), row in rows.items() if len(row) != index.size):
        raise ValueError(f"samples of {', '.join(wrong)} are not as many as times")
    values = np.array(list(rows.values()), np.float32)  # null becomes NaN
    return Record(tuple(rows), index.tobytes(), values.reshape(len(rows), -1))


class Series(DatasetGroup):
    """Samples of cells as 32-bit numbers, finer than counter noise. Set `interval` (s) before reading."""

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        super().__init__(axes, shape)
        self.interval = 1.0
        self._record_at = np.full(math.prod(shape), -1, np.int32)
        # Few differ, even among 10⁵ cells.
        self._names: dict[tuple[_Name, ...], None] = {}
        self._clocks: set[bytes] = set()

    def add(self, at: int, record: Record) -> None:
        self._record_at[at] = len(self._records)
        self._records.append(record)
        self._names[record.names] = None
        self._clocks.add(record.clock)

    def outline(self) -> xr.Dataset:
        times = self._places.size
        block = _box(self._shape, self._most)  # a chunk contains one origin and all times
        origins = dict.fromkeys(ORIGIN_SAMPLES, 0)
        for name, origin in itertools.chain(*self._names):
            if origin is not None:
                origins[name] = max(origins[name], origin + 1)
        content: dict[str, Any] = {}
        for name, about in _ALL_SAMPLES.items():
            extra = (origins[name],) if name in origins else ()
            dimensions = (*self._axes, *("origin" for _ in extra), "time")
            chunks = {"chunksizes": (*block, *(1 for _ in extra), max(1, times))}
            values = _empty((*self._shape, *extra, times), np.float32)
            content[name] = (dimensions, values, self._about(name, about), chunks)
        time = ("time", self._places * self.interval, _CLOCK)
        return xr.Dataset(content, {**self.coordinates, "time": time}, self.attributes)

    def slabs(self) -> Iterator[Slab]:
        known = {one: row for row, one in enumerate(dict.fromkeys(itertools.chain(*self._names)))}
        rows_of = {names: np.array([known[one] for one in names], int) for names in self._names}
        times_of = {one: np.searchsorted(self._places, np.frombuffer(one, np.int64)) for one in self._clocks}
        for first, last, where in blocks(self._shape, self._most):
            block = np.full((len(known), last - first, self._places.size), np.nan, np.float32)
            for point, number in enumerate(self._record_at[first:last]):
                if number >= 0:
                    record = self._records[number]
                    rows, times = rows_of[record.names], times_of[record.clock]
                    block[rows[:, None], point, times] = record.values
            lengths = [part.stop - part.start for part in where]
            for (name, origin), values in zip(known, block, strict=True):
                if not np.isnan(values).all():
                    origins = () if origin is None else (slice(origin, origin + 1),)
                    shape = (*lengths, *(1 for _ in origins), -1)
                    yield name, (*where, *origins, slice(0, self._places.size)), values.reshape(shape)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Times that occur, in intervals; long cells keep fewer samples."""
        return np.unique(np.frombuffer(b"".join(self._clocks), np.int64))

    @property
    def _most(self) -> int:
        return _CHUNK // max(1, self._places.size)


def _box(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the shape of blocks of up to `most` points: trailing axes whole, then one in part."""
    sizes: list[int] = []
    for size in reversed(shape):
        sizes.append(max(1, min(size, most // math.prod(sizes))))  # one, beyond the axis that is divided
    return tuple(reversed(sizes))


def blocks(shape: Sequence[int], most: int) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Divide a grid into boxes of at most `most` points, in the order of the flattened grid.

    Yields:
        The box's first index and one past its last in the flattened grid (last axis fastest), and its slices.
    """
    steps = [range(0, size, step) for size, step in zip(shape, _box(shape, most), strict=True)]
    first = 0
    for corner in itertools.product(*steps):
        sides = zip(corner, steps, shape, strict=True)
        where = tuple(slice(start, min(start + along.step, size)) for start, along, size in sides)
        last = first + math.prod(side.stop - side.start for side in where)
        yield first, last, where
        first = last


# --- single transfers: a table, because cells have very different numbers of them


class Columns(NamedTuple):
    numbers: NDArray[np.float64]
    """One row for each of _NUMBERS (None is NaN), one column for each transfer. Sizes are exact to 9 PB."""
    texts: list[Sequence[str]]  # one list for each of _TEXTS


def cell_transfers(transfers: Mapping[str, Sequence[Any]]) -> Columns:
    """Return the transfers of a cell's file.

    Raises KeyError if a column is missing, TypeError or ValueError if a value has the wrong type, a number is missing,
    or columns differ in length.
    """
    columns = [transfers[name] for name in (*_NUMBERS, *_TEXTS)]
    if len({len(values) for values in columns}) > 1:
        raise ValueError("columns of transfers differ in length")
    for name in _WHOLE:
        if None in transfers[name]:
            raise ValueError(f"{name} of a transfer is null")
    return Columns(np.array(columns[: len(_NUMBERS)], float), columns[len(_NUMBERS) :])


class TransferTable(DatasetGroup):
    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        super().__init__(axes, shape)
        self._cells = array("l")
        self._counts = array("l")

    def add(self, at: int, columns: Columns) -> None:
        if count := columns.numbers.shape[1]:
            self._records.append(columns)
            self._cells.append(at)
            self._counts.append(count)

    def outline(self) -> xr.Dataset:
        rows = sum(self._counts)
        chunks = {"chunksizes": (max(1, min(_SLAB, rows)),)}
        content: dict[str, Any] = {}
        for name in self._axes:
            _, values, about = self.coordinates[name]
            content[name] = ("transfer", _empty((rows,), values.dtype), about, chunks)
        for name, variable in TRANSFERS.items():
            values = _empty((rows,), _KINDS.get(name, np.float64))
            content[name] = ("transfer", values, self._about(name, variable), chunks)
        return xr.Dataset(content, attrs=self.attributes)

    def slabs(self) -> Iterator[Slab]:
        first = cell = 0
        while cell < len(self._cells):
            last, rows = cell, 0
            while last < len(self._cells) and rows < _SLAB:
                rows += self._counts[last]
                last += 1
            for name, values in self._columns(range(cell, last)).items():
                yield name, (slice(first, first + rows),), values
            first, cell = first + rows, last

    def _columns(self, cells: range) -> dict[str, NDArray[Any]]:
        counts = self._counts[cells.start : cells.stop]
        records = [self._records[cell] for cell in cells]
        numbers: list[NDArray[Any]] = [*np.concatenate([record.numbers for record in records], axis=1)]
        columns = dict(zip(_NUMBERS, numbers, strict=True))
        for place, name in enumerate(_TEXTS):
            texts = itertools.chain.from_iterable(record.texts[place] for record in records)
            columns[name] = np.array([*texts], object)
        columns |= {name: columns[name].astype(kind) for name, kind in _WHOLE.items()}
        columns["cell"] = np.repeat(np.array(self._cells[cells.start : cells.stop], np.int64), counts)
        columns["startup"] = columns["first_byte"] - columns["start"]
        columns["sending"] = columns["end"] - columns["first_byte"]
        columns["total"] = columns["end"] - columns["start"]
        columns["rate"] = columns["size"] * GBIT / np.maximum(columns["total"], 1e-9)
        for name, index in zip(self._axes, np.unravel_index(columns["cell"], self._shape), strict=True):
            columns[name] = self.coordinates[name][1][index]
        return columns
