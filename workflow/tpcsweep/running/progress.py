# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a sweep runs: which cell of how many, the throughput so far, the time left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tpcsweep.files import replacing
from tpcsweep.flags import FLAGS, Grade, graded

if TYPE_CHECKING:
    from tpcsweep.measure.steady import Steady

BLANK = "\r\x1b[K"
FILE = ".progress"
_NO_BACKUP = re.compile(r"Cannot restore .*: no backup found\.", re.DOTALL)
LOUD: tuple[Grade, ...] = ("invalid", "warning")
"""Grades of flags that a cell's line tells; what is noted of intervals is in tables and datasets."""


class Run(TypedDict):
    """What is noted of a run."""

    cells: int
    """How many it measures."""
    done: int
    began: float
    """s since the epoch."""
    left_out: list[str]
    """Paths of cells that could not be measured when they were tried, or whose files were damaged."""
    damaged: list[str]
    """What is said of files that were damaged."""


def begin(folder: Path, cells: int) -> None:
    """Note at the start of a run how many cells it will measure; its jobs count them down."""
    with replacing(folder / FILE) as part:
        part.touch(mode=0o600)  # jobs lock it, and nobody else may
        part.write_text(json.dumps(Run(cells=cells, done=0, began=time.time(), left_out=[], damaged=[])))


def quieten() -> None:
    """Keep what is no news out of Snakemake's output, for the life of this process.

    Of a job that fails it says of each cell without a file before that none is put back.
    """
    logger = logging.getLogger("snakemake.logging")
    logger.addFilter(lambda record: not _NO_BACKUP.fullmatch(record.getMessage()))


def more(folder: Path, cells: int) -> None:
    """Note that a run will measure so many cells once more."""
    with _noted(folder) as run:
        run["cells"] += cells


def left_out(folder: Path) -> list[str]:
    """The paths of cells that were left out when they were tried in this run; they may have been measured since."""
    with _noted(folder) as run:
        return list(dict.fromkeys(run["left_out"]))


def damaged(folder: Path, cell: str, said: str) -> None:
    """Say of the cell of a path that its file was damaged, now and at the end of the run."""
    sys.stderr.write(f"{said}\n")
    with _noted(folder) as run:
        run["left_out"].append(cell)
        run["damaged"].append(said)


def all_damaged(folder: Path) -> list[str]:
    """What is said of files that were damaged in this run."""
    with _noted(folder) as run:
        return list(run["damaged"])


class Progress:
    """Lines on standard error: one a cell, and on a terminal one that keeps changing."""

    def __init__(self, sweep: str, folder: Path) -> None:
        """`folder` is that of the results of the sweep of that name."""
        self._sweep = sweep
        self._folder = folder
        with _noted(folder) as self._run:
            pass
        self._live = sys.stderr.isatty()
        self._name = ""

    def stage(self, text: str) -> None:
        """Say what is done that is no cell: deploying, waiting."""
        self._say(f"{self._sweep}: {text}")

    def begin(self, name: str) -> None:
        """Say that a cell begins."""
        self._name = name
        self.look(None, 0.0)

    def look(self, steady: Steady | None, seconds: float) -> None:
        """Say on a terminal what the cell's throughput is so far; `steady` is None before that is known."""
        if self._live:
            rate = "starting" if steady is None else f"{steady.mean:.3g} Gbit/s"
            head = self._head(self._run["done"] + 1)
            self._say(f"{head}: {rate} after {seconds:.0f} s{self._left()}", final=False)

    def end(self, status: str, throughput: float | None, message: str, flags: list[str]) -> None:
        """Say how the cell has ended."""
        well = status == "ok" and throughput is not None
        outcome = f"{throughput:.3g} Gbit/s" if well else f"{status}: {message}"
        marks = "".join(
            f" [{grade}: {', '.join(FLAGS[flag].words for flag in raised)}]"
            for grade in LOUD
            if (raised := graded(flags, grade))
        )
        with _noted(self._folder) as self._run:
            self._run["done"] += 1
        self._say(f"{self._head(self._run['done'])}: {outcome}{marks}{self._left()}")

    def left_out(self, deployment: str, cells: Sequence[str], why: str) -> None:
        """Say that cells of a deployment could not be measured."""
        with _noted(self._folder) as self._run:
            self._run["done"] += len(cells)
            self._run["left_out"] += cells
        self._say(f"{self._sweep}: {len(cells)} cell(s) of {deployment} not measured: {why}{self._left()}")

    def _head(self, number: int) -> str:
        return f"{self._sweep} cell {number}/{max(number, self._run['cells'])} {self._name}"

    def _left(self) -> str:
        """The time left at the pace so far, deploying included."""
        done = self._run["done"]
        if not done:
            return ""
        left = (time.time() - self._run["began"]) / done * max(0, self._run["cells"] - done)
        return f" · about {left / 60:.0f} min left" if left >= 90 else f" · about {left:.0f} s left"

    def _say(self, text: str, *, final: bool = True) -> None:
        start, end = (BLANK if self._live else ""), ("\n" if final else "")
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()


@contextlib.contextmanager
def _noted(folder: Path) -> Iterator[Run]:
    """Lend what is noted of a run, to one job at a time, and keep what the job changes of it."""
    with (folder / FILE).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run: Run = json.load(file)
        yield run
        file.seek(0)
        json.dump(run, file)
        file.truncate()
