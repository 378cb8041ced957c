# SPDX-License-Identifier: Apache-2.0
"""Figures in cell files, datasets and tables, which variables.toml defines: name, unit and meaning.

Standard library only, because pods import it, from an archive.
"""

import pkgutil
import tomllib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NOT_MEASURED = "not_measured"
"""Status of a cell whose deployment could not be created as requested; its message has the reason."""


class Variable(NamedTuple):
    """Figure with its CF-style unit, its meaning in a sentence, and its origin."""

    units: str
    meaning: str
    source: str = ""  # key of SOURCES, for figures of a cell


TABLES = tomllib.loads((pkgutil.get_data(__package__, "variables.toml") or b"").decode())
SOURCES: Mapping[str, str] = TABLES["sources"]


def _variables(section: str) -> dict[str, Variable]:
    rows = TABLES[section].items()
    return {name: Variable(unit, meaning, source) for name, (unit, source, meaning) in rows}


class Quantity(NamedTuple):
    """Quantity that is read from the kernel; variables.toml describes the columns."""

    name: str
    units: str  # of its samples; a reading has s, bytes or a number
    target: str
    place: tuple[str, ...]  # the kind of place, and the names of file, key or field
    kind: str
    aggregation: str  # how values of several connections and targets become one
    meaning: str

    @property
    def grows(self) -> bool:
        return self.kind != "state"


def _quantities(section: str) -> dict[str, Quantity]:
    return {
        name: Quantity(name, units, target, tuple(place.split()), kind, aggregation, meaning)
        for name, (units, target, place, kind, aggregation, meaning) in TABLES[section].items()
    }


_RECORDED = _quantities("recorded")
QUANTITIES: Mapping[str, Quantity] = _quantities("sampled") | _RECORDED
_FIGURE_SOURCES = {"count": "count"}  # by the kind of a quantity; the mean of all others


def quantities(place: str, target: str) -> list[Quantity]:
    """Return the quantities of a target that are read in places of a kind, such as `cgroup`."""
    return [each for each in QUANTITIES.values() if each.place[0] == place and each.target == target]


class Remedy(NamedTuple):
    """Change that relieves a limit."""

    words: str
    axis: str = ""  # parameter whose other values are this change; "" for a change outside of sweeps
    larger: bool = True  # whether larger values are the change, not smaller ones


def alternatives(words: Sequence[str]) -> str:
    """Join alternatives: a; a, or b; a, b, or c."""
    return ", or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _remedy(words: str, axis: str = "") -> Remedy:
    return Remedy(words, axis.removeprefix("-"), not axis.startswith("-"))


LIMITS: Mapping[str, str] = {limit: meaning for limit, (_, meaning) in TABLES["limits"].items()}
LIMIT_NAMES: Mapping[str, str] = {limit: name for limit, (name, _) in TABLES["limits"].items()}
UNEXPLAINED = NONE_FOUND, NOT_VISIBLE = tuple(TABLES["unexplained"][key] for key in ("seen", "unseen"))
"""Limits without a known cause: where the CPU of a server is seen, and where none is."""
REMEDIES: Mapping[str, Sequence[Remedy]] = {
    limit: [_remedy(*row) for row in rows] for limit, rows in TABLES["remedies"].items()
}
LIMIT_REMEDIES: Mapping[str, str] = {
    limit: alternatives([remedy.words for remedy in remedies]) for limit, remedies in REMEDIES.items()
}
NAMES: Mapping[str, str] = TABLES["names"]
AXIS_NAMES: Mapping[str, str] = TABLES["axis_names"]
SHARES = {limit: f"share_{limit}" for limit in LIMITS}
"""Name of the figure with a limit's share of a cell's time. The shares of a cell add up to 1."""
SUMMARY = (
    _variables("summary")
    | {
        name: Variable(each.units, each.meaning, _FIGURE_SOURCES.get(each.kind, "mean"))
        for name, each in _RECORDED.items()
    }
    | {
        share: Variable("1", f"share of the time after warm-up that {LIMIT_NAMES[limit]} bound", "shares")
        for limit, share in SHARES.items()
    }
)
SAMPLES = {
    name: Variable(each.units, each.meaning, "series")
    for name, each in QUANTITIES.items()
    if each.kind != "base"
}
ORIGIN_SAMPLES = _variables("origin_samples")
TRANSFERS = _variables("transfers")

OTHER_VARIABLES = (
    *("status", "flags", "limit", "limit_second", "message", "started", "source_node", "destination_node"),
    *("provenance", "provenance_record"),
)
"""Variables of the dataset that are no figures."""

DIMENSIONS = ("repetition", "record", "time", "origin", "transfer")
"""Dimensions of the dataset's groups in addition to the axes."""

CPU_LIMITS = frozenset({"cpu_source", "cpu_destination", "client", "machine"})
"""Limits that depend on the machine's speed: a quota is CPU time, in which a slow CPU does less."""
