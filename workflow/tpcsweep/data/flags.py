# SPDX-License-Identifier: Apache-2.0
"""Table of the flags of cells in three grades, from notes to invalid; `flag_rules` decides which a cell carries.

A `note` concerns the interval, which shows the problem itself, or a declared bandwidth. A `warning` concerns the
conditions: the figure belongs to the requested setting, but may include other effects. The figure of an `invalid` cell
does not belong to the requested setting.
"""

import pkgutil
import tomllib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Grade = Literal["note", "warning", "invalid"]

GRADES: tuple[Grade, ...] = ("note", "warning", "invalid")
"""Grades in ascending severity."""
BROKEN = "deployment_broken"
"""Flag of a cell after which the deployment was unusable."""
SETTING_CHANGED = "setting_changed"
"""Flag that a deployment's job raises itself, by the commands of the user's settings; all others have a rule."""
SHORTEST = 10.0
"""Seconds of a cell below which it is `too_short`; below, intervals miss the truth too often."""


class Flag(NamedTuple):
    grade: Grade
    label: str  # short description for legends and tables
    meaning: str  # description in one line
    remedy: str  # Markdown
    reasons: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """Label and meaning of each reason of a flag that has several; `short_reasons` finds those of cells."""


_TABLE = tomllib.loads((pkgutil.get_data(__package__, "flags.toml") or b"").decode())
FLAGS = {name: Flag(**entry) for name, entry in _TABLE.items()}
"""Flags by name, in the order of their bits in datasets."""


def worst_grade(flags: Iterable[str]) -> Grade | None:
    return max((FLAGS[flag].grade for flag in flags), key=GRADES.index, default=None)


def graded(flags: Iterable[str], *grades: Grade) -> list[str]:
    """Return the flags with one of the grades, in the order of `FLAGS`."""
    chosen = {flag for flag in flags if FLAGS[flag].grade in grades}
    return [flag for flag in FLAGS if flag in chosen]
