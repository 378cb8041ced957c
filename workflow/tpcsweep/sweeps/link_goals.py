# SPDX-License-Identifier: Apache-2.0
"""Tables of goals: the rates that links between sites must reach."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpcsweep.sweeps.parameters import DESTINATION, LINK, SOURCE
from tpcsweep.sweeps.problems import quoted, refused, suggest
from tpcsweep.sweeps.site_tables import read_table
from tpcsweep.sweeps.units import RATE, UnitError, parse

COLUMNS = (*LINK, "Gbit/s")
"""Columns of a table of goals. A rate is a number in Gbit/s, or has a unit: 500 Mbit/s."""


@dataclass(frozen=True)
class Goal:
    source: str
    destination: str
    rate: float  # Gbit/s
    line: int  # of the table


def read_goals(file: Path, sites: Mapping[str, Iterable[str]]) -> list[Goal]:
    """Read a table of goals for links between sites, which `sites` has as `source` and as `destination`.

    Raises ConfigurationError with file and line for a table without the columns, an unknown site, a link from a site
    to itself, a link twice, and a rate that is none; OSError if the file cannot be read.
    """
    known = {name: [*values] for name, values in sites.items()}
    lines: dict[tuple[str, str], int] = {}

    def goal(line: int, cells: Mapping[str, str]) -> Goal:
        for name in LINK:
            if cells[name] not in known[name]:
                raise refused("", f"{name} {quoted(cells[name])}", suggest(cells[name], known[name], 20))
        link = cells[SOURCE], cells[DESTINATION]
        if link[0] == link[1]:
            raise refused("", f"a link from {link[0]} to itself", "two sites")
        if link in lines:
            raise refused("", f"{' → '.join(link)} again", f"each link once; line {lines[link]} has it")
        lines[link] = line
        return Goal(*link, _rate(cells[COLUMNS[-1]]), line)

    return read_table(file, COLUMNS, goal)


def _rate(text: str) -> float:
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    try:
        rate = float(parse(value, RATE))
    except UnitError as error:
        raise refused("", quoted(text), f"{error.allowed}; a number alone is in Gbit/s") from error
    if not rate:
        raise refused("", quoted(text), "a rate above 0")
    return rate
