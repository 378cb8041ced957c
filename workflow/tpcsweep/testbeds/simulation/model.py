# SPDX-License-Identifier: Apache-2.0
"""The model of a cell: what a transfer takes, what each part of site and path lets through, and its fixed point. Pure.

Throughputs are in Gbit/s, sizes in Gbit, times in s; docs/simulation.md derives every formula. Columns of cells have
the shape (cells,). `p` is the model's parameters by name: arrays without dimensions, or (draws, 1), which broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Physics
from tpcsweep.paths.plan import SUPER_PACKET
from tpcsweep.tcp import HEADERS, slow_start
from tpcsweep.tools import TOOLS
from tpcsweep.variables import GBIT

Array = NDArray[np.float64]

TLS = 16384 / (16384 + 22)
"""Payload of a TLS 1.3 record of the largest size (RFC 8446, section 5): header 5, type 1, tag 16 bytes."""
NUMBERS = (
    "streams",
    "origins",
    "cores",
    "rtt",
    "bandwidth",
    "queue_limit",
    "mtu",
    "tcp_buffer",
    "file_size",
)
WORDS = ("endpoint", "tool", "layer", "encryption")
"""Parameters that the model knows: those that are numbers, and those that are words."""
ROUNDS = 12
"""Of iteration for the fixed point. As more throughput costs more a byte, and by less than in proportion, each round
shrinks the relative error by (√(1+γ) − 1)/(√(1+γ) + 1) at least, a sixth for a spill γ of 1: 10⁻⁹ is left."""
PACED = 2**10
"""Packets that a stream sends in a second while they grow with its rate: each is what it sends, at the pace that TCP
gives it, in 2^-10 s (sk_pacing_shift; tcp_tso_autosize() in Linux' net/ipv4/tcp_output.c)."""
SEED = 2023
DISKS = {"memory_to_disk": (False, True), "disk_to_disk": (True, True)}
"""Of layers with files on disks: whether the source's are, and the destination's."""


class Cells(NamedTuple):
    """The parameters of cells that the model knows, in the units of `Parameters`; no limit is inf."""

    streams: Array
    origins: Array
    cores: Array
    rtt: Array
    bandwidth: Array
    queue_limit: Array
    mtu: Array
    tcp_buffer: Array
    file_size: Array
    redirected: Array
    """1 where redirectors are asked: more than one origin, and not direct."""
    encrypted: Array
    """1 where data go in TLS records."""
    endless: Array
    """1 where a stream is one connection as long as the cell, and moves no files."""
    reads: Array
    """1 where the source's files are on a disk."""
    writes: Array
    """1 where the destination's are."""

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Cells:
        """Cells by columns of the parameters in NUMBERS and WORDS; no limit is None or inf."""
        numbers = [np.array([_number(value) for value in columns[name]]) for name in NUMBERS]
        redirected = (np.asarray(columns["endpoint"]) == "redirector") & (numbers[1] > 1)
        https = np.array([TOOLS[name].protocol == "https" for name in columns["tool"]])
        encrypted = https & (np.asarray(columns["encryption"]) != "none")
        endless = [name == "network" for name in columns["layer"]]
        disks = zip(*(DISKS.get(name, (False, False)) for name in columns["layer"]), strict=True)
        flags = (redirected, encrypted, endless, *disks)
        return cls(*numbers, *(np.array(flag, dtype=float) for flag in flags))


class Terms(NamedTuple):
    """What bounds cells at some throughput."""

    setup: Array
    """Seconds of a transfer before its first byte."""
    rounds: Array
    """Round trips of slow start."""
    ramp: Array
    """Gbit that slow start moves."""
    stream: Array
    """What a stream reaches at most after slow start, alone on everything that it passes."""
    window: Array
    """What its window leaves it."""
    demand: Array
    """What all streams would reach by themselves."""
    ceilings: Mapping[str, Array]
    """What each part lets through, all its instances together."""


def cells_of(parameters: Iterable[Parameters]) -> Cells:
    """Columns of some cells."""
    cells = [*parameters]
    return Cells.of({name: [getattr(cell, name) for cell in cells] for name in (*NUMBERS, *WORDS)})


def central(physics: Physics) -> dict[str, Array]:
    """The values of parameters, each an array without dimensions; null is inf."""
    return {name: np.array(_number(getattr(physics, name).value)) for name in Physics.model_fields}


def _number(value: float | None) -> float:
    """A number, where None stands for no limit."""
    return np.inf if value is None else float(value)


def round_trip(cells: Cells, p: Mapping[str, Array]) -> Array:
    """RTT in s, which is never below what the site has without any emulation."""
    return np.maximum(cells.rtt, p["base_rtt"]) / 1000


def payload_share(cells: Cells, p: Mapping[str, Array]) -> Array:
    """Payload over bytes on the path."""
    records: Array = np.where(cells.encrypted > 0, TLS, 1.0)
    return records * (cells.mtu - HEADERS) / (cells.mtu + p["framing"])


def used_origins(cells: Cells) -> Array:
    """Origins that have a stream: streams are dealt out to them in turn."""
    return np.minimum(cells.origins, cells.streams)


def instance_cores(cells: Cells, p: Mapping[str, Array]) -> Array:
    """Cores that an origin has and can use."""
    return np.minimum(np.minimum(cells.cores, p["host_cores"]) / cells.origins, p["instance_cores"])


def slowdown(cells: Cells, p: Mapping[str, Array]) -> Array:
    """CPU of an origin over what is left of it when more streams are runnable than cores: 1 + α·(n − 1).

    A quota below one core still runs on one: what contends is threads for cores, not shares of a core.
    """
    a_core = cells.streams / used_origins(cells) / np.maximum(instance_cores(cells, p), 1)
    return 1 + p["contention"] * np.maximum(0, a_core - 1)


def spilling(throughput: Array, cells: Cells, p: Mapping[str, Array]) -> Array:
    """What a byte costs over what it costs while data under way fit into the last-level cache: 1 + γ·x/(1 + x)."""
    x = throughput * round_trip(cells, p) / 8 * 1000 / p["cache"]
    return 1 + p["spill"] * x / (1 + x)


def packet(cells: Cells, p: Mapping[str, Array], queues: str) -> Array:
    """Payload in bytes of what a queue limit counts as one packet, where the limit binds.

    Linux makes a packet of what a stream sends in 1/`PACED` s at its pacing rate, `queue_pacing` times its own: no less
    than `queue_segments` segments and no more than a super-packet. In between a stream sends `PACED`/`queue_pacing`
    packets a second at any rate, so that only their number decides: streams that are few enough for a queue's packets
    a second grow theirs to super-packets, and those of more shrink theirs to the least.
    """
    least = p["queue_segments"] * (cells.mtu - HEADERS)
    sharing = cells.streams / used_origins(cells) if queues == "origin" else cells.streams
    a_second = cells.queue_limit / (p["queue_delay"] * round_trip(cells, p))
    few = sharing * PACED / a_second <= p["queue_pacing"]
    return np.asarray(np.where(few, np.maximum(least, SUPER_PACKET - HEADERS), least))


def terms(throughput: Array, cells: Cells, p: Mapping[str, Array], queues: str) -> Terms:
    """What bounds cells while they have a throughput, which decides how much of their data leaves the cache.

    `throughput` is (cells,) or (draws, cells); `queues` is "origin" where each origin has the queue of a queue limit,
    and else the path has one.
    """
    rtt, share, used = round_trip(cells, p), payload_share(cells, p), used_origins(cells)
    cores, cost = instance_cores(cells, p), spilling(throughput, cells, p)
    file = np.where(cells.endless > 0, np.inf, cells.file_size * GBIT)
    window = p["window_share"] * cells.tcp_buffer * GBIT / rtt
    one_core = np.minimum(1, cores)
    queue = p["queue_use"] * cells.queue_limit * packet(cells, p, queues) * GBIT / (p["queue_delay"] * rtt)
    pool = cores / slowdown(cells, p)
    each = {
        # What each file costs is spread over its bytes.
        **{
            f"cpu_{side}": pool * (1 / (cost / p[f"core_rate_{side}"] + p["setup_cpu"] / file))
            for side in ("source", "destination")
        },
        "interface": p["nic_rate"] * share,
    }
    shared = {
        "server": p["server_rate"],
        "path": cells.bandwidth * share * p["saturation"],
        "disk_read": np.where(cells.reads > 0, p["disk_read_rate"], np.inf),
        "disk_write": np.where(cells.writes > 0, p["disk_write_rate"], np.inf),
    }
    (each if queues == "origin" else shared)["path_queue"] = queue
    # One core moves the bytes of a stream (its set-up takes time of its own), and nothing on its way lets more through.
    core = one_core * np.minimum(p["core_rate_source"], p["core_rate_destination"]) / cost
    passed = [value for name, value in {**each, **shared}.items() if not name.startswith("cpu")]
    stream = np.minimum.reduce(np.broadcast_arrays(window, core, *passed))
    files = (
        p["setup_time"]
        + p["setup_rtts"] * rtt
        + cells.redirected * (p["redirector_time"] + p["redirector_rtts"] * rtt)
        + p["setup_cpu"] / one_core
    )
    setup = np.where(cells.endless > 0, rtt, files)  # a connection alone
    first = p["initial_window"] * (cells.mtu - HEADERS) * GBIT
    # The window doubles each round trip until the stream's rate is reached or the file is sent (RFC 5681).
    rounds = np.minimum(np.maximum(np.log2(stream * rtt / first), 0), slow_start(file, first))
    ramp = first * (2**rounds - 1)
    demand = cells.streams / ((setup + rounds * rtt - ramp / stream) / file + 1 / stream)
    ceilings = {**{name: used * value for name, value in each.items()}, **shared}
    return Terms(setup, rounds, ramp, stream, window, demand, ceilings)


def least(at: Terms) -> Array:
    """What is left of the streams' demand under all ceilings."""
    return np.asarray(np.minimum.reduce(np.broadcast_arrays(at.demand, *at.ceilings.values())))


def solve(cells: Cells, p: Mapping[str, Array], queues: str) -> tuple[Array, Terms]:
    """The model's mean-field fixed point: throughput of all cells in Gbit/s, and what bounds them at it.

    It is T = min(what the streams demand, every ceiling), where the cost of a byte depends on T. No transfer is
    simulated. The shape is (cells,), or (draws, cells) under parameters with draws.
    """
    throughput = np.zeros(
        np.broadcast_shapes(cells.streams.shape, *(np.shape(value) for value in p.values()))
    )
    for _ in range(ROUNDS if np.any(p["spill"]) else 0):  # without spill nothing depends on T
        throughput = least(terms(throughput, cells, p, queues))
    at = terms(throughput, cells, p, queues)
    return least(at), at


def drawn(physics: Physics, count: int) -> dict[str, Array]:
    """Random parameter sets, each parameter (count, 1), or without dimensions where its range is a point.

    Independent, uniform between low and high, of the logarithm where low is above 0: most are known to a factor.
    The same for all cells and sweeps, so that what differs between cells differs within a set.
    """
    generator = np.random.default_rng(SEED)
    values = central(physics)
    for name in values:
        share = generator.uniform(size=(count, 1))
        low, high = getattr(physics, name).range
        if low is None or high is None or low == high:
            continue
        values[name] = low * (high / low) ** share if low > 0 else low + (high - low) * share
    return values


def spread(cells: Cells, physics: Physics, queues: str, count: int, confidence: float) -> tuple[Array, Array]:
    """Between which factors of the throughput a share `confidence` of the parameter sets lies: two arrays (cells,).

    Each factor is one of the fixed point, for what is simulated otherwise too; 1 is always within.
    """
    middle = solve(cells, central(physics), queues)[0]
    throughput = solve(cells, drawn(physics, count), queues)[0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.broadcast_to(throughput, (count, middle.size)), [tail, 1 - tail], axis=0)
    return np.minimum(low / middle, 1), np.maximum(high / middle, 1)
