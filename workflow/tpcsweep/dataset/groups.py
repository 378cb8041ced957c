# SPDX-License-Identifier: Apache-2.0
"""Groups of a dataset that are kept on disk and written a slab at a time: none is ever in memory whole."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from tpcsweep.dataset.labels import SIMULATED, attributes_of
from tpcsweep.variables import Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

IN_MEMORY = 2**24
"""Bytes that a spool holds in memory before it takes to a file."""


class Spool:
    """Arrays of one type, kept one after the other in a temporary file that goes with the last reference to it.

    Of small sweeps no file is made.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, values: bytes) -> None:
        """Keep an array's bytes. All are to be appended before any is read."""
        self._file.write(values)
        self._ends.append(self._ends[-1] + len(values))

    def __getitem__(self, number: int) -> NDArray[Any]:
        """One of the arrays, flat."""
        self._file.seek(self._ends[number])
        return np.frombuffer(self._file.read(self._ends[number + 1] - self._ends[number]), self._dtype)


class Slab(NamedTuple):
    """A part of a variable."""

    name: str
    where: tuple[slice, ...]
    values: NDArray[Any]


class Group(ABC):
    """What cells said, in the order in which they are added.

    `coordinates` and `attributes` are to be set before anything is read.
    """

    def __init__(self, axes: Sequence[str], shape: Sequence[int], dtype: type[np.generic]) -> None:
        self.coordinates: dict[Hashable, Any] = {}
        self.attributes: Mapping[str, Any] = {}
        self._axes, self._shape = tuple(axes), tuple(shape)
        self._records = Spool(dtype)
        """An array for each cell."""

    @abstractmethod
    def outline(self) -> xr.Dataset:
        """Give coordinates, and variables without values: their shapes, types, attributes and chunks."""

    @abstractmethod
    def slabs(self) -> Iterator[Slab]:
        """Give what the variables hold; what no slab has stays empty."""

    def load(self) -> xr.Dataset:
        """Give the group in memory."""
        outline = self.outline()
        values = {str(name): np.array(variable.values) for name, variable in outline.data_vars.items()}
        for slab in self.slabs():
            values[slab.name][slab.where] = slab.values
        return outline.assign({name: outline[name].copy(data=array) for name, array in values.items()})

    def _about(self, variable: Variable) -> dict[str, str]:
        return attributes_of(variable, self.attributes.get("testbed_kind") == SIMULATED)


def empty(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """Give an array of NaN, zeros or empty texts that takes no memory, and cannot be written to."""
    value = "" if dtype is object else np.nan if np.issubdtype(dtype, np.floating) else 0
    return np.broadcast_to(np.array(value, dtype), tuple(shape))
