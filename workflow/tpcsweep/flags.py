# SPDX-License-Identifier: Apache-2.0
"""What a reader should know before trusting a cell's figure: every flag, in three grades.

A `note` is about the interval, which says it itself wherever it is shown. A `warning` is about the circumstances: the
figure is of what was asked, but something else may be in it. Of an `invalid` cell the figure is not that of what was
asked. docs/measuring.md says when each is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Grade = Literal["note", "warning", "invalid"]

GRADES: tuple[Grade, ...] = ("note", "warning", "invalid")
"""From the mildest on."""
LOUD: tuple[Grade, ...] = ("invalid", "warning")
"""Grades of the flags that the lines of a run and its status mention."""
IMPLAUSIBLE = "implausible"
"""The flag of figures that nothing can have been measured as."""
_TOLERANCE = 0.1
"""Share by which they may be above what is possible: a path has up to 3 % more than was asked, and clocks differ."""
_NEVER_NEGATIVE = (
    *("throughput", "throughput_average", "throughput_max", "wire_throughput", "duration", "warmup"),
    *("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu"),
)


class Flag(NamedTuple):
    """What a flag says."""

    grade: Grade
    words: str
    """In a few words, for legends and tables."""
    meaning: str
    """In one line."""


FLAGS = {
    "not_steady": Flag(
        "warning",
        "not steady",
        "the throughput had not settled: the warm-up rule would cut half of the cell or more, or a trend is left",
    ),
    "wide_interval": Flag(
        "note",
        "interval wider than asked",
        "the cell ended before the confidence interval was as narrow as asked",
    ),
    "autocorrelated": Flag(
        "note",
        "interval too narrow",
        "of earlier cells: the batch means are still correlated, so that the interval is too narrow",
    ),
    "transfers_failed": Flag("warning", "some transfers failed", "at least one transfer failed"),
    "files_missing": Flag(
        "invalid", "not all files transferred", "the cell ended before every stream had transferred its files"
    ),
    "counters_disagree": Flag(
        "warning", "counters disagree", "goodput and the path's counters differ by more than headers explain"
    ),
    "monitoring_disagrees": Flag(
        "warning",
        "XRootD's monitoring disagrees",
        "the bytes of transfers by XRootD's own monitoring are not those in their files",
    ),
    "machine_saturated": Flag(
        "warning",
        "machine saturated",
        "the machine's CPUs were all busy: the machine bound the cell, not the setting",
    ),
    "deployment_broken": Flag(
        "invalid",
        "deployment broke",
        "a server, the client or the path died or answered no more; another deployment followed",
    ),
    "path_slow": Flag(
        "warning",
        "path slower than asked",
        "the path had less than the bandwidth asked; bandwidth_found says how much",
    ),
    "disturbed": Flag(
        "warning",
        "machine disturbed",
        "others used the machine, or it was slower than at other times, while the cell was measured",
    ),
    IMPLAUSIBLE: Flag(
        "invalid",
        "implausible figures",
        "a figure is missing, negative or infinite, or more than the path or the machine can carry",
    ),
    "too_short": Flag(
        "note",
        "too short for an interval",
        "the cell is too few correlation times of its goodput long, or RTTs, to say how sure its mean is",
    ),
    "within_files": Flag(
        "note",
        "hardly any file ended",
        "fewer files than streams ended after the warm-up: the figure has hardly any of the pauses between files",
    ),
}
"""By name, in the order of their bits in datasets: new ones go to the end."""


def worst(flags: Iterable[str]) -> Grade | None:
    """Give the worst grade of some flags; None of none."""
    return max((FLAGS[flag].grade for flag in flags), key=GRADES.index, default=None)


def graded(flags: Iterable[str], *grades: Grade) -> list[str]:
    """Give those of some flags that have one of the grades, in the order of `FLAGS`.

    Raises:
        KeyError: for what is no flag.
    """
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
