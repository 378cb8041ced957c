# SPDX-License-Identifier: Apache-2.0
"""Software, machines, hosts and settings with which a dataset was measured, as flat names, and how two differ."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from tpcsweep.data.cell_result import NOT_RECORDED

_SCALARS = ("host", "cpu", "cpus", "kernel", "cgroup_version")
_GROUPS = ("software", "nodes", "sysctls")
"""Parts of a provenance record that may explain a change; all others vary between deployments."""
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
HOSTS = "hosts"


_Named = Callable[[Mapping[str, Any]], Iterator[tuple[str, Any]]]
"""A function that returns names and values of a record."""


class Difference(NamedTuple):
    name: str
    before: str  # "" if it was not recorded
    after: str


def made_with(summary: xr.Dataset) -> dict[str, str]:
    """Return software, kernel, hosts and settings by name; commas separate differing values of deployments."""
    return _joined(_records(summary), _named)


def host_states(summary: xr.Dataset) -> dict[str, dict[str, list[str]]]:
    """Return the settings of each host by their names, each with its values in the deployments of a dataset."""
    records: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in _records(summary):
        for host, state in (record.get(HOSTS) or {}).items():
            records[host].append(state)
    return {host: _values(states, partial(_flat, "")) for host, states in records.items()}


def applied_settings(summary: xr.Dataset) -> dict[str, dict[str, list[Mapping[str, str]]]]:
    """Return the distinct records of each setting of hosts by its values, in the order of its axis."""
    found: dict[str, dict[str, list[Mapping[str, str]]]] = {}
    for record in _records(summary):
        for name, setting in (record.get("settings") or {}).items():
            order = map(str, np.atleast_1d(summary[name].values)) if name in summary.coords else ()
            values = found.setdefault(name, {value: [] for value in order})
            known = values.setdefault(setting["value"], [])
            if setting not in known:
                known.append(setting)
    return {name: {value: each for value, each in values.items() if each} for name, values in found.items()}


def cells_with(summary: xr.Dataset, name: str) -> dict[str, xr.DataArray]:
    """Return which cells have each value of a part of their provenance, such as the commit."""
    if "provenance_record" not in summary:
        return {}
    found: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(summary["provenance_record"].values.tolist()):
        if value := json.loads(text).get(name):
            found[str(value)].append(place)
    cells = {value: summary["provenance"].isin(places) for value, places in found.items()}
    return {value: which for value, which in cells.items() if which.any()}


def setting_of_cells(summary: xr.Dataset, setting: str) -> dict[int, Mapping[str, str]]:
    """Return the record of a setting of hosts by the place of each cell that has one in the flattened grid."""
    if "provenance_record" not in summary:
        return {}
    texts = summary["provenance_record"].values.tolist()
    records = [(json.loads(text).get("settings") or {}).get(setting) for text in texts]
    places = enumerate(summary["provenance"].values.ravel().tolist())
    return {cell: record for cell, place in places if place >= 0 and (record := records[place])}


def hosts_of_data(summary: xr.Dataset) -> tuple[list[str], list[str]]:
    """Return the recorded hosts that sent the data of cells of endpoints, and the receiving ones."""
    records = _records(summary)
    senders, receivers = (
        sorted({host for record in records for host in record.get(key) or ()})
        for key in ("sending_hosts", "receiving_hosts")
    )
    return senders, receivers


def hosts_of_one_machine(summary: xr.Dataset) -> list[list[str]]:
    """Return groups of recorded hosts that are one machine; "local" is the measuring one."""
    groups = {tuple(names) for record in _records(summary) for names in record.get("one_machine") or ()}
    return [list(names) for names in sorted(groups)]


def endpoint_servers(summary: xr.Dataset) -> dict[str, list[str]]:
    """Return how the servers of each end of endpoints call themselves."""
    found: dict[str, dict[str, None]] = {"source": {}, "destination": {}}
    for record in _records(summary):
        for role, names in found.items():
            about = (record.get("endpoints") or {}).get(role) or {}
            names |= dict.fromkeys(filter(None, [about.get("server") or about.get("implementation")]))
    return {role: [*names] for role, names in found.items() if names}


def is_in_every_record(summary: xr.Dataset, host: str) -> bool:
    """Return whether a host was recorded with all cells."""
    return all(host in (record.get(HOSTS) or {}) for record in _records(summary))


def differing_host_keys(summary: xr.Dataset, axis: str) -> dict[str, dict[str, str]]:
    """Return the settings of hosts that differ between the values of an axis, each with its values there."""
    values = summary[axis].values.tolist()
    found = {
        str(value): _joined(_records(summary.isel({axis: place})), _host_keys)
        for place, value in enumerate(values)
    }
    # A value without any cell has no records yet.
    found = {value: keys for value, keys in found.items() if keys}
    names = dict.fromkeys(name for keys in found.values() for name in keys)
    rows = {name: {value: keys.get(name, "") for value, keys in found.items()} for name in names}
    return {name: row for name, row in rows.items() if len(set(row.values())) > 1}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """Return what differs; settings of a host only if both sides recorded it."""
    of_both = _hosts_in(before) & _hosts_in(after)
    pairs = (
        Difference(name, before.get(name, ""), after.get(name, ""))
        for name in dict.fromkeys((*before, *after))
    )
    return [each for each in pairs if each.before != each.after and _hosts_in([each.name]) <= of_both]


def _hosts_in(names: Iterable[str]) -> set[str]:
    """Return the hosts whose settings are among some names."""
    return {name.split(".")[1] for name in names if name.startswith(f"{HOSTS}.")}


def _records(summary: xr.Dataset) -> list[Mapping[str, Any]]:
    """Return the provenance records of the cells of a dataset, or of a part of it."""
    if "provenance_record" not in summary:
        return []
    used = np.unique(summary["provenance"].values)
    return [json.loads(text) for text in summary["provenance_record"].values[used[used >= 0]].tolist()]


def _values(records: Iterable[Mapping[str, Any]], named: _Named) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for name, value in named(record):
            found[name].add(" ".join(str(value).split()))
    return {name: sorted(values) for name, values in found.items()}


def _joined(records: Iterable[Mapping[str, Any]], named: _Named) -> dict[str, str]:
    return {name: ", ".join(values) for name, values in _values(records, named).items()}


def _named(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, record[name]) for name in _SCALARS if name in record)
    for group in _GROUPS:
        yield from ((f"{group}.{name}", value) for name, value in (record.get(group) or {}).items())
    if "commit" in record:
        yield "commit", _HASH.sub(r"\1", str(record["commit"]))
    if package := (record.get("xrootd") or {}).get("package"):
        yield "xrootd.package", package  # the software list has the version, but not the build
    cluster = record.get("kubernetes") or {}
    if "version" in cluster:
        yield "kubernetes", cluster["version"]
    for pod in (cluster.get("pods") or {}).values():
        yield "image", pod.get("image")
    yield from _host_keys(record)


def _host_keys(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for host, state in (record.get(HOSTS) or {}).items():
        if NOT_RECORDED not in state:
            yield from _flat(f"{HOSTS}.{host.replace('.', '-')}", state)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else key, part)
    else:
        yield name, value
