"""What a person sees while a sweep runs: which cell of how many, the throughput so far, the time left."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tpcsweep.measure.steady import Steady

BLANK = "\r\x1b[K"


class Progress:
    """Lines on standard error: one a cell, and on a terminal one that keeps changing."""

    def __init__(self, sweep: str, cells: Path, total: int, cell_seconds: float) -> None:
        self._sweep = sweep
        self._total = total
        self._done = sum(1 for _ in cells.rglob("*.json"))
        self._spent: list[float] = []
        self._expected = cell_seconds
        self._live = sys.stderr.isatty()
        self._name = ""
        self._began = 0.0

    def stage(self, text: str) -> None:
        """Something that is not a cell: deploying, waiting."""
        self._say(f"{self._sweep}: {text}", final=True)

    def begin(self, name: str) -> None:
        """A cell begins."""
        self._name = name
        self._began = time.monotonic()
        self.look(None, 0.0)

    def look(self, steady: Steady | None, seconds: float) -> None:
        """The cell's figures so far."""
        if self._live:
            self._say(f"{self._head()}: {_figure(steady)} after {seconds:.0f} s{self._left()}", final=False)

    def end(self, status: str, throughput: float | None, message: str, flags: list[str]) -> None:
        """The cell has ended."""
        self._spent.append(time.monotonic() - self._began)
        found = (
            f"{throughput:.3g} Gbit/s"
            if status == "ok" and throughput is not None
            else f"{status}: {message}"
        )
        marks = f" [{', '.join(flags)}]" if flags else ""
        head = self._head()
        self._done += 1
        self._say(f"{head}: {found}{marks}{self._left()}", final=True)

    def _head(self) -> str:
        return f"{self._sweep} cell {min(self._done + 1, self._total)}/{self._total} {self._name}"

    def _left(self) -> str:
        each = sum(self._spent) / len(self._spent) if self._spent else self._expected
        left = max(0, self._total - self._done) * each
        return f" · about {left / 60:.0f} min left" if left >= 60 else f" · about {left:.0f} s left"

    def _say(self, text: str, *, final: bool) -> None:
        start, end = (BLANK if self._live else ""), ("\n" if final else "")
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()


def _figure(steady: Steady | None) -> str:
    return "starting" if steady is None else f"{steady.mean:.3g} Gbit/s"
