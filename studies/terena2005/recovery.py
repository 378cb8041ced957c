# SPDX-License-Identifier: Apache-2.0
"""Congestion window after a loss: its fall and its recovery time, as pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpcsweep.common.numbers import plain

FALL = 0.85  # largest share of its previous size at which a window has fallen: Reno goes to 0.5, CUBIC to 0.7


@dataclass(frozen=True)
class Fall:
    """A loss and its consequences."""

    lost_at: float  # time of the drop, in s
    before: float  # window when the sender noticed the loss, in any unit
    lowest: float  # smallest window after that, in the same unit; `before` if it did not fall
    seconds: float | None
    """Recovery time: 0 if the window did not fall, None if it did not recover."""


def follow(times: Sequence[float], windows: Sequence[float], lost_at: float) -> Fall:
    """Return the fall of a window after a loss.

    Args:
        times: Times of the samples, in s, ascending.
        windows: Window at each time, in any unit.
        lost_at: Time of the drop, in s.

    Raises:
        ValueError: If no sample precedes the loss.
    """
    earlier = sum(time <= lost_at for time in times)
    if not earlier:
        raise ValueError(
            f"no sample of the window at or before {plain(lost_at)} s, when a packet was dropped"
        )
    # It continues to grow until the loss is noticed, a round trip later.
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
    """Rule for dropping the next packet of a watched connection.

    The first drop is at a third of the window that fills the path, which ends slow start before the queue fills. The
    next one is when the window fills the path, and then whenever it has recovered. Therefore every loss except the
    first hits a full path with an almost empty queue, as the formula assumes.
    """

    def __init__(self, full: float, rtt: float, patience: float) -> None:
        """Watch a connection from its start; `full` is the window that fills the path.

        Args:
            full: Window that fills the path.
            rtt: Round-trip time in s.
            patience: Seconds for the window to fall after a loss.
        """
        self._full = full
        self._rest = 2 * rtt
        self._patience = patience
        self._dropped: list[float] = []
        self._peak = 0.0
        self._fell = False
        self._back_since: float | None = None

    def look(self, time: float, window: float) -> bool:
        """Process a sample; return whether to drop a packet now."""
        if not self._dropped:
            return self._drop(time, window) if window >= self._full / 3 else False
        if not self._fell:
            self._peak = max(self._peak, window)
            self._fell = window <= FALL * self._peak
        # A window that may never fall, such as BBR's, gets time to fall.
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
