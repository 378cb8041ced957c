# SPDX-License-Identifier: Apache-2.0
"""The model of a cell: transfer time, the ceilings of site and path, and their fixed point. Pure.

Throughputs are in Gbit/s, sizes in Gbit, times in s. docs/simulation.md derives every formula. Columns of cells have
the shape (cells,). `p` contains the model's parameters by name: scalar arrays, or arrays of shape (draws, 1), which
broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import GBIT
from tpcsweep.data.labels import SIMULATED, STATUS
from tpcsweep.deploying.paths.network_path import SUPER_PACKET
from tpcsweep.measuring.tcp import HEADERS, growth_rounds, payload, window_rate
from tpcsweep.measuring.throughput import demand, soft_minimum
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.simulation.physics import UNITS, Physics
from tpcsweep.testbeds.simulation.settings import Simulation

Array = NDArray[np.float64]

TLS = 16384 / (16384 + 22)
"""Payload share of the largest TLS 1.3 record (RFC 8446, section 5): header 5, type 1, tag 16 bytes."""
NUMBERS = ("streams", "origins", "cores", "rtt", "bandwidth", "queue_limit", "mtu", "tcp_buffer", "file_size")
WORDS = ("endpoint", "tool", "layer", "encryption")  # parameters of the model: numbers and words
ROUNDS = 12
"""Iterations for the fixed point, which leave a relative error of 10⁻⁹.

The cost of a byte rises with throughput, less than in proportion. Each round therefore shrinks the relative error by at
least (√(1+γ) − 1)/(√(1+γ) + 1), a sixth for a spill γ of 1.
"""
PACED = 2**10
"""Packets that a stream sends per second while their size grows with its rate.

Each packet has the data of 2^-10 s at TCP's pacing rate (sk_pacing_shift; tcp_tso_autosize() in Linux'
net/ipv4/tcp_output.c).
"""
SEED = 2023
DISKS = {"memory_to_disk": (False, True), "disk_to_disk": (True, True)}
"""Whether the source's files and the destination's files are on a disk, by layer."""


class ModelCells(NamedTuple):
    """The parameters of cells that the model uses, in the units of `Parameters`; inf means no limit."""

    streams: Array
    origins: Array
    cores: Array
    rtt: Array
    bandwidth: Array
    queue_limit: Array
    mtu: Array
    tcp_buffer: Array
    file_size: Array
    redirected: Array  # 1 if clients contact redirectors: more than one origin, and not direct
    encrypted: Array  # 1 if data are in TLS records
    endless: Array  # 1 if a stream is a single connection for the whole cell and moves no files
    reads: Array  # 1 if the source's files are on a disk
    writes: Array  # 1 if the destination's files are on a disk

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> ModelCells:
        """Return cells from columns of the parameters in NUMBERS and WORDS; None or inf means no limit."""
        numbers = [np.array([_number(value) for value in columns[name]]) for name in NUMBERS]
        redirected = (np.asarray(columns["endpoint"]) == "redirector") & (numbers[1] > 1)
        https = np.array([TOOLS[name].protocol == "https" for name in columns["tool"]])
        encrypted = https & (np.asarray(columns["encryption"]) != "none")
        endless = [name == "network" for name in columns["layer"]]
        disks = zip(*(DISKS.get(name, (False, False)) for name in columns["layer"]), strict=True)
        flags = (redirected, encrypted, endless, *disks)
        return cls(*numbers, *(np.array(flag, dtype=float) for flag in flags))


class Terms(NamedTuple):
    """The limits of cells at a throughput."""

    setup: Array  # time of a transfer before its first byte, s
    rounds: Array  # round trips of slow start, in addition to those of the set-up
    stream: Array  # the largest rate of a single stream after slow start, without contention
    window: Array  # the largest rate of a stream with its window
    demand: Array  # the total throughput of all streams without ceilings
    ceilings: Mapping[str, Array]  # the largest throughput of each component, for all its instances together


def model_cells(parameters: Iterable[Parameters]) -> ModelCells:
    cells = [*parameters]
    return ModelCells.from_columns(
        {name: [getattr(cell, name) for cell in cells] for name in (*NUMBERS, *WORDS)}
    )


def central(physics: Physics) -> dict[str, Array]:
    """Return the parameters' values as scalar arrays; null is inf."""
    return {name: np.array(_number(getattr(physics, name).value)) for name in Physics.model_fields}


def _number(value: float | None) -> float:
    return np.inf if value is None else float(value)


def round_trip(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return the RTT in s, at least that of the site without emulation."""
    return np.maximum(cells.rtt, p["base_rtt"]) / 1000


def payload_on_path(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return the ratio of payload to bytes on the path."""
    records: Array = np.where(cells.encrypted > 0, TLS, 1.0)
    return records * (cells.mtu - HEADERS) / (cells.mtu + p["framing"])


def used_origins(cells: ModelCells) -> Array:
    """Return the number of origins with a stream; streams use origins in turn."""
    return np.minimum(cells.origins, cells.streams)


def usable_cores(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return the cores that an origin can use."""
    return np.minimum(np.minimum(cells.cores, p["host_cores"]) / cells.origins, p["instance_cores"])


def slowdown(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return 1 + α·(n − 1), the slowdown of an origin with n runnable streams per core.

    A quota below one core still uses one core: threads contend for cores, not for shares of a core.
    """
    a_core = cells.streams / used_origins(cells) / np.maximum(usable_cores(cells, p), 1)
    return 1 + p["contention"] * np.maximum(0, a_core - 1)


def packet(cells: ModelCells, p: Mapping[str, Array], queues: str) -> Array:
    """Return the payload in bytes of a packet that counts towards a binding queue limit.

    Linux puts the data that a stream sends in 1/`PACED` s into one packet, at a pacing rate of `queue_pacing` times the
    stream's rate. A packet has between `queue_segments` segments and a super-packet. Between these bounds a stream
    sends `PACED`/`queue_pacing` packets per second at any rate, so only the number of streams matters: if the queue
    allows that many packets, they grow to super-packets, otherwise they shrink to the minimum.
    """
    least = p["queue_segments"] * (cells.mtu - HEADERS)
    sharing = cells.streams / used_origins(cells) if queues == "origin" else cells.streams
    a_second = cells.queue_limit / (p["queue_delay"] * round_trip(cells, p))
    few = sharing * PACED / a_second <= p["queue_pacing"]
    return np.asarray(np.where(few, np.maximum(least, SUPER_PACKET - HEADERS), least))


def terms(throughput: Array, cells: ModelCells, p: Mapping[str, Array], queues: str) -> Terms:
    """Return the limits of cells at a throughput, which determines how many data leave the cache.

    tpcsweep.measuring.throughput has the law; this function derives its terms from a testbed's parameters.
    `throughput` is (cells,) or (draws, cells). With `queues` "origin" each origin has a queue of `queue_limit`;
    otherwise the path has one.
    """
    rtt, share, used = round_trip(cells, p), payload_on_path(cells, p), used_origins(cells)
    # A byte costs more when data in flight exceed the last-level cache.
    x = throughput * rtt / 8 * 1000 / p["cache"]
    cores, cost = usable_cores(cells, p), 1 + p["spill"] * x / (1 + x)
    file_size = np.where(cells.endless > 0, np.inf, cells.file_size)
    window = window_rate(p["window_share"] * cells.tcp_buffer, 1000 * rtt)
    one_core = np.minimum(1, cores)
    queued = p["queue_use"] * cells.queue_limit * packet(cells, p, queues)
    queue = window_rate(queued, p["queue_delay"] * 1000 * rtt)
    pool = cores / slowdown(cells, p)
    each = {}
    for side in ("source", "destination"):  # the file's bytes share the CPU time of its set-up
        each[f"cpu_{side}"] = pool * (
            1 / (cost / p[f"core_rate_{side}"] + p["setup_cpu"] / (file_size * GBIT))
        )
    each["interface"] = p["nic_rate"] * share
    shared = {
        "server": p["server_rate"],
        "path": cells.bandwidth * share * p["saturation"],
        "disk_read": np.where(cells.reads > 0, p["disk_read_rate"], np.inf),
        "disk_write": np.where(cells.writes > 0, p["disk_write_rate"], np.inf),
    }
    (each if queues == "origin" else shared)["path_queue"] = queue
    # One core moves a stream's bytes, and no component on its way allows more; set-up is separate.
    core = one_core * np.minimum(p["core_rate_source"], p["core_rate_destination"]) / cost
    passed = [value for name, value in {**each, **shared}.items() if not name.startswith("cpu")]
    stream = np.minimum.reduce(np.broadcast_arrays(window, core, *passed))
    # A stream without files has only the connection's handshake.
    seconds = p["setup_time"] + cells.redirected * p["redirector_time"] + p["setup_cpu"] / one_core
    seconds = np.where(cells.endless > 0, 0.0, seconds)
    trips = np.where(cells.endless > 0, 1.0, p["setup_rtts"] + cells.redirected * p["redirector_rtts"])
    # The window doubles each round trip until it reaches the stream's rate or the file ends (RFC 5681).
    largest = np.minimum(file_size, stream * rtt / GBIT)
    rounds = growth_rounds(largest, p["initial_window"] * payload(cells.mtu))
    total = demand(cells.streams, stream, seconds, trips + rounds, 1000 * rtt, file_size)
    ceilings = {**{name: used * value for name, value in each.items()}, **shared}
    return Terms(seconds + trips * rtt, rounds, stream, window, total, ceilings)


def least(at: Terms) -> Array:
    """Return the streams' demand, limited by all ceilings."""
    return soft_minimum([at.demand, *at.ceilings.values()])


def solve(cells: ModelCells, p: Mapping[str, Array], queues: str) -> tuple[Array, Terms]:
    """Return the model's mean-field fixed point: throughput of all cells in Gbit/s, and their limits.

    T = min(demand, every ceiling), in which the cost of a byte depends on T. The shape is (cells,), or (draws, cells)
    for parameters with draws.
    """
    throughput = np.zeros(np.broadcast_shapes(cells.streams.shape, *map(np.shape, p.values())))
    for _ in range(ROUNDS if np.any(p["spill"]) else 0):  # without spill no term depends on T
        throughput = least(terms(throughput, cells, p, queues))
    at = terms(throughput, cells, p, queues)
    return least(at), at


def random_sets(physics: Physics, count: int) -> dict[str, Array]:
    """Return random parameter sets: each parameter is (count, 1), or scalar if its range is a point.

    Parameters are independent and uniform between low and high, on a logarithmic scale if low is above 0, because most
    are known to within a factor. All cells and sweeps use the same sets, so that cells can be compared within a set.
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


def spread(
    cells: ModelCells, physics: Physics, queues: str, count: int, confidence: float
) -> tuple[Array, Array]:
    """Return factors of the throughput, (cells,) each, that enclose a share `confidence` of the sets.

    Both are relative to the fixed point, and enclose 1.
    """
    middle = solve(cells, central(physics), queues)[0]
    throughput = solve(cells, random_sets(physics, count), queues)[0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.broadcast_to(throughput, (count, middle.size)), [tail, 1 - tail], axis=0)
    return np.minimum(low / middle, 1), np.maximum(high / middle, 1)


def datasets(summary: xr.Dataset) -> Iterator[xr.Dataset]:
    """Yield a simulated dataset with each random parameter set of its testbed, to judge claims on.

    Throughput and CPU come from the fixed point; the interval equals the throughput. Raises ValueError for a dataset
    that is not simulated, or whose cells have different parameters.
    """
    settings = simulation_settings(summary)
    cells, throughput = cells_in(summary), summary["throughput"]
    ok = (summary["status"] == STATUS.index("ok")).values
    sets = random_sets(settings.parameters, settings.draws)
    for number in range(settings.draws):
        p = {name: value[number, 0] if np.ndim(value) else value for name, value in sets.items()}
        figures = solved(cells, p, settings.queues)
        shaped = {name: np.where(ok, values.reshape(ok.shape), np.nan) for name, values in figures.items()}
        yield summary.assign({name: (throughput.dims, values) for name, values in shaped.items()})


def solved(cells: ModelCells, p: Mapping[str, Array], queues: str) -> dict[str, Array]:
    """Return a dataset's variables from the fixed point, (cells,): CPU, and throughput without spread."""
    throughput, at = solve(cells, p, queues)
    cores = used_origins(cells) * usable_cores(cells, p)
    names = ("throughput", "throughput_low", "throughput_high", "throughput_max")
    busy = {f"{side}_cpu": cores * share for side, share in cpu_shares(throughput, at).items()}
    return dict.fromkeys(names, throughput) | busy


def cpu_shares(throughput: Array, at: Terms) -> dict[str, Array]:
    """Return the used share of usable cores for `source` and `destination`."""
    return {
        side: np.minimum(throughput / at.ceilings[f"cpu_{side}"], 1) for side in ("source", "destination")
    }


def simulation_settings(summary: xr.Dataset) -> Simulation:
    """Return the testbed of a simulated dataset, from its cells. Raises ValueError."""
    if summary.attrs.get("testbed_kind") != SIMULATED:
        raise ValueError("not a simulated dataset: it has no parameter sets")
    records = summary["provenance_record"].values
    known = {orjson.dumps(orjson.loads(str(record))["simulation"]) for record in records}
    if len(known) != 1:
        raise ValueError(f"cells of {len(known)} sets of parameters: run snakemake again on one testbed")
    settings = orjson.loads(known.pop())
    of_dataset, of_model = set(settings["parameters"]), set(UNITS)
    if of_dataset != of_model:
        differences = (("unknown", of_dataset - of_model), ("missing", of_model - of_dataset))
        named = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in differences if names)
        raise ValueError(f"simulated by another version of the model (parameters {named}): simulate it again")
    settings["parameters"] = {
        name: {"value": value, "low": low, "high": high, "unit": UNITS[name], "source": "as the dataset says"}
        for name, (value, low, high) in settings["parameters"].items()
    }
    return Simulation.model_validate({"kind": SIMULATED, **settings})


def cells_in(summary: xr.Dataset) -> ModelCells:
    """Return the parameters of a dataset's cells, flattened in the order of its dimensions."""
    throughput = summary["throughput"]
    columns = {name: summary[name].broadcast_like(throughput).values.ravel() for name in (*NUMBERS, *WORDS)}
    return ModelCells.from_columns(columns)
