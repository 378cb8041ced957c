# SPDX-License-Identifier: Apache-2.0
"""Warnings and notes about a cell's figure: every flag, in three grades.

A `note` is about the interval, which shows it by itself. A `warning` is about the circumstances: the figure is of the
asked setting, but something else may be in it. The figure of an `invalid` cell is not that of the asked setting.
docs/reading-the-page.md lists them with remedies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, cast

Grade = Literal["note", "warning", "invalid"]

GRADES: tuple[Grade, ...] = ("note", "warning", "invalid")
"""From the mildest on."""
LOUD: tuple[Grade, ...] = ("invalid", "warning")
"""Grades of the flags that the lines of a run and its status mention."""
BROKEN = "deployment_broken"
"""The flag of a cell that has left no usable deployment."""
IMPLAUSIBLE = "implausible"
"""The flag of figures that nothing can have been measured as."""
BEYOND_PATH = "beyond_path"
"""The flag of a throughput that the path cannot carry for long; `dataset.labels.with_beyond_path` raises it."""
_TOLERANCE = 0.1
"""Share by which they may be above what is possible: a path has up to 3 % more than was asked, and clocks differ."""
_NEVER_NEGATIVE = (
    *("throughput", "throughput_average", "throughput_max", "wire_throughput", "duration", "warmup"),
    *("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu"),
)


class BrokenError(Exception):
    """A part of a running deployment died or does not answer; another deployment must replace this one."""


class FaultError(BrokenError):
    """A part of a deployment ended by itself, perhaps while the deployment was starting."""


class Flag(NamedTuple):
    grade: Grade
    words: str
    """In a few words, for legends and tables."""
    meaning: str
    """In one line."""


def _table(text: str) -> dict[str, Flag]:
    """Read a table: a line has name, grade, words and meaning, which indented lines continue."""
    lines = re.sub(r"\n +", " ", text.strip()).splitlines()
    rows = (line.split(" | ") for line in lines)
    return {name: Flag(cast("Grade", grade), words, meaning) for name, grade, words, meaning in rows}


FLAGS = _table("""
not_steady | warning | not steady | a trend is left after the warm-up, or no byte arrived after it
wide_interval | note | interval wider than asked | the cell ended before the confidence interval was as narrow
    as asked
autocorrelated | note | interval too narrow | of earlier cells: the batch means are still correlated, so that
    the interval is too narrow
transfers_failed | warning | some transfers failed | at least one transfer failed
files_missing | invalid | not all files transferred | the cell ended before every stream had transferred its
    files
counters_disagree | warning | counters disagree | goodput and the path's counters differ by more than headers
    explain
monitoring_disagrees | warning | XRootD's monitoring disagrees | the bytes of transfers by XRootD's own
    monitoring are not those in their files
machine_saturated | warning | machine saturated | the machine's CPUs were all busy: the machine bound the
    cell, not the setting
deployment_broken | invalid | deployment broke | a server, the client or the path died or answered no more;
    another deployment followed
path_slow | warning | path slower than asked | the path had less than the bandwidth asked; bandwidth_found
    says how much
disturbed | warning | machine disturbed | others used the machine, or it was slower than at other times, while
    the cell was measured
implausible | invalid | implausible figures | a figure is missing, negative or infinite, or more than the path
    or the machine can carry
too_short | note | short for its interval | the cell is shorter than 10 s, than 15 correlation times of its
    goodput or than 15 RTTs: its interval is too narrow more often than it says
within_files | note | hardly any file ended | fewer files than streams ended after the warm-up: the figure has
    hardly any of the pauses between files
beyond_path | warning | beyond the path's rate | the throughput is above the path's bandwidth: buffers that had
    filled before emptied, or the cell was too short
""")
"""By name, in the order of their bits in datasets: new ones go to the end."""


def worst(flags: Iterable[str]) -> Grade | None:
    """Return the worst grade of some flags; None of none."""
    return max((FLAGS[flag].grade for flag in flags), key=GRADES.index, default=None)


def graded(flags: Iterable[str], *grades: Grade) -> list[str]:
    """Return those of some flags that have one of the grades, in the order of `FLAGS`."""
    chosen = {flag for flag in flags if FLAGS[flag].grade in grades}
    return [flag for flag in FLAGS if flag in chosen]


def implausible(status: str, figures: Mapping[str, float | None], bandwidth: float) -> bool:
    """Say whether no cell can have had such figures.

    After the warm-up more may arrive in files than the path carries meanwhile, out of buffers that had filled before:
    what has arrived is held against all that the path can have carried since the cell began.

    Args:
        status: of the cell.
        figures: its summary, by the names of `variables.SUMMARY`; None, or none of the name, where there is none.
        bandwidth: of the path, Gbit/s.
    """
    known = {name: value for name, value in figures.items() if value is not None}
    if not all(map(math.isfinite, known.values())) or any(known.get(name, 0) < 0 for name in _NEVER_NEGATIVE):
        return True
    if status != "ok":
        return False
    if "throughput" not in known:
        return True
    duration = known.get("duration", 0)
    counted = 1 - known.get("warmup", 0) / duration if duration else 1
    rates = known["throughput"] * counted, known.get("throughput_average", 0), known.get("wire_throughput", 0)
    most = 1 + _TOLERANCE
    return max(rates) > most * bandwidth or known.get("machine_cpu", 0) > most
