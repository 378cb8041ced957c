# SPDX-License-Identifier: Apache-2.0
"""Terminal output during a sweep: one line for each deployment, and a bar with the time left."""

import contextlib
import fcntl
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from tpcsweep.common.files import replacing_file, write_text
from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.flags import FLAGS, graded

if TYPE_CHECKING:
    from tpcsweep.measuring.steady import Steady

FILE = ".progress"
"""Name of the file with a run's state, which its jobs write and everybody may read."""
_LOCK = ".progress.lock"
_LAST = 5  # cells of which the state has the throughput


def begin_progress(folder: Path, cells: int, **about: Any) -> None:
    """Write the state of a run that begins: the number of cells to measure, and `about` for its readers."""
    with replacing_file(folder / _LOCK) as part:
        part.touch(mode=0o600)  # jobs lock the file, and nobody else may
    state = {"cells": cells, "done": 0, "began": time.time(), "deployments": [], "last": [], "stopped": False}
    write_text(folder / FILE, json.dumps({**state, **about}))


def read_progress(folder: Path) -> dict[str, Any]:
    """Return the state of the last run; {} if there is none.

    `cells` is the number of cells to measure, and `done` the number of cells that ended. `began` is in s since the
    epoch. `deployments` are being measured. `last` has path, throughput and status of the cells that ended last.
    `stopped` is true if a signal ended a deployment.
    """
    try:
        return dict(json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError):
        return {}


def time_left(state: Mapping[str, Any]) -> float | None:
    """Return the seconds until all cells are measured, at the pace so far including deploying; None if unknown."""
    done, cells = state["done"], max(state["cells"], state["done"])
    return (time.time() - state["began"]) / done * (cells - done) if 0 < done < cells else None


def until(seconds: float) -> str:
    """Return the local time in a number of seconds, such as 23:40, with the day unless it is today."""
    end = time.localtime(time.time() + seconds)
    return time.strftime("%H:%M" if end[:3] == time.localtime()[:3] else "%a %H:%M", end)


def count_done(folder: Path, cells: int) -> dict[str, Any]:
    """Count cells that a run does not measure among the ended ones; return the state of the run."""
    with _state(folder) as run:
        run["done"] += cells
    return run


class JobProgress:
    """Output of one deployment's job on standard error."""

    def __init__(self, sweep: str, deployment: str, folder: Path) -> None:
        """`folder` is that of the study's results."""
        self._sweep, self._deployment, self._folder = sweep, deployment, folder
        self._began = time.monotonic()
        self._ended: dict[str, tuple[str, float | None, Sequence[str]]] = {}
        self._skipped = 0
        with _state(folder) as self._run:
            self._run["deployments"].append(deployment)
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
        with _state(self._folder) as self._run:
            self._run["deployments"] = [one for one in self._run["deployments"] if one != self._deployment]
            self._run["stopped"] |= kind is SystemExit
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

    def end(self, cell: str, status: str, throughput: float | None, flags: Sequence[str]) -> None:
        """Count an ended cell. A second call for a cell replaces its first result."""
        with _state(self._folder) as self._run:
            self._run["done"] += cell not in self._ended
            before = [one for one in self._run["last"] if one[0] != cell]
            self._run["last"] = [*before, (cell, throughput, status)][-_LAST:]
        self._ended[cell] = (status, throughput, flags)
        self._draw("" if throughput is None else f"{short(throughput)} Gbit/s")

    def skip(self, cells: int, why: str) -> None:
        self._run = count_done(self._folder, cells)
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
        counts = Counter(f for *_, flags in self._ended.values() for f in graded(flags, "warning", "invalid"))
        reached = f", {between(min(rates), max(rates))} Gbit/s" if rates else ""
        states = "".join(f", {count} {word}" for word, count in statuses.items() if count and word != "ok")
        warnings = "".join(f", {count} {FLAGS[flag].label}" for flag, count in counts.items())
        took = time.monotonic() - self._began
        cells = f"{self._deployment}: {counted(statuses.total(), 'cell')}"
        self.print_line(f"{cells}{reached}{states}{warnings}, {took:.0f} s · {self._progress()}")

    def _draw(self, text: str) -> None:
        done, total = self._run["done"], max(self._run["cells"], self._run["done"]) or None
        words = f"{self._sweep} {self._deployment} {text}".rstrip()
        self._bar.update(self._task, description=words, completed=done, total=total, left=self._progress())
        self._bar.refresh()

    def _progress(self) -> str:
        """Return done and all cells, and the time left."""
        done, cells, left = (
            self._run["done"],
            max(self._run["cells"], self._run["done"]),
            time_left(self._run),
        )
        return f"{done}/{cells} cells" + ("" if left is None else f", about {duration(left)} left")


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


@contextlib.contextmanager
def _state(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the state of a run to one job at a time, and save the changes."""
    with exclusive(folder):
        run = read_progress(folder)
        yield run
        write_text(folder / FILE, json.dumps(run))


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Let one job of a run at a time change the state of the run and its page."""
    if not (folder / _LOCK).exists():  # as a module of another workflow, which does not call `begin_progress`
        begin_progress(folder, 0)
    with (folder / _LOCK).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
