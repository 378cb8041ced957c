# SPDX-License-Identifier: Apache-2.0
"""The bytes and time that a run has used of its budget, kept in a file because a run has several jobs."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpcsweep.common import locks
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.files import write_json
from tpcsweep.sweeps.units import DURATION, show
from tpcsweep.testbeds.endpoints.settings import Budget
from tpcsweep.testbeds.rules import rounded

LOOK = 1.0
"""Seconds between looks at the bytes of links that are measured at the same time."""


class BudgetError(BrokenError):
    """The budget of the testbed, or of a site, is exhausted, also for other deployments."""

    final = True


class Spending:
    """The use of a run. A failed transfer counts as a whole file, because its progress is not visible."""

    def __init__(
        self,
        file: Path,
        run: str,
        budget: Budget,
        testbed: str,
        sites: Mapping[str, int | None] = MappingProxyType({}),
    ) -> None:
        """Continue with the file if `run` wrote it, otherwise start at zero.

        `sites` has the budget in bytes of each site of the deployment, or None.
        """
        self._file, self._run, self._budget, self._testbed, self._sites = file, run, budget, testbed, sites
        self._before, self._cell, self._saved = 0, 0, 0  # bytes of this deployment
        self._kept = self._read()
        self._looked = time.monotonic()

    def add(self, size: int) -> None:
        """Add bytes outside of cells, such as those of a source file."""
        self._before += size

    def begin_cell(self) -> None:
        self._before, self._cell = self._before + self._cell, 0

    def note(self, size: float) -> None:
        self._cell = max(self._cell, round(size))

    def save(self) -> None:
        """Add the bytes of this deployment to those of the run."""
        with self._locked():
            kept, new = self._read(), self._unsaved
            kept["bytes"] += new
            for site in self._sites:
                kept["sites"][site] = kept["sites"].get(site, 0) + new
            write_json(self._file, kept)
        self._kept, self._saved, self._looked = kept, self._saved + new, time.monotonic()

    def check(self) -> None:
        """Raise BudgetError if the budget is exhausted, by this deployment and those measured at the same time."""
        if time.monotonic() - self._looked > LOOK:
            self.save()
        used, seconds = self._kept["bytes"] + self._unsaved, time.time() - self._kept["began"]
        budget = f"testbed {self._testbed}: budget"
        if used > self._budget.bytes:
            self._refuse(f"{budget}.bytes", rounded(used), rounded(self._budget.bytes))
        if seconds > self._budget.time:
            longest = show(self._budget.time, DURATION)
            self._refuse(f"{budget}.time", show(float(round(seconds)), DURATION), longest)
        for site, most in self._sites.items():
            used = self._kept["sites"].get(site, 0) + self._unsaved
            if most is not None and used > most:
                place = f"testbed {self._testbed}: budget of site {site}"
                self._refuse(place, rounded(used), rounded(most))

    @property
    def _unsaved(self) -> int:
        return self._before + self._cell - self._saved

    @staticmethod
    def _refuse(place: str, used: str, allowed: str) -> None:
        why = f"this run has used {used} of {allowed}, failed transfers included"
        raise BudgetError(f"{place}: {why}. Raise it, or measure fewer cells")

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._file.read_text())
        except (OSError, ValueError):
            kept = {}
        if kept.get("run") != self._run or "sites" not in kept:
            kept = {"run": self._run, "bytes": 0, "began": time.time(), "sites": {}}
        return dict(kept)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = locks.lock_file(self._file.with_suffix(".lock"), waiting=lambda _: None)
        try:
            yield
        finally:
            os.close(descriptor)
