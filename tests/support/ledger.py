# SPDX-License-Identifier: Apache-2.0
"""What became of every measurement of a sweep that was ever seen on the disk: kept, lost, made again, or wrong."""

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from tpcsweep.data.flags import graded
from tpcsweep.data.variables import NOT_MEASURED
from tpcsweep.measuring.steady import Course, analyse

EVERY = 0.02  # seconds between looks at the disk: a measurement takes a second or more
ROUNDED = 0.02
"""By how much the figure of a cell may differ from that of its samples, which have fewer digits."""
OVER = 1.05  # over the path's bandwidth: what no goodput can be, by more than its counters may be off
ALIKE = 1 / 3  # by how much a cell without a warning may differ from what it has when nothing is done to it


class Measurement(NamedTuple):
    """A measurement of a cell: that it was started at another time tells it from others of the same one."""

    cell: str  # the cell's path, by its specification and not by where its file is
    started: str


class Ledger:
    """The measurements of a sweep, by its folder of results and the specification of each of its cells."""

    def __init__(self, results: Path, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        self._results = results
        self._lock = threading.Lock()
        self.want(wanted)

    def want(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Begin again with these specifications: their measurements on the disk are kept from now on."""
        with self._lock:
            self.wanted = wanted
            self._cells = {orjson.dumps(spec): cell for cell, spec in wanted.items()}
            self._looked: dict[Path, tuple[int, int, int]] = {}
            self._seen: set[Measurement] = set()
            self._void: set[Measurement] = set()
            self._lost: set[Measurement] = set()
        self.look()

    def file(self, cell: str) -> Path:
        return self._results / "cells" / f"{cell}.json"

    def staged(self, cell: str) -> Path:
        return self._results / "staging" / f"{cell}.json"

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look at the disk again and again for the length of a `with`."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(EVERY):
                self.look()

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                yield
            finally:
                over.set()
        watching.result()  # or nobody would know that it had ended early
        self.look()

    def look(self) -> None:
        with self._lock:
            for path in self.files():
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    state = (status.st_ino, status.st_mtime_ns, status.st_size)
                    if self._looked.get(path) != state:
                        self._looked[path] = state
                        self._seen |= self._read(path)

    def destroyed(self, cells: list[str], act: Callable[[], None]) -> None:
        """Do something to the files of some cells after which nobody can expect them to be kept."""
        self.look()
        with self._lock:
            self._void |= {seen for seen in self._seen if seen.cell in cells}
            for cell in cells:
                self._void |= self._read(self.file(cell)) | self._read(self.staged(cell))
        act()

    def missing(self) -> list[Measurement]:
        """Return new losses: measurements that are neither in their places nor in staging."""
        self.look()
        lost = self._seen - self._void - self._lost - set[Measurement]().union(*map(self._read, self.files()))
        self._lost |= lost
        return sorted(lost)

    def repeated(self) -> list[Measurement]:
        """Give those in whose place another one is, although they had not been lost. They are not given again."""
        self.look()
        present = {one for cell in self.wanted for one in self._read(self.file(cell)) if one.cell == cell}
        again = self._seen - self._void - self._lost - present
        self._void |= again
        return sorted(again)

    def unmeasured(self) -> list[str]:
        """Return the cells without a file, with a placeholder, or with a file of another specification."""

        def measured(cell: str) -> bool:
            content = read(self.file(cell)) or {}
            return content.get("status") != NOT_MEASURED and content.get("spec") == self.wanted[cell]

        return [cell for cell in self.wanted if not measured(cell)]

    def wrong(self, reference: Mapping[str, float]) -> list[str]:
        cells = self.wanted.items()
        found = ((cell, mistake(self.file(cell), spec, reference.get(cell))) for cell, spec in cells)
        return [f"{cell}: {why}" for cell, why in found if why]

    def files(self) -> list[Path]:
        # os.walk skips a folder that is deleted meanwhile; rglob raises.
        return [
            Path(folder, name)
            for part in ("cells", "staging")
            for folder, _, names in os.walk(self._results / part)
            for name in names
            if name.endswith(".json")
        ]

    def _read(self, path: Path) -> set[Measurement]:
        """The measurement that a file has, wherever that is; none of what is not wanted."""
        content = read(path)
        if content is None or content.get("status") == NOT_MEASURED:
            return set()
        cell = self._cells.get(orjson.dumps(content.get("spec")))
        started = (content.get("provenance") or {}).get("started")
        return set() if cell is None or not isinstance(started, str) else {Measurement(cell, started)}


def read(path: Path) -> dict[str, Any] | None:
    """Read a cell's file; None where it is not there, or not whole."""
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None


def mistake(path: Path, spec: Mapping[str, Any], reference: float | None) -> str | None:
    content = read(path)
    if content is None:
        return "is not there" if not path.exists() else "is not whole"
    if content.get("spec") != spec:
        return "is of another specification"
    if content.get("status") != "ok":
        return None
    try:
        return _misstated(content, spec, reference)
    except (KeyError, TypeError, ValueError) as error:
        return f"lacks something: {error!r}"


def _misstated(cell: Mapping[str, Any], spec: Mapping[str, Any], reference: float | None) -> str | None:
    summary, how = cell["summary"], spec["measurement"]
    throughput, average = float(summary["throughput"]), float(summary["throughput_average"])
    goodput = np.array(cell["samples"]["goodput"], float)
    course = Course(summary["warmup"], summary["cycle"] or math.nan)
    mean = analyse(goodput, how["interval"], how["confidence"], course=course).mean
    plain = float(goodput.mean())
    # The path's counters bound a mean whose bytes came out of buffers that had filled before.
    bound = min(mean, summary["wire_throughput"] or math.inf)
    alike = any(math.isclose(throughput, one, rel_tol=ROUNDED) for one in (mean, bound))
    if not (alike and math.isclose(average, plain, rel_tol=ROUNDED)):
        return f"has {throughput} and {average} Gbit/s, and its samples {mean:.4g} and {plain:.4g}"
    # Of the whole cell: after a warm-up more may arrive than the path carries, out of buffers that had filled.
    if not (throughput > 0 and average <= OVER * spec["parameters"]["bandwidth"]):
        return f"has {throughput} and {average} Gbit/s, which its path cannot carry"
    if reference is None or graded(cell["flags"], "warning", "invalid"):
        return None
    low, high = summary["throughput_low"], summary["throughput_high"]
    # An interval says how little a figure is worth.
    if low is None or high is None or low <= reference <= high or abs(throughput / reference - 1) <= ALIKE:
        return None
    return f"has {throughput} Gbit/s without a warning, and {reference} when nothing is done to it"
