# SPDX-License-Identifier: Apache-2.0
"""The choice of cells to measure again in their deployment, and of one of two measurements. Pure.

A cell is measured again because it failed or because of its circumstances, never because of its throughput or
of how the throughput varied: that choice would bias the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tpcsweep.flags import graded
from tpcsweep.variables import CPU_LIMITS

CAUSES = ("disturbed", "machine_saturated")
"""Flags of circumstances that may change, the gravest first."""
VARIATION = frozenset({"not_steady"})
"""Warnings about how the throughput varied. They do not decide which of two measurements is kept."""
SLOWER = 0.15
"""Share by which the machine was slower than in the fastest cell, from which on a CPU-bound cell is measured again. It
is no flag: a clock that rises for a single busy core has the same effect every time."""


def chosen(records: Sequence[Mapping[str, Any]], share: float) -> list[int]:
    """Choose cells to measure again: failed ones first, then those with the most and gravest CAUSES.

    Args:
        records: the cells of a deployment that were measured once, as their files contain them.
        share: of the cells, the most that are chosen, rounded up.

    Returns:
        Indices of records.
    """
    work = [_work(record) for record in records]
    fastest = min((value for value in work if value > 0), default=math.nan)
    wrong = [
        index
        for index, record in enumerate(records)
        if record["status"] != "ok"
        or set(record["flags"]).intersection(CAUSES)
        or work[index] >= (1 + SLOWER) * fastest
    ]

    def gravity(index: int) -> tuple[bool, list[bool], float]:
        record = records[index]
        causes = [cause not in record["flags"] for cause in CAUSES]
        return record["status"] == "ok", causes, -work[index] if work[index] > 0 else 0.0

    return sorted(wrong, key=gravity)[: math.ceil(share * len(records))]


def better(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the later of two measurements of a cell, unless it failed or has more warnings than the earlier one.

    Warnings in VARIATION do not count.

    If both have as many and a CPU bound both, the one on the faster machine is returned. Its `others` describes the
    other measurement: start, throughput with the interval, speed of the machine, flags and status. `attempts` of its
    summary counts both.

    Both are a cell's file without its specification.
    """
    worse = (_faults(later), _work(later)) > (_faults(earlier), _work(earlier))
    kept, other = (earlier, later) if worse else (later, earlier)
    figures = ("throughput", "throughput_low", "throughput_high", "throughput_freedom", "machine_work")
    described = {
        "started": other["provenance"]["started"],
        "status": other["status"],
        "flags": other["flags"],
        **{name: other["summary"].get(name) for name in figures},
    }
    others = [*earlier.get("others", ()), described]
    return {**kept, "others": others, "summary": {**kept["summary"], "attempts": len(others) + 1}}


def _work(cell: Mapping[str, Any]) -> float:
    """The time of a fixed piece of work in ms; NaN if it is unknown or no CPU bound the cell."""
    work = cell["summary"].get("machine_work") if cell.get("limit") in CPU_LIMITS else None
    return math.nan if work is None else float(work)


def _faults(cell: Mapping[str, Any]) -> tuple[bool, int, int]:
    flags = set(cell["flags"]) - VARIATION
    return cell["status"] != "ok", len(graded(flags, "invalid")), len(graded(flags, "warning"))
