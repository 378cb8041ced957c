# SPDX-License-Identifier: Apache-2.0
"""Settings of hosts for a page: commands, outputs of `verify`, and the recorded states of hosts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import counted
from tpcsweep.data.host_rates import THIS_MACHINE
from tpcsweep.data.made_with import (
    applied_settings,
    host_states,
    is_in_every_record,
    setting_of_cells,
)
from tpcsweep.data.restorations import restorations_text
from tpcsweep.pages.cell_links import CellLink, cell_links
from tpcsweep.pages.host_changes import States, host_changes, with_texts
from tpcsweep.sweeps.parameters import name_text

OfCells = Mapping[int, Mapping[str, str]]
"""The record of a setting by the place of each cell in the flattened grid."""


class ValueState(TypedDict):
    """A value of a setting; texts are different ones of its deployments."""

    value: str
    commands: list[str]
    outputs: list[str]  # of `verify`
    own: list[str]  # lines of the first output that not all values have


class LeftState(TypedDict):
    """Another state than before, in which deployments left their hosts."""

    cells: list[CellLink]
    gone: list[str]  # lines that `verify` printed before these deployments alone
    new: list[str]  # and after them alone
    before: str
    after: str


class SettingState(TypedDict):
    name: str
    verified: str  # whether the states were as applied, in a sentence
    restore: list[str]  # commands; none in datasets that do not record them
    restored: str  # how the deployments left the hosts, in a sentence
    at_the_end: str  # how the last deployment left the hosts, in a sentence; "" if all did the same
    others: list[LeftState]
    values: list[ValueState]
    changes: list[str]  # recorded states that each value but the first changes, in a sentence
    states: list[tuple[str, list[str]]]  # recorded ones of hosts that differ, with their texts at each value


def setting_states(summary: xr.Dataset) -> list[SettingState]:
    """Return the settings of hosts that a testbed applied, and nothing for other datasets."""
    states = host_changes(summary)
    return [
        _setting(summary, name, values, states.get(name, {}))
        for name, values in applied_settings(summary).items()
    ]


def _setting(
    summary: xr.Dataset, name: str, values: Mapping[str, Sequence[Mapping[str, str]]], states: States
) -> SettingState:
    of_cells = setting_of_cells(summary, name)
    outputs = {value: _texts(records, "verified") for value, records in values.items()}
    lines = {value: texts[0].splitlines() if texts else [] for value, texts in outputs.items()}
    shared = set.intersection(*map(set, lines.values()))
    every = [record for each in values.values() for record in each]
    return {
        "name": name_text(name),
        "verified": _verified(every, of_cells.values()),
        "restore": _texts(every, "restore"),
        "restored": restorations_text(of_cells.values()),
        "at_the_end": _at_the_end(summary, of_cells),
        "others": _left_states(summary, of_cells),
        "values": [
            {
                "value": value,
                "commands": _texts(records, "command"),
                "outputs": outputs[value],
                "own": [line for line in lines[value] if line.strip() and line not in shared],
            }
            for value, records in values.items()
        ],
        "changes": [
            f"{value}: {text}." for value in values if (text := with_texts(states, next(iter(values)), value))
        ],
        "states": [(state, [texts.get(value, "") for value in values]) for state, texts in states.items()],
    }


def _left_states(summary: xr.Dataset, of_cells: OfCells) -> list[LeftState]:
    states: dict[tuple[str, str], list[int]] = {}
    for place, record in of_cells.items():
        if "after" in record:
            states.setdefault((record["before"], record["after"]), []).append(place)
    return [
        {
            "cells": cell_links(summary, np.isin(_numbers(summary), places)),
            "gone": _lines_only_in(before, after),
            "new": _lines_only_in(after, before),
            "before": before,
            "after": after,
        }
        for (before, after), places in states.items()
    ]


def _at_the_end(summary: xr.Dataset, of_cells: OfCells) -> str:
    """Describe how the last deployment left the hosts, if not all left them alike."""
    if "started" not in summary or len({record.get("restored") for record in of_cells.values()}) < 2:
        return ""
    started = summary["started"].values.ravel()
    last = max(
        (place for place in of_cells if not np.isnat(started[place])), key=started.__getitem__, default=-1
    )
    return f"after the last deployment: {restorations_text([of_cells[last]])}" if last >= 0 else ""


def _numbers(summary: xr.Dataset) -> NDArray[np.intp]:
    """Return the place of each cell in the flattened grid."""
    return np.arange(summary["throughput"].size).reshape(summary["throughput"].shape)


def _lines_only_in(text: str, other: str) -> list[str]:
    known = set(other.splitlines())
    return [line.strip() for line in text.splitlines() if line.strip() and line not in known]


def _verified(records: Sequence[Mapping[str, str]], of_cells: Iterable[Mapping[str, str]]) -> str:
    known = ["verified" in record for record in records]
    if not any(known):
        return "not verified: the testbed has no command for it"
    when = "verified after every cell" if all(known) else "verified in some deployments"
    changed = sum("changed" in record for record in of_cells)
    found = f"changed after {counted(changed, 'cell')}" if changed else "unchanged since they were applied"
    return f"{when}: {found}"


def host_tables(summary: xr.Dataset) -> list[dict[str, Any]]:
    """Return the state of each recorded host, with the settings that differ between deployments."""
    # The servers of a testbed of namespaces have a network of their own.
    apart = summary.attrs["testbed_kind"] == "netns"
    tables = []
    for host, settings in sorted(host_states(summary).items()):
        differing = sorted(name for name, values in settings.items() if len(values) > 1)
        is_same = not differing and is_in_every_record(summary, host)
        tables.append(
            {
                "name": host,
                "title": _title(host, apart),
                "same": ", the same in all deployments" if is_same else "",
                "settings": {name: " | ".join(values) for name, values in sorted(settings.items())},
                "differing": differing,
            }
        )
    return tables


def _title(host: str, is_apart: bool) -> str:
    if host != THIS_MACHINE:
        return f"Host {host}"
    return "This machine, outside the namespaces" if is_apart else "The measuring machine"


def _texts(records: Sequence[Mapping[str, str]], key: str) -> list[str]:
    return list(dict.fromkeys(record[key].strip() for record in records if record.get(key, "").strip()))
