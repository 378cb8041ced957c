"""What a person sees while a sweep runs: which cell of how many, the throughput so far, the time left."""

from __future__ import annotations

import fcntl
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.flags import FLAGS, Grade, graded

if TYPE_CHECKING:
    from tpcsweep.measure.steady import Steady

BLANK = "\r\x1b[K"
FILE = ".progress"
LOUD: tuple[Grade, ...] = ("invalid", "warning")
"""Grades of flags that a cell's line tells; what is noted of intervals is in tables and datasets."""


def begin(folder: Path, cells: int) -> None:
    """Note at the start of a run how many cells it will measure; its jobs count them down."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps({"cells": cells, "done": 0, "began": time.time()}))


class Progress:
    """Lines on standard error: one a cell, and on a terminal one that keeps changing."""

    def __init__(self, sweep: str, folder: Path) -> None:
        self._sweep = sweep
        self._folder = folder
        self._run = _counted(folder, 0)
        self._live = sys.stderr.isatty()
        self._name = ""

    def stage(self, text: str) -> None:
        """Something that is not a cell: deploying, waiting."""
        self._say(f"{self._sweep}: {text}", final=True)

    def begin(self, name: str) -> None:
        """A cell begins."""
        self._name = name
        self.look(None, 0.0)

    def look(self, steady: Steady | None, seconds: float) -> None:
        """The cell's figures so far."""
        if self._live:
            found = "starting" if steady is None else f"{steady.mean:.3g} Gbit/s"
            self._say(
                f"{self._head(self._run['done'] + 1)}: {found} after {seconds:.0f} s{self._left()}",
                final=False,
            )

    def end(self, status: str, throughput: float | None, message: str, flags: list[str]) -> None:
        """The cell has ended."""
        found = (
            f"{throughput:.3g} Gbit/s"
            if status == "ok" and throughput is not None
            else f"{status}: {message}"
        )
        marks = "".join(
            f" [{grade}: {', '.join(FLAGS[flag].words for flag in raised)}]"
            for grade in LOUD
            if (raised := graded(flags, grade))
        )
        self._run = _counted(self._folder, 1)
        self._say(f"{self._head(self._run['done'])}: {found}{marks}{self._left()}", final=True)

    def _head(self, number: float) -> str:
        return f"{self._sweep} cell {number}/{max(number, self._run['cells'])} {self._name}"

    def _left(self) -> str:
        """The time left at the pace so far, deploying included."""
        done = self._run["done"]
        if not done:
            return ""
        left = (time.time() - self._run["began"]) / done * max(0, self._run["cells"] - done)
        return f" · about {left / 60:.0f} min left" if left >= 90 else f" · about {left:.0f} s left"

    def _say(self, text: str, *, final: bool) -> None:
        start, end = (BLANK if self._live else ""), ("\n" if final else "")
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()


def _counted(folder: Path, ended: int) -> dict[str, float]:
    """What was noted of the run, after so many more cells have ended. Jobs that run side by side all count here."""
    with (folder / FILE).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run: dict[str, float] = json.load(file)
        if ended:
            run["done"] += ended
            file.seek(0)
            json.dump(run, file)
            file.truncate()
    return run
