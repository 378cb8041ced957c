# SPDX-License-Identifier: Apache-2.0
"""A large file for `tpcsweep check`: servers may fail copies that their buffers do not hold."""

import zlib
from functools import reduce

from tpcsweep.common.urls import OwnFile
from tpcsweep.sweeps.units import SIZE, show
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors
from tpcsweep.testbeds.endpoints.site import random_blocks

LARGE = 64 << 20
NAME = show(LARGE, SIZE)


class LargeFile:
    """The file, which is uploaded when it is first needed."""

    def __init__(self, copies: int, budget: int) -> None:
        """`copies` are all that may be made, within a `budget` in bytes."""
        self._needed, self._budget = (copies + 1) * LARGE, budget
        self._adler32: int | None = None

    def upload(self, door: Doors, file: OwnFile) -> None:
        """Raises LookupError if the budget does not allow the copies."""
        if self._needed > self._budget:
            raise LookupError(f"the budget allows fewer than {show(self._needed, SIZE)}")
        if self._adler32 is None:
            blocks = list(random_blocks(LARGE))
            self._adler32 = reduce(lambda known, block: zlib.adler32(block, known), blocks, 1)
            door.upload(file, lambda: blocks, LARGE)

    def require(self, door: Doors, file: OwnFile) -> str:
        """Return which properties of a copy are those of the file. Raises DoorError if one is not."""
        if (found := door.size(file.url)) != LARGE:
            raise DoorError(f"{file.url}: {'no such file' if found is None else f'{found} of {LARGE} bytes'}")
        try:
            other = door.adler32(file.url)
        except LookupError:
            return "size"
        if other != self._adler32:
            raise DoorError(f"{file.url}: adler32 {other:08x}, and not the source's {self._adler32:08x}")
        return "size and adler32"
