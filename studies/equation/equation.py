# SPDX-License-Identifier: Apache-2.0
"""The equation: streams, cores, origins and buffers that a throughput takes at an RTT. Pure.

It is the model `combined` solved for them, where streams and servers are to bind alike, and a stream has one core at
most; docs/equation.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tpcsweep.models.formulas import mathis_rate
from tpcsweep.tcp import HEADERS, INITIAL_WINDOW, slow_start, window_rate
from tpcsweep.variables import GBIT, GBIT_PER_MS

INSTANCE_CORES = 16
"""Cores that one origin uses. Not found here: by the claim chep2024.instance_cores it does not scale past them."""

_ROUNDS = 50  # of the search for the streams that keep as many origins busy as they were computed with


@dataclass(frozen=True)
class Path:
    """What is given: the path, its hosts' buffers, and the files."""

    rtt: float
    """ms."""
    bandwidth: float
    """Gbit/s."""
    file_size: float
    """Bytes."""
    mtu: float = 1500
    """Bytes."""
    tcp_buffer: float | None = None
    """Bytes; None: as large as is needed."""


@dataclass(frozen=True)
class Needed:
    """What a throughput takes, of each side."""

    streams: int
    cores: float
    """In total over the origins."""
    origins: int
    tcp_buffer: float
    """Bytes: the largest window that a stream uses, as the third number of tcp_rmem and tcp_wmem."""
    stream: float
    """Gbit/s of a stream, its pauses between files included."""
    headroom: float
    """What streams and servers must each be able to do, over the throughput."""


def needed(
    target: float, path: Path, constants: Mapping[str, float], origins: int | None = None
) -> Needed | None:
    """Give what a throughput takes, at even odds; None where the path or the client has not so much.

    Args:
        target: Gbit/s.
        path: What is given.
        constants: The parameters of the model `combined`, as of a fit to it.
        origins: Of each side; None: one for every `INSTANCE_CORES` cores.
    """
    q = constants["sharpness"]
    fixed = (constants["efficiency"] * path.bandwidth, constants["client"] * path.file_size * GBIT)
    rest = target**-q - sum(limit**-q for limit in fixed)
    if rest <= 0:
        return None
    # The soft minimum, for two limits that are alike beside those that are fixed.
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
    """What it takes with so many origins; None where these have not so much."""
    busy, crowd = float(count), 0.0
    for _ in range(_ROUNDS):
        origin = each * (1 + constants["crowding"] * crowd) / busy
        if origin >= constants["instance"]:
            return None
        stream = _stream(origin, path, constants, count)
        streams = math.ceil(each / stream - 1e-9)
        # Streams that fall on origins by chance leave some without any.
        at_work = count * -math.expm1(streams * math.log1p(-1 / count)) if count > 1 else 1.0
        further = max(streams / count - 1, 0.0)
        if math.isclose(at_work, busy) and further == crowd:
            break
        busy, crowd = at_work, further
    cores = _cores(constants["per_core"] * (1 / origin - 1 / constants["instance"]), constants["coherency"])
    if cores is None:
        return None
    window = path.tcp_buffer or _window(origin, path, constants)
    return Needed(streams, count * cores, count, window, stream, each / target)


def _cores(each: float, coherency: float) -> float | None:
    """Cores c of an origin with 1/c + γ max(c − 1, 0) = `each`; None where γ, the `coherency`, lets no number do."""
    if each >= 1:
        return 1 / each
    half = (coherency + each) / 2
    inside = half**2 - coherency
    return 1 / (half + math.sqrt(inside)) if inside >= 0 else None


def _stream(origin: float, path: Path, constants: Mapping[str, float], origins: int) -> float:
    """Gbit/s of one stream, of which an origin does at most `origin`."""
    rtt = path.rtt + constants["base"]
    connection = float(mathis_rate(_points(path), np.array([rtt]), constants["background"])[0])
    if path.tcp_buffer is not None:
        connection = min(connection, float(window_rate(constants["window"] * path.tcp_buffer, rtt)))
    alone = min(connection, _most(origin, path, constants))
    first = window_rate(INITIAL_WINDOW * (path.mtu - HEADERS), rtt)
    trips = (
        constants["handshakes"] + constants["redirection"] * (origins > 1) + float(slow_start(alone, first))
    )
    pause = 1e3 * constants["setup"] + rtt * trips
    return 1 / (1 / alone + pause / (GBIT_PER_MS * path.file_size))


def _most(origin: float, path: Path, constants: Mapping[str, float]) -> float:
    """Gbit/s of a stream without a window: one core moves its bytes, which `combined` does not know of."""
    return min(constants["efficiency"] * path.bandwidth, origin, constants["per_core"])


def _window(origin: float, path: Path, constants: Mapping[str, float]) -> float:
    """Bytes of a buffer with which no window binds a stream that has an origin to itself."""
    return (
        _most(origin, path, constants) * (path.rtt + constants["base"]) / (GBIT_PER_MS * constants["window"])
    )


def _points(path: Path) -> dict[str, np.ndarray]:
    return {"mtu": np.array([path.mtu], float), "loss": np.zeros(1)}
