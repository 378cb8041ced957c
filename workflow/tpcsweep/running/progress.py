# SPDX-License-Identifier: Apache-2.0
"""Terminal output during a sweep: one line for each deployment, and a bar with the time left."""

import contextlib
import fcntl
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from tpcsweep.files import replacing_file
from tpcsweep.flags import FLAGS, graded
from tpcsweep.numbers import between, counted, short

if TYPE_CHECKING:
    from tpcsweep.measure.steady import Steady

FILE = ".progress"
"""Name of a run's state file, which its jobs share.
It contains the number of cells, the number done, and the start in s since the epoch."""


def begin_progress(folder: Path, cells: int) -> None:
    with replacing_file(folder / FILE) as part:
        part.touch(mode=0o600)  # jobs lock the file, and nobody else may
        part.write_text(json.dumps({"cells": cells, "done": 0, "began": time.time()}))


class JobProgress:
    """Output of one deployment's job on standard error."""

    def __init__(self, sweep: str, deployment: str, folder: Path) -> None:
        """`folder` is that of the study's results."""
        self._sweep, self._deployment, self._folder = sweep, deployment, folder
        self._began = time.monotonic()
        self._ended: dict[str, tuple[str, float | None, list[str]]] = {}
        self._skipped = 0
        with _counts(folder) as self._run:
            pass
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True, soft_wrap=True, highlight=False),
            transient=True,
            auto_refresh=False,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=None, left="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._bar.stop()
        if kind is None:
            self._line()

    def stage(self, text: str) -> None:
        """Show a step other than a cell. Without a terminal, only steps that may take long are printed."""
        self._draw(text)
        if self._bar.disable and not text.startswith("deploying"):
            self.print_line(text)

    def show_throughput(self, steady: "Steady | None", seconds: float) -> None:
        """Show the throughput of the current cell; `steady` is None while unknown."""
        self._draw("" if steady is None else f"{short(steady.mean)} Gbit/s after {seconds:.0f} s")

    def end(self, cell: str, status: str, throughput: float | None, flags: list[str]) -> None:
        """Count an ended cell. A second call for a cell replaces its first result."""
        with _counts(self._folder) as self._run:
            self._run["done"] += cell not in self._ended
        self._ended[cell] = (status, throughput, flags)
        self._draw("" if throughput is None else f"{short(throughput)} Gbit/s")

    def skip(self, cells: int, why: str) -> None:
        with _counts(self._folder) as self._run:
            self._run["done"] += cells
        self._skipped += cells
        self.print_line(f"{self._deployment}: {counted(cells, 'cell')} not measured: {why}")

    def print_line(self, text: str) -> None:
        self._bar.console.print(f"{self._sweep}: {text}", markup=False)

    def _line(self) -> None:
        statuses = Counter(status for status, _, _ in self._ended.values())
        statuses["not measured"] = self._skipped
        if not statuses.total():
            return
        rates = [rate for status, rate, _ in self._ended.values() if status == "ok" and rate is not None]
        found = Counter(f for *_, flags in self._ended.values() for f in graded(flags, "warning", "invalid"))
        reached = f", {between(min(rates), max(rates))} Gbit/s" if rates else ""
        states = "".join(f", {count} {word}" for word, count in statuses.items() if count and word != "ok")
        warnings = "".join(f", {count} {FLAGS[flag].words}" for flag, count in found.items())
        took = time.monotonic() - self._began
        cells = f"{self._deployment}: {counted(statuses.total(), 'cell')}"
        self.print_line(f"{cells}{reached}{states}{warnings}, {took:.0f} s · {self._progress()}")

    def _draw(self, text: str) -> None:
        done, total = self._run["done"], max(self._run["cells"], self._run["done"]) or None
        said = f"{self._sweep} {self._deployment} {text}".rstrip()
        self._bar.update(self._task, description=said, completed=done, total=total, left=self._progress())
        self._bar.refresh()

    def _progress(self) -> str:
        """Return done and all cells, and the time left at the pace so far, including deploying."""
        done, cells = self._run["done"], max(self._run["cells"], self._run["done"])
        if not done or done == cells:
            return f"{done}/{cells} cells"
        left = (time.time() - self._run["began"]) / done * (cells - done)
        shown = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        return f"{done}/{cells} cells, about {shown} left"


@contextlib.contextmanager
def _counts(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the counts of a run to one job at a time, and save the changes."""
    if not (folder / FILE).exists():  # as a module of another workflow, which does not call `begin_progress`
        begin_progress(folder, 0)
    with (folder / FILE).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run = json.load(file)
        yield run
        file.seek(0)
        json.dump(run, file)
        file.truncate()
