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
    def servers(self) -> list[str]:
        """Those of both sides."""
        return [*self.sources, *self.destinations]

    @property
    def all(self) -> list[str]:
        """Everyone who sends samples."""
        return [*self.servers, self.client]


def combine(
    samples: Mapping[str, Sequence[Sequence[float | None]]], parts: Parts, interval: float
) -> list[Reading]:
    """Readings from when all have begun to send until the last moment that all know.

    Args:
        samples: By the names of agents; none, or no such name, where nothing has come yet.
        parts: Who is what.
        interval: Seconds between readings.
    """
    if not all(samples.get(name) for name in parts.all):
        return []
    columns = {name: np.array(samples[name], dtype=float) for name in parts.all}
    first = max(table[0, 0] for table in columns.values())
    last = min(table[-1, 0] for table in columns.values())
    # A rounding error must not cost the last reading.
    times = first + interval * np.arange(math.floor((last - first) / interval + 1e-6) + 1)
    at = {name: _at(table, times) for name, table in columns.items()}
    machines = list({machine: name for name, machine in parts.machines.items() if name in at}.values())

    def each(names: Sequence[str], field: str) -> NDArray[np.float64]:
        return np.stack([at[name][field] for name in names], axis=1)

    def total(names: Sequence[str], field: str) -> NDArray[np.float64]:
        return np.asarray(each(names, field).sum(axis=1))

    source_cpu, destination_cpu = each(parts.sources, "cpu"), each(parts.destinations, "cpu")
    connections = total(parts.sources, "connections")
    sources = [at[name] for name in parts.sources]
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
        "machine_slowed": np.fmax.reduce(each(machines, "slowed"), axis=1),
        "retransmits": total(parts.sources, "retransmits"),
        **{field: total(parts.sources, f"data_{field}") for field in _DATA},
        "source_thread": each(parts.sources, "thread").max(axis=1),
        "destination_thread": each(parts.destinations, "thread").max(axis=1),
        "client_thread": at[parts.client]["thread"],
        "source_waiting": total(parts.sources, "waiting"),
        "destination_waiting": total(parts.destinations, "waiting"),
        "rtt_loaded": _mean(sources, "rtt"),
        "cwnd": _mean(sources, "cwnd"),
    }
    return [
        Reading(
            time=float(times[i]),
            source_cpu=tuple(map(float, source_cpu[i])),
            destination_cpu=tuple(map(float, destination_cpu[i])),
            path_cpu=math.nan,
            connections=int(connections[i]),
            **{name: float(values[i]) for name, values in columns_of.items()},  # type: ignore[arg-type]
        )
        for i in range(len(times))
    ]


def _at(table: NDArray[np.float64], times: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The columns of one agent at other times."""
    before = np.clip(np.searchsorted(table[:, 0], times + 1e-9, side="right") - 1, 0, None)
    return {
        name: table[before, place] if name in _STATES else np.interp(times, table[:, 0], table[:, place])
        for name, place in _AT.items()
    }


def _mean(sources: Sequence[Mapping[str, NDArray[np.float64]]], field: str) -> NDArray[np.float64]:
    """The mean over all connections of all origins; NaN where there is none."""
    weights = np.stack([source["connections"] for source in sources])
    values = np.nan_to_num(np.stack([source[field] for source in sources]))
    count = weights.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray((values * weights).sum(axis=0) / np.where(count, count, np.nan))
