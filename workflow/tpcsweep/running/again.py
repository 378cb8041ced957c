# SPDX-License-Identifier: Apache-2.0
"""Which cells are measured once more at the end of a run, and which of two measurements is kept. Pure.

A cell is measured once more for what was wrong around it, never for its figure: a choice by figures would bias them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tpcsweep.configuration.sweep import Cell
from tpcsweep.flags import graded
from tpcsweep.variables import CPU_LIMITS, NOT_MEASURED

CAUSES = ("disturbed", "machine_saturated", "not_steady")
"""Flags of what may be otherwise the next time, the gravest first."""
SLOWER = 0.15
"""Share by which a machine was slower than in the run's fastest cell, from which on a cell that CPUs bound is measured
once more. No flag, as a clock that goes up for a single busy core does the same: unlike a neighbour, every time."""


class Measured(NamedTuple):
    """A cell that was measured."""

    cell: Cell
    flags: frozenset[str]
    attempts: int
    work: float
    """ms that a piece of work took meanwhile; NaN where that is not known, or no CPU bound the cell."""


def of_file(cell: Cell, content: Mapping[str, Any]) -> Measured | None:
    """A cell by what its file has; None where it was not measured."""
    if content["status"] == NOT_MEASURED:
        return None
    attempts = len(content.get("others", ())) + 1
    return Measured(cell, frozenset(content["flags"]), attempts, _work(content))


def chosen(cells: Iterable[Measured], share: float, total: int) -> list[Cell]:
    """Choose those to measure once more: with the most and gravest of CAUSES first, then of the slowest machine.

    Cells that were measured more than once are left alone: what was wrong twice is the setting's. At most a share of
    the total number of cells is chosen, rounded up.
    """
    measured = list(cells)
    fastest = min((cell.work for cell in measured if cell.work > 0), default=math.nan)
    wrong = [
        cell
        for cell in measured
        if cell.attempts == 1 and (cell.flags.intersection(CAUSES) or cell.work >= (1 + SLOWER) * fastest)
    ]

    def gravity(cell: Measured) -> tuple[list[bool], float]:
        return [cause not in cell.flags for cause in CAUSES], -cell.work if cell.work > 0 else 0.0

    return [cell.cell for cell in sorted(wrong, key=gravity)[: math.ceil(share * total)]]


def better(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of two measurements of a cell the later one, unless it has failed or has more warnings.

    Where both have as many and a CPU bound both, that of the faster machine is kept. It says of the other in `others`
    when it began, its throughput with the interval, how fast the machine was, its flags and status; and `attempts` of
    its summary counts both.

    Both are a cell's file without its specification.
    """
    worse = (_faults(later), _work(later)) > (_faults(earlier), _work(earlier))
    kept, other = (earlier, later) if worse else (later, earlier)
    figures = ("throughput", "throughput_low", "throughput_high", "throughput_freedom", "machine_work")
    said = {
        "started": other["provenance"]["started"],
        "status": other["status"],
        "flags": other["flags"],
        **{name: other["summary"].get(name) for name in figures},
    }
    others = [*earlier.get("others", ()), said]
    return {**kept, "others": others, "summary": {**kept["summary"], "attempts": len(others) + 1}}


def _work(cell: Mapping[str, Any]) -> float:
    """A piece of work took so many ms; NaN where that is not known, or no CPU bound the cell."""
    work = cell["summary"].get("machine_work") if cell.get("limit") in CPU_LIMITS else None
    return math.nan if work is None else float(work)


def _faults(cell: Mapping[str, Any]) -> tuple[bool, int, int]:
    flags = cell["flags"]
    return cell["status"] != "ok", len(graded(flags, "invalid")), len(graded(flags, "warning"))
