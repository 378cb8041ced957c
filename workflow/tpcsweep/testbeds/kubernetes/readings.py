"""Readings of a deployment from the samples of its agents. Pure.

Agents look at their pods each by its own timer, at times that the hub has turned into its own. A reading is what all
of them would have shown at one moment: counters are interpolated between two samples, states are those of the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpcsweep.measure.readings import Reading
from tpcsweep.testbeds.kubernetes.pod.places import Sample

_AT = {name: place for place, name in enumerate(Sample._fields)}
_STATES = ("rtt", "cwnd", "connections", "thread", "waiting", "work", "slowed")
_DATA = ("busy", "rwnd_limited", "sndbuf_limited", "sent", "resent")


@dataclass(frozen=True)
class Parts:
    """Who is what: names of agents."""

    sources: Sequence[str]
    destinations: Sequence[str]
    client: str
    machines: Mapping[str, str]
    """The machine of each, by an identifier: pods may share one, whose counters count once."""

    @property
    def all(self) -> list[str]:
        """Everyone who sends samples."""
        return [*self.sources, *self.destinations, self.client]


def combine(
    samples: Mapping[str, Sequence[Sequence[float | None]]], parts: Parts, interval: float
) -> list[Reading]:
    """Readings `interval` seconds apart, from when all have begun to send until the last moment that all know."""
    columns = {name: np.array(samples[name], dtype=float).reshape(-1, len(_AT)) for name in parts.all}
    if any(len(found) == 0 for found in columns.values()):
        return []
    first = max(found[0, 0] for found in columns.values())
    last = min(found[-1, 0] for found in columns.values())
    # A rounding error must not cost the last reading.
    times = first + interval * np.arange(math.floor((last - first) / interval + 1e-6) + 1)
    at = {name: _at(found, times) for name, found in columns.items()}
    one_each = {machine: name for name, machine in parts.machines.items() if name in at}

    def total(names: Sequence[str], field: str) -> NDArray[np.float64]:
        return np.asarray(np.sum([at[name][field] for name in names], axis=0))

    def busiest(names: Sequence[str]) -> NDArray[np.float64]:
        return np.asarray(np.max([at[name]["thread"] for name in names], axis=0))

    source_cpu = np.stack([at[name]["cpu"] for name in parts.sources], axis=1)
    destination_cpu = np.stack([at[name]["cpu"] for name in parts.destinations], axis=1)
    connections = total(parts.sources, "connections")
    machines = list(one_each.values())
    means = {field: _mean([at[name] for name in parts.sources], field) for field in ("rtt", "cwnd")}
    columns_of = {
        "payload": total(parts.destinations, "payload"),
        "source_bytes": total(parts.sources, "sent"),
        "wire_bytes": total(parts.destinations, "received"),
        "client_cpu": at[parts.client]["cpu"],
        "machine_busy": total(machines, "busy"),
        "machine_steal": total(machines, "steal"),
        "machine_total": total(machines, "total"),
        "machine_pressure": total(machines, "pressure") / len(machines),
        "machine_work": total(machines, "work") / len(machines),
        "machine_slowed": np.fmax.reduce([at[name]["slowed"] for name in machines], axis=0),
        "retransmits": total(parts.sources, "retransmits"),
        **{field: total(parts.sources, f"data_{field}") for field in _DATA},
        "source_thread": busiest(parts.sources),
        "destination_thread": busiest(parts.destinations),
        "client_thread": busiest([parts.client]),
        "source_waiting": total(parts.sources, "waiting"),
        "destination_waiting": total(parts.destinations, "waiting"),
    }
    return [
        Reading(
            time=float(times[i]),
            source_cpu=tuple(map(float, source_cpu[i])),
            destination_cpu=tuple(map(float, destination_cpu[i])),
            path_cpu=math.nan,
            rtt_loaded=float(means["rtt"][i]),
            cwnd=float(means["cwnd"][i]),
            connections=int(connections[i]),
            **{name: float(values[i]) for name, values in columns_of.items()},  # type: ignore[arg-type]
        )
        for i in range(len(times))
    ]


def _at(found: NDArray[np.float64], times: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The columns of one agent at other times."""
    before = np.clip(np.searchsorted(found[:, 0], times + 1e-9, side="right") - 1, 0, None)
    return {
        name: found[before, place] if name in _STATES else np.interp(times, found[:, 0], found[:, place])
        for name, place in _AT.items()
    }


def _mean(sources: Sequence[Mapping[str, NDArray[np.float64]]], field: str) -> NDArray[np.float64]:
    """The mean over all connections of all origins; NaN where there is none."""
    weights = np.stack([source["connections"] for source in sources])
    values = np.nan_to_num(np.stack([source[field] for source in sources]))
    count = weights.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray((values * weights).sum(axis=0) / np.where(count, count, np.nan))
