# SPDX-License-Identifier: Apache-2.0
"""A congestion window after a loss: when it fell, and how long it took to recover. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpcsweep.numbers import plain

FALL = 0.85  # a window at most this share of what it was has fallen: Reno goes to 0.5, CUBIC to 0.7


@dataclass(frozen=True)
class Fall:
    """A loss and what followed it."""

    lost_at: float  # when the packet was dropped, in s
    before: float  # the window when the sender knew of the loss, in any unit
    lowest: float  # the smallest window after that, in the same unit; `before` if it did not fall
    seconds: float | None
    """Time to recover: 0 if the window did not fall, None if it did not recover."""


def follow(times: Sequence[float], windows: Sequence[float], lost_at: float) -> Fall:
    """Follow a window from a loss on.

    Args:
        times: When the window was looked at, in s, ascending.
        windows: The window at each time, in any unit.
        lost_at: When a packet was dropped, in s.

    Raises:
        ValueError: where no sample lies before the loss.
    """
    earlier = sum(time <= lost_at for time in times)
    if not earlier:
        raise ValueError(
            f"no sample of the window at or before {plain(lost_at)} s, when a packet was dropped"
        )
    # It goes on growing until the loss is known, a round trip later.
    before = lowest = windows[earlier - 1]
    fell: float | None = None
    for time, window in zip(times[earlier:], windows[earlier:], strict=True):
        if fell is None:
            before = max(before, window)
            fell = time if window <= FALL * before else None
        elif window >= before:
            return Fall(lost_at, before, lowest, time - fell)
        lowest = min(lowest, window)
    return Fall(lost_at, before, lowest, 0.0 if fell is None else None)


class Dropper:
    """When to drop the next packet of a connection that is watched.

    First at a third of the window that fills the path, which ends slow start before the queue fills; then as soon as
    the window fills the path, and again whenever it has come back to what it was. So every loss but the first hits a
    path that is full and a queue that is all but empty, which is what the formula speaks of.
    """

    def __init__(self, full: float, rtt: float, patience: float) -> None:
        """Watch a connection from its start on, and give its window so many s to fall; `full` fills the path."""
        self._full = full
        self._rest = 2 * rtt
        self._patience = patience
        self._dropped: list[float] = []
        self._peak = 0.0
        self._fell = False
        self._back_since: float | None = None

    def look(self, time: float, window: float) -> bool:
        """Take in a sample; say whether to drop a packet now."""
        if not self._dropped:
            return self._drop(time, window) if window >= self._full / 3 else False
        if not self._fell:
            self._peak = max(self._peak, window)
            self._fell = window <= FALL * self._peak
        # A window that does not fall, such as BBR's, is given time to.
        if not self._fell and time - self._dropped[-1] < self._patience:
            return False
        wanted = self._full if len(self._dropped) == 1 or not self._fell else max(self._full, self._peak)
        if window < wanted:
            self._back_since = None
            return False
        if self._back_since is None:
            self._back_since = time
        return self._drop(time, window) if time - self._back_since >= self._rest else False

    def _drop(self, time: float, window: float) -> bool:
        self._dropped.append(time)
        self._peak, self._fell, self._back_since = window, False, None
        return True
