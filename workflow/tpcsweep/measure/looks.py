# SPDX-License-Identifier: Apache-2.0
"""Repeated looks at counters: a single failed look is a missing reading, and a long time without one a fault."""

import struct
import time
from collections.abc import Callable

from tpcsweep.errors import BrokenError

LONGEST_GAP = 5.0
"""Seconds without a reading that a cell may have: rates over them are exact means without detail."""
PAUSE = 0.05
PASSING = (OSError, ValueError, LookupError, struct.error)
"""Errors of a look that may pass: a file or an interface that has just gone, or a text that is cut."""


def longest_gap(interval: float) -> float:
    """Return the seconds that may pass without a reading, for looks every `interval` seconds."""
    return max(LONGEST_GAP, 3 * interval)


class Looks:
    """Looks at counters, which the caller repeats from the first one to the end of a cell."""

    def __init__(self, look: Callable[[], object], interval: float) -> None:
        self._look = look
        self._longest = longest_gap(interval)
        self._began = self._last = time.monotonic()
        self._error: Exception | None = None  # of the last look

    def attempt(self) -> bool:
        """Look once, and return whether that succeeded.

        Raises BrokenError if the last successful look is too long ago, or the clock went back. Errors that cannot pass
        are raised at once.
        """
        try:
            self._look()
        except PASSING as error:
            self._error = error
        else:
            self._error = None
        self.require_recent("their reader was stopped, or the clock jumped")
        if self._error is None:
            self._last = time.monotonic()
        return self._error is None

    def require_recent(self, otherwise: str) -> None:
        """Raise BrokenError if the last successful look is too long ago: by the last look's error, or `otherwise`."""
        now = time.monotonic()
        gap, since = now - self._last, self._last - self._began
        if gap < 0:
            raise BrokenError(f"counters: the clock went back by {-gap:.1f} s, {since:.1f} s into the cell")
        if gap > self._longest:
            error = self._error or otherwise
            named = isinstance(error, Exception) and not isinstance(error, OSError)
            words = f"{type(error).__name__}: {error}" if named else str(error)
            end = now - self._began
            raise BrokenError(f"counters: {words} (no reading from {since:.1f} s to {end:.1f} s of the cell)")
