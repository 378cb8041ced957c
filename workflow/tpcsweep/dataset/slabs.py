"""Groups of a dataset that are made and written a slab at a time, so that none need ever be in memory whole."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Slab(NamedTuple):
    """A part of a variable."""

    name: str
    where: tuple[slice, ...]
    values: NDArray[Any]


class Group(Protocol):
    """A group that comes in slabs."""

    def outline(self) -> xr.Dataset:
        """Coordinates, and variables without values (see `empty`): their shape, type, attributes and chunks."""

    def slabs(self) -> Iterator[Slab]:
        """What the variables hold; what no slab has stays empty."""


def empty(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """Give an array of NaN, zeros or empty texts that takes no memory, and cannot be written to."""
    value = "" if dtype is object else np.nan if np.issubdtype(dtype, np.floating) else 0
    return np.broadcast_to(np.array(value, dtype), tuple(shape))


def loaded(group: Group) -> xr.Dataset:
    """Give a group in memory."""
    outline = group.outline()
    values = {str(name): np.array(variable.values) for name, variable in outline.data_vars.items()}
    for slab in group.slabs():
        values[slab.name][slab.where] = slab.values
    return outline.assign({name: outline[name].copy(data=array) for name, array in values.items()})


@dataclass(frozen=True)
class Block:
    """Neighbouring points of a grid: consecutive in the flattened grid, the last axis fastest, and a box in it."""

    first: int
    last: int
    """One past the end, flat."""
    where: tuple[slice, ...]
    """For each axis."""

    @property
    def size(self) -> int:
        """How many points it has."""
        return self.last - self.first

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values of each axis it has."""
        return tuple(one.stop - one.start for one in self.where)


def box(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """The shape of blocks of at most so many points: trailing axes whole, a part of one, one value of the others."""
    sizes: list[int] = []
    for size in reversed(shape):
        sizes.append(max(1, min(size, most // math.prod(sizes))))  # beyond a part of an axis that is one
    return tuple(reversed(sizes))


def blocks(shape: Sequence[int], most: int) -> Iterator[Block]:
    """Divide a grid into blocks of at most so many points, in the order of the flattened grid."""
    steps = [range(0, size, step) for size, step in zip(shape, box(shape, most), strict=True)]
    first = 0
    for corner in itertools.product(*steps):
        ends = (min(at + one.step, size) for at, one, size in zip(corner, steps, shape, strict=True))
        where = tuple(slice(at, end) for at, end in zip(corner, ends, strict=True))
        last = first + math.prod(one.stop - one.start for one in where)
        yield Block(first, last, where)
        first = last
