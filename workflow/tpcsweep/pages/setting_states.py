# SPDX-License-Identifier: Apache-2.0
"""Settings of hosts for a page: commands, outputs of `verify`, and the recorded states of hosts."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import xarray as xr

from tpcsweep.common.numbers import counted
from tpcsweep.data.host_rates import THIS_MACHINE
from tpcsweep.data.made_with import (
    HOSTS,
    applied_settings,
    differing_host_keys,
    host_states,
    is_in_every_record,
    setting_of_cells,
)
from tpcsweep.data.restorations import restorations_text
from tpcsweep.sweeps.parameters import name_text


class ValueState(TypedDict):
    """A value of a setting; texts are different ones of its deployments."""

    value: str
    commands: list[str]
    outputs: list[str]  # of `verify`
    own: list[str]  # lines of the first output that not all values have


class SettingState(TypedDict):
    name: str
    verified: str  # whether the states were as applied, in a sentence
    restore: list[str]  # commands; none in datasets that do not record them
    restored: str  # how the deployments left the hosts, in a sentence
    others: list[tuple[str, str]]  # outputs of `verify` before and after a deployment that left another state
    values: list[ValueState]
    keys: list[
        tuple[str, list[str]]
    ]  # recorded settings of hosts that differ, with their texts at each value


def setting_states(summary: xr.Dataset) -> list[SettingState]:
    """Return the settings of hosts that a testbed applied, and nothing for other datasets."""
    return [_setting(summary, name, values) for name, values in applied_settings(summary).items()]


def _setting(
    summary: xr.Dataset, name: str, values: Mapping[str, Sequence[Mapping[str, str]]]
) -> SettingState:
    outputs = {value: _texts(records, "verified") for value, records in values.items()}
    lines = {value: texts[0].splitlines() if texts else [] for value, texts in outputs.items()}
    shared = set.intersection(*map(set, lines.values()))
    keys = differing_host_keys(summary, name) if name in summary.dims else {}
    every = [record for each in values.values() for record in each]
    of_cells = setting_of_cells(summary, name)
    return {
        "name": name_text(name),
        "verified": _verified(every, of_cells),
        "restore": _texts(every, "restore"),
        "restored": restorations_text(of_cells),
        "others": list(dict.fromkeys((one["before"], one["after"]) for one in every if "after" in one)),
        "values": [
            {
                "value": value,
                "commands": _texts(records, "command"),
                "outputs": outputs[value],
                "own": [line for line in lines[value] if line.strip() and line not in shared],
            }
            for value, records in values.items()
        ],
        "keys": [
            (key.removeprefix(f"{HOSTS}."), [row.get(value, "") for value in values])
            for key, row in keys.items()
        ],
    }


def _verified(records: Sequence[Mapping[str, str]], of_cells: Sequence[Mapping[str, str]]) -> str:
    known = ["verified" in record for record in records]
    if not any(known):
        return "not verified: the testbed has no command for it"
    when = "verified after every cell" if all(known) else "verified in some deployments"
    changed = sum("changed" in record for record in of_cells)
    return f"{when}: changed after {counted(changed, 'cell')}" if changed else f"{when}: unchanged"


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
                "title": "This machine, outside the namespaces"
                if host == THIS_MACHINE and apart
                else f"Host {host}",
                "same": ", the same in all deployments" if is_same else "",
                "settings": {name: " | ".join(values) for name, values in sorted(settings.items())},
                "differing": differing,
            }
        )
    return tables


def _texts(records: Sequence[Mapping[str, str]], key: str) -> list[str]:
    return list(dict.fromkeys(record[key].strip() for record in records if record.get(key, "").strip()))
