# SPDX-License-Identifier: Apache-2.0
"""The bytes and time that a run has used of its budget, kept in a file because a run has several jobs."""

import json
import time
from pathlib import Path

from tpcsweep.configuration.checks import rounded
from tpcsweep.configuration.endpoints import Budget
from tpcsweep.configuration.units import DURATION, show
from tpcsweep.errors import BrokenError
from tpcsweep.files import write_json


class BudgetError(BrokenError):
    """The testbed's budget is exhausted, also for other deployments."""

    final = True


class Spending:
    """The use of a run. A failed transfer counts as a whole file, because its progress is not visible."""

    def __init__(self, file: Path, run: str, budget: Budget, testbed: str) -> None:
        """Continue with the file if `run` wrote it, otherwise start at zero."""
        self._file, self._run, self._budget, self._testbed = file, run, budget, testbed
        try:
            kept = json.loads(file.read_text())
        except (OSError, ValueError):
            kept = {}
        if kept.get("run") != run:
            kept = {"bytes": 0, "began": time.time()}
        self._before, self._began, self._cell = kept["bytes"], kept["began"], 0

    def add(self, size: int) -> None:
        """Add bytes outside of cells, such as those of a source file."""
        self._before += size

    def begin_cell(self) -> None:
        self._before, self._cell = self._before + self._cell, 0

    def note(self, size: float) -> None:
        self._cell = max(self._cell, round(size))

    def save(self) -> None:
        used = {"run": self._run, "bytes": self._before + self._cell, "began": self._began}
        write_json(self._file, used)

    def check(self) -> None:
        """Raise BudgetError if the budget is exhausted."""
        used, seconds = self._before + self._cell, time.time() - self._began
        if used > self._budget.bytes:
            key, spent, allowed = "bytes", rounded(used), rounded(self._budget.bytes)
        elif seconds > self._budget.time:
            longest = show(self._budget.time, DURATION)
            key, spent, allowed = "time", show(float(round(seconds)), DURATION), longest
        else:
            return
        why = f"this run has used {spent} of {allowed}, failed transfers included"
        raise BudgetError(f"testbed {self._testbed}: budget.{key}: {why}. Raise it, or measure fewer cells")
