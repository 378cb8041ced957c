"""Arrays on disk that are more than memory should hold."""

from __future__ import annotations

import tempfile
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

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
        """How many arrays there are."""
        return len(self._ends) - 1

    def append(self, values: bytes) -> None:
        """Keep an array's bytes. All are to be appended before any is read."""
        self._file.write(values)
        self._ends.append(self._ends[-1] + len(values))

    def __getitem__(self, number: int) -> NDArray[Any]:
        """One of the arrays, flat."""
        self._file.seek(self._ends[number])
        return np.frombuffer(self._file.read(self._ends[number + 1] - self._ends[number]), self._dtype)
