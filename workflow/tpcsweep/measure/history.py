"""A history of bounded length, however long it goes on."""

from __future__ import annotations

from typing import Generic, TypeVar

MOST = 10_000
"""Entries that a history holds at most: 1000 s at ten samples a second, and from then on never fewer than 5000."""

Entry = TypeVar("Entry")


class History(Generic[Entry]):
    """Keeps every entry until there are more than `most`; then every second, later every fourth, and so on.

    Of counters that only grow nothing is lost but resolution: a rate between two kept readings is the exact mean
    over the time between them. The first entry is always kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: list[Entry] = []
        self._seen = 0
        self.stride = 1
        """How many entries came for each that is kept: a power of two."""

    def add(self, entry: Entry) -> None:
        """Take the next entry in; it is kept if its turn has come."""
        if self._seen % self.stride == 0:
            self._kept.append(entry)
            if len(self._kept) > self._most:
                # A new list: whoever holds a copy of the old one is not disturbed.
                self._kept = self._kept[::2]
                self.stride *= 2
        self._seen += 1

    def entries(self) -> list[Entry]:
        """A copy of those that are kept, oldest first."""
        return list(self._kept)
