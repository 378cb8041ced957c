# SPDX-License-Identifier: Apache-2.0
"""Flags of cells in three grades, from notes to invalid.

A `note` concerns the interval, which shows the problem itself. A `warning` concerns the conditions: the figure belongs
to the requested setting, but may include other effects. The figure of an `invalid` cell does not belong to the
requested setting. docs/reading-the-page.md lists the causes of each flag.
"""

import math
import pkgutil
import tomllib
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Grade = Literal["note", "warning", "invalid"]

GRADES: tuple[Grade, ...] = ("note", "warning", "invalid")
"""Grades in ascending severity."""
BROKEN = "deployment_broken"
"""Flag of a cell after which the deployment was unusable."""
IMPLAUSIBLE = "implausible"
"""Flag of figures that no measurement can have."""
BEYOND_PATH = "beyond_path"
"""Flag of a throughput that the path cannot sustain; `data.folding` raises it."""
_TOLERANCE = 0.1
"""Tolerated relative excess over the possible: a path has up to 3 % more than requested, and clocks differ."""
_NEVER_NEGATIVE = (
    *("throughput", "throughput_average", "throughput_max", "wire_throughput", "duration", "warmup"),
    *("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu"),
)


class Flag(NamedTuple):
    grade: Grade
    words: str
    """Short description for legends and tables."""
    meaning: str
    """Description in one line."""


_TABLE = tomllib.loads((pkgutil.get_data(__package__, "flags.toml") or b"").decode())
FLAGS = {name: Flag(*row) for name, row in _TABLE.items()}
"""Flags by name, in the order of their bits in datasets."""


def worst_grade(flags: Iterable[str]) -> Grade | None:
    return max((FLAGS[flag].grade for flag in flags), key=GRADES.index, default=None)


def graded(flags: Iterable[str], *grades: Grade) -> list[str]:
    """Return the flags with one of the grades, in the order of `FLAGS`."""
    chosen = {flag for flag in flags if FLAGS[flag].grade in grades}
    return [flag for flag in FLAGS if flag in chosen]


def implausible(status: str, figures: Mapping[str, float | None], bandwidth: float) -> bool:
    """Return whether no cell can have such figures.

    Buffers that filled during the warm-up may make more data arrive afterwards than the path carries in that time.
    Therefore the arrived data are compared with the path's capacity since the start of the cell.
    `figures` has the names of `data.variables.SUMMARY`, unknown ones None or missing; `bandwidth` is in Gbit/s.
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
