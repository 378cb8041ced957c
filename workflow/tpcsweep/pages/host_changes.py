# SPDX-License-Identifier: Apache-2.0
"""Recorded states that the values of a setting of hosts change; pure functions."""

from collections.abc import Mapping

import xarray as xr

from tpcsweep.common.numbers import counted
from tpcsweep.data.made_with import HOSTS, applied_settings, differing_host_keys

_MOST_NAMED = 4  # states that differ between two values

States = Mapping[str, Mapping[str, str]]
"""Texts of recorded states by their names, such as "a1's ens1 qdisc", and by the values of a setting."""


def host_changes(summary: xr.Dataset) -> dict[str, States]:
    """Return the states that differ between the values of each setting of hosts that the dataset has as an axis."""
    return {
        name: {state_words(key.removeprefix(f"{HOSTS}.")): texts for key, texts in differing.items()}
        for name in applied_settings(summary)
        if name in summary.dims and (differing := differing_host_keys(summary, name))
    }


def state_words(key: str) -> str:
    """Return a key of a host's state for people."""
    host, _, path = key.partition(".")
    group, _, rest = path.partition(".")
    if group in ("interfaces", "disks"):
        rest = " ".join(rest.split(".", 1))
    return f"{host}'s {rest or group}"


def with_texts(states: States, before: str, after: str) -> str:
    """Describe the states that differ between two values, with both texts of each; "" if nothing differs."""
    named = [
        f"{name} from {texts.get(before) or 'nothing recorded'} to {texts.get(after) or 'nothing recorded'}"
        for name, texts in _changed(states, before, after).items()
    ]
    return "; ".join(_first(named))


def names_only(states: States, before: str, after: str) -> str:
    """Name the states that a value changes against another one; "" if nothing differs."""
    names = _first([*_changed(states, before, after)])
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _changed(states: States, before: str, after: str) -> States:
    return {name: texts for name, texts in states.items() if texts.get(before) != texts.get(after)}


def _first(named: list[str]) -> list[str]:
    more = len(named) - _MOST_NAMED
    others = [f"{counted(more, 'other state')} in the table of recorded states"] if more > 0 else []
    return [*named[:_MOST_NAMED], *others]
