# SPDX-License-Identifier: Apache-2.0
"""How far a sweep is: its cells counted by what their files say. Nothing is written, locked or deployed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep import locks
from tpcsweep.configuration.cell_file import DamagedError
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.overview import expected
from tpcsweep.configuration.sweep import Cell
from tpcsweep.flags import graded
from tpcsweep.running import holes, results
from tpcsweep.running.progress import LOUD


@dataclass(frozen=True)
class Status:
    """The cells of a sweep, each counted once, and those among the measured ones that are flagged."""

    measured: int
    """With a throughput, under the wanted specification."""
    flagged: int
    """Of these, those with a flag that is a warning or makes the cell invalid."""
    failed: int
    """Measured too: no transfer went well, and their files say why."""
    not_measured: tuple[Cell, ...]
    """Tried in vain."""
    left: tuple[Cell, ...]
    """Not tried yet, or only under another specification."""

    @property
    def cells(self) -> int:
        """All of them."""
        return self.measured + self.failed + len(self.not_measured) + len(self.left)


def counted(configuration: Configuration) -> Status:
    """Read the files of a sweep's cells."""
    found: Counter[str] = Counter()
    not_measured: list[Cell] = []
    left: list[Cell] = []
    for cell in configuration.grid.cells:
        file = configuration.cell_file(cell)
        if results.stale(file, wanted(configuration, cell)):
            (not_measured if results.left_out(file) else left).append(cell)
            continue
        try:
            content = results.read(file)
        except (DamagedError, FileNotFoundError):  # a run that is under way may set it aside
            left.append(cell)
            continue
        well = content.get("status") == "ok"
        found["measured" if well else "failed"] += 1
        found["flagged"] += well and any(graded(content.get("flags", []), grade) for grade in LOUD)
    return Status(found["measured"], found["flagged"], found["failed"], tuple(not_measured), tuple(left))


def table(configuration: Configuration) -> RenderableType:
    """Give a sweep's status for people: a row for each count, whether a run is under way, and what was left out."""
    status = counted(configuration)
    rows = Table("cells", "", "what")
    rows.add_row(str(status.measured), "measured", "with a throughput, under the specification of now")
    rows.add_row(str(status.flagged), "  of them flagged", "with a warning, or invalid")
    rows.add_row(str(status.failed), "failed", "transfers were tried and none went well")
    rows.add_row(str(len(status.not_measured)), "not measured", "tried in vain: the next run tries again")
    rows.add_row(str(len(status.left)), "left", _time(configuration, status))
    parts: list[RenderableType] = [
        f"{configuration.name} on {configuration.testbed_name}: {status.cells} cells, in {configuration.folder}",
        rows,
    ]
    if (pid := locks.holder(configuration.folder / results.LOCK)) is not None:
        parts.append(f"a run is under way: snakemake with pid {pid}")
    if status.not_measured:
        left_out = holes.holes(configuration, status.not_measured)
        parts += ["not measured, and the command that measures them:", holes.listed(left_out)]
    return Group(*parts)


def _time(configuration: Configuration, status: Status) -> str:
    """The expected time of all that the next run measures."""
    if not (todo := status.left + status.not_measured):
        return "nothing"
    rest = replace(configuration, grid=replace(configuration.grid, cells=todo))
    return f"{expected(rest)} with those not measured" if status.not_measured else expected(rest)
