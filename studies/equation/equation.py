# SPDX-License-Identifier: Apache-2.0
"""The equation: streams, cores, origins and buffers for a throughput at an RTT, as pure functions.

The equation is the model `combined`, solved for them. Streams and servers bind equally, and a stream has at most one
core; docs/studies.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tpcsweep import throughput
from tpcsweep.tcp import first_window, mathis, payload, slow_start, window_rate
from tpcsweep.variables import GBIT, GBIT_PER_MS

INSTANCE_CORES = 16
"""Cores that one origin uses; by the claim chep2024.instance_cores an origin does not scale further."""

_ROUNDS = 50  # of the search for the number of streams, on which the number of busy origins depends


@dataclass(frozen=True)
class Path:
    """Path, its hosts' buffers, and the files."""

    rtt: float
    """ms."""
    bandwidth: float
    """Gbit/s."""
    file_size: float
    """Bytes."""
    mtu: float = 1500
    """Bytes."""
    tcp_buffer: float | None = None
    """Bytes, or None for as many as needed."""


@dataclass(frozen=True)
class Needed:
    """Required setting on each side."""

    streams: int
    cores: float
    """Total over the origins."""
    origins: int
    tcp_buffer: float
    """Bytes of the largest window that a stream uses, as the third number of tcp_rmem and tcp_wmem."""
    stream: float
    """Gbit/s of a stream, including its pauses between files."""
    headroom: float
    """Capacity of the streams, and of the servers, over the throughput."""


def needed(
    target: float, path: Path, constants: Mapping[str, float], origins: int | None = None
) -> Needed | None:
    """Return the setting for a throughput at even odds, or None if path or client cannot reach it.

    Args:
        target: Gbit/s.
        path: Path, buffers and files.
        constants: Parameters of the model `combined`, as in a fit of it.
        origins: Origins of each side; by default one for every `INSTANCE_CORES` cores.
    """
    q = constants["sharpness"]
    fixed = (constants["efficiency"] * path.bandwidth, constants["client"] * path.file_size * GBIT)
    rest = target**-q - sum(limit**-q for limit in fixed)
    if rest <= 0:
        return None
    # The soft minimum for two equal limits in addition to the fixed ones.
    each = (2 / rest) ** (1 / q)
    if origins is not None:
        return _with(origins, each, target, path, constants)
    count = 1 + math.floor(each / constants["instance"])
    while True:
        found = _with(count, each, target, path, constants)
        if found is not None and found.cores <= INSTANCE_CORES * count:
            return found
        count += 1


def _with(
    count: int, each: float, target: float, path: Path, constants: Mapping[str, float]
) -> Needed | None:
    """Return the setting with `count` origins, or None if these cannot reach the target."""
    busy, crowd = float(count), 0.0
    for _ in range(_ROUNDS):
        origin = each * (1 + constants["crowding"] * crowd) / busy
        if origin >= constants["instance"]:
            return None
        stream = _stream(origin, path, constants, count)
        streams = math.ceil(each / stream - 1e-9)
        at_work = float(throughput.busy_origins(streams, count))
        further = max(streams / count - 1, 0.0)
        if math.isclose(at_work, busy) and further == crowd:
            break
        busy, crowd = at_work, further
    cores = _cores(constants["per_core"] * (1 / origin - 1 / constants["instance"]), constants["coherency"])
    if cores is None:
        return None
    # Buffer with which no window binds a stream on its own origin.
    unbound = _most(origin, path, constants) * (path.rtt + constants["base"]) / GBIT_PER_MS
    window = path.tcp_buffer or unbound / constants["window"]
    return Needed(streams, count * cores, count, window, stream, each / target)


def _cores(each: float, coherency: float) -> float | None:
    """Solve 1/c + γ max(c − 1, 0) = `each` for the cores c; None without solution. γ is `coherency`."""
    if each >= 1:
        return 1 / each
    half = (coherency + each) / 2
    inside = half**2 - coherency
    return 1 / (half + math.sqrt(inside)) if inside >= 0 else None


def _stream(origin: float, path: Path, constants: Mapping[str, float], origins: int) -> float:
    """Return the Gbit/s of one stream, of which an origin handles at most `origin`."""
    rtt = path.rtt + constants["base"]
    connection = float(mathis(payload(path.mtu), rtt, constants["background"]))
    if path.tcp_buffer is not None:
        connection = min(connection, float(window_rate(constants["window"] * path.tcp_buffer, rtt)))
    alone = min(connection, _most(origin, path, constants))
    first = window_rate(first_window(path.mtu), rtt)
    trips = constants["handshakes"] + float(slow_start(alone, first))
    trips += constants["redirection"] * (origins > 1)
    return float(throughput.demand(1, alone, constants["setup"], trips, rtt, path.file_size))


def _most(origin: float, path: Path, constants: Mapping[str, float]) -> float:
    """Return the Gbit/s of a stream without window limit; `combined` lacks the limit of its one core."""
    return min(constants["efficiency"] * path.bandwidth, origin, constants["per_core"])
