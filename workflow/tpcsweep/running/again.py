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
    """How often."""
    work: float
    """ms that a piece of work took meanwhile; NaN where that is not known, or no CPU bound the cell."""


def of_file(cell: Cell, content: Mapping[str, Any]) -> Measured | None:
    """A cell by what its file has; None where it was not measured."""
    if content["status"] == NOT_MEASURED:
        return None
    attempts = len(content.get("others", ())) + 1
    return Measured(cell, frozenset(content["flags"]), attempts, _work(content))


def chosen(cells: Iterable[Measured], share: float, total: int) -> list[Cell]:
    """Those to measure once more: with the most and gravest of CAUSES first, then those of the slowest machine.

    share: of `total` cells, at most so many (rounded up). Cells that were measured more than once are left alone:
    what was wrong twice is the setting's.
    """
    measured = list(cells)
    fastest = min((one.work for one in measured if one.work > 0), default=math.nan)
    wrong = [
        one
        for one in measured
        if one.attempts == 1 and (one.flags.intersection(CAUSES) or one.work >= (1 + SLOWER) * fastest)
    ]
    wrong.sort(
        key=lambda one: ([cause not in one.flags for cause in CAUSES], -one.work if one.work > 0 else 0.0)
    )
    return [one.cell for one in wrong[: math.ceil(share * total)]]


def better(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """The measurement of a cell that is kept: the later one, unless it has failed or has more warnings.

    Where both have as many and a CPU bound both, it is that of the faster machine.

    earlier, later: cells' files without their specification. The one that is kept says of the other in `others`
    when it began, its throughput with the interval, how fast the machine was, its flags and status; and `attempts` of
    its summary counts both.
    """
    slower = _faults(later) == _faults(earlier) and _work(later) > _work(earlier)
    kept, other = (earlier, later) if _faults(later) > _faults(earlier) or slower else (later, earlier)
    summary = other["summary"]
    said = {
        "started": other["provenance"]["started"],
        "status": other["status"],
        "flags": other["flags"],
        **{
            name: summary.get(name)
            for name in ("throughput", "throughput_low", "throughput_high", "machine_work")
        },
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
