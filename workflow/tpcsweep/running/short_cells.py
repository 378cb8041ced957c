# SPDX-License-Identifier: Apache-2.0
"""Warnings about cells that are too short, before they are measured."""

from collections import defaultdict

from tpcsweep.common.numbers import counted
from tpcsweep.data.flags import SHORTEST
from tpcsweep.measuring.first_bytes import startup
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.units import DURATION, show

_STARTS = 2.0  # times to the first byte that a cell needs at least: half of it moves no byte otherwise
_LONG = 4.0  # times to the first byte of a cell whose warm-up, at most a quarter, contains it


def late_lines(study: SweepStudy) -> list[str]:
    """Return a line for each tool whose cells may end before payload flows for half of their time."""
    if study.testbed.simulated:
        return []
    longest = study.sweep.measurement.bounds[1]
    late = defaultdict[str, list[float]](list)
    for cell in study.grid.cells:
        tool, rtt = str(cell.parameters.tool), float(cell.parameters.rtt or 0)
        if (first := startup(tool, rtt)) * _STARTS > longest:
            late[tool].append(first)
    return [
        f"{counted(len(times), 'cell')} of at most {show(longest, DURATION)} may end without a byte: {tool} takes "
        f"up to {max(times):.1f} s to its first one. Use cells of {_LONG * max(times):.0f} s or more"
        for tool, times in late.items()
    ]


def short_lines(study: SweepStudy) -> list[str]:
    """Return `late_lines`, and a line if all cells will carry the flag `too_short`."""
    longest = study.sweep.measurement.bounds[1]
    if study.testbed.simulated or longest >= SHORTEST:
        return late_lines(study)
    return [
        *late_lines(study),
        f"cells of at most {show(longest, DURATION)} get the flag too_short, and single ones cannot be compared. Use "
        f"{show(SHORTEST, DURATION)} or more",
    ]
