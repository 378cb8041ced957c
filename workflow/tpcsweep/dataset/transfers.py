# SPDX-License-Identifier: Apache-2.0
"""The group of single transfers: a table, as cells have very different numbers of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from tpcsweep.dataset.groups import Group, Slab, empty
from tpcsweep.rates import GBIT
from tpcsweep.variables import TRANSFERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DERIVED = ("cell", "startup", "sending", "total", "rate")
"""Of `variables.TRANSFERS` those that cells' files have not: the others tell them."""
_TEXTS = ("message", "xrootd_direction")
_NUMBERS = tuple(name for name in TRANSFERS if name not in (*_DERIVED, *_TEXTS))
_WHOLE: dict[str, Any] = {"stream": np.int32, "number": np.int32, "size": np.int64, "ok": np.int8}
_KINDS: dict[str, Any] = {**_WHOLE, **dict.fromkeys(_TEXTS, object), "cell": np.int64}
_SLAB = 2**16
"""Rows that are written at once, and rows of a chunk in the file."""


class Columns(NamedTuple):
    """The transfers of a cell."""

    numbers: NDArray[np.float64]
    """A row for each of _NUMBERS, NaN for None; a column for each transfer. Sizes are exact to 9 PB."""
    texts: list[list[str]]
    """A list for each of _TEXTS."""


def columns_of(transfers: Mapping[str, Sequence[Any]]) -> Columns:
    """Give the transfers of a cell's file.

    Raises:
        KeyError: for a column that is missing.
        TypeError: for what is no number, and what is no text.
        ValueError: for nothing where a number must be, and columns that differ in length.
    """
    columns = [transfers[name] for name in (*_NUMBERS, *_TEXTS)]
    if len({len(values) for values in columns}) > 1:
        raise ValueError("columns of transfers differ in length")
    for name in _WHOLE:
        if None in transfers[name]:
            raise ValueError(f"{name} of a transfer is null")
    texts = [list(transfers[name]) for name in _TEXTS]
    for name, values in zip(_TEXTS, texts, strict=True):
        if not all(isinstance(text, str) for text in values):
            raise TypeError(f"{name} of a transfer is no text")
    return Columns(np.array(columns[: len(_NUMBERS)], float), texts)


class Transfers(Group):
    """Transfers of cells, a row for each."""

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        # Of a cell: a row for each of _NUMBERS, then of _TEXTS by their places in _texts.
        super().__init__(axes, shape, np.float64)
        self._texts: dict[str, int] = {}
        self._cells = array("l")
        self._counts = array("l")

    def add(self, at: int, columns: Columns) -> None:
        """Keep the transfers of the cell at a place of the flattened grid."""
        count = columns.numbers.shape[1]
        if not count:
            return
        codes = [
            [self._texts.setdefault(text, len(self._texts)) for text in texts] for texts in columns.texts
        ]
        self._records.append(columns.numbers.tobytes() + np.array(codes, float).tobytes())
        self._cells.append(at)
        self._counts.append(count)

    def outline(self) -> xr.Dataset:
        rows = sum(self._counts)
        chunks = {"chunksizes": (max(1, min(_SLAB, rows)),)}
        content: dict[str, Any] = {}
        for name in self._axes:
            _, values, about = self.coordinates[name]
            content[name] = ("transfer", empty((rows,), values.dtype), about, chunks)
        for name, variable in TRANSFERS.items():
            values = empty((rows,), _KINDS.get(name, np.float64))
            content[name] = ("transfer", values, self._about(variable), chunks)
        return xr.Dataset(content, attrs=self.attributes)

    def slabs(self) -> Iterator[Slab]:
        """See `Group`: the rows of some cells."""
        first = cell = 0
        while cell < len(self._cells):
            last, rows = cell, 0
            while last < len(self._cells) and rows < _SLAB:
                rows += self._counts[last]
                last += 1
            for name, values in self._columns(range(cell, last)).items():
                yield Slab(name, (slice(first, first + rows),), values)
            first, cell = first + rows, last

    def _columns(self, cells: range) -> dict[str, NDArray[Any]]:
        """Every column of some cells' rows: their places on the axes, what files list, and what follows from it."""
        counts = self._counts[cells.start : cells.stop]
        records = [self._records[cell].reshape(-1, count) for cell, count in zip(cells, counts, strict=True)]
        rows: list[NDArray[Any]] = [*np.concatenate(records, axis=1)]
        columns = dict(zip((*_NUMBERS, *_TEXTS), rows, strict=True))
        texts = np.array([*self._texts], object)
        columns |= {name: texts[columns[name].astype(int)] for name in _TEXTS}
        columns |= {name: columns[name].astype(kind) for name, kind in _WHOLE.items()}
        columns["cell"] = np.repeat(np.array(self._cells[cells.start : cells.stop], np.int64), counts)
        columns["startup"] = columns["first_byte"] - columns["start"]
        columns["sending"] = columns["end"] - columns["first_byte"]
        columns["total"] = columns["end"] - columns["start"]
        columns["rate"] = columns["size"] * GBIT / np.maximum(columns["total"], 1e-9)
        for name, index in zip(self._axes, np.unravel_index(columns["cell"], self._shape), strict=True):
            columns[name] = self.coordinates[name][1][index]
        return columns
