# SPDX-License-Identifier: Apache-2.0
"""The model of a cell: the time of a transfer, the ceiling of each part of site and path, and its fixed point. Pure.

Throughputs are in Gbit/s, sizes in Gbit, times in s; docs/simulation.md derives every formula. Columns of cells have
the shape (cells,). `p` is the model's parameters by name: arrays without dimensions, or (draws, 1), which broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import UNITS, Physics
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.dataset import SIMULATED, STATUS
from tpcsweep.paths.plan import SUPER_PACKET
from tpcsweep.tcp import HEADERS, slow_start
from tpcsweep.tools import TOOLS
from tpcsweep.variables import GBIT

Array = NDArray[np.float64]

TLS = 16384 / (16384 + 22)
"""Payload of a TLS 1.3 record of the largest size (RFC 8446, section 5): header 5, type 1, tag 16 bytes."""
NUMBERS = ("streams", "origins", "cores", "rtt", "bandwidth", "queue_limit", "mtu", "tcp_buffer", "file_size")
WORDS = ("endpoint", "tool", "layer", "encryption")
"""Parameters that the model knows: the numbers, and the words."""
ROUNDS = 12
"""Iterations for the fixed point. As more throughput costs more a byte, and by less than in proportion, each round
shrinks the relative error by (√(1+γ) − 1)/(√(1+γ) + 1) at least, a sixth for a spill γ of 1: 10⁻⁹ is left."""
PACED = 2**10
"""Packets that a stream sends in a second while they grow with its rate: each has the data of 2^-10 s at TCP's pace
(sk_pacing_shift; tcp_tso_autosize() in Linux' net/ipv4/tcp_output.c)."""
SEED = 2023
DISKS = {"memory_to_disk": (False, True), "disk_to_disk": (True, True)}
"""Layers with files on disks: whether the source's are, and the destination's."""


class ModelCells(NamedTuple):
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
    def of(cls, columns: Mapping[str, Any]) -> ModelCells:
        """Return the cells of columns of the parameters in NUMBERS and WORDS; no limit is None or inf."""
        numbers = [np.array([_number(value) for value in columns[name]]) for name in NUMBERS]
        redirected = (np.asarray(columns["endpoint"]) == "redirector") & (numbers[1] > 1)
        https = np.array([TOOLS[name].protocol == "https" for name in columns["tool"]])
        encrypted = https & (np.asarray(columns["encryption"]) != "none")
        endless = [name == "network" for name in columns["layer"]]
        disks = zip(*(DISKS.get(name, (False, False)) for name in columns["layer"]), strict=True)
        flags = (redirected, encrypted, endless, *disks)
        return cls(*numbers, *(np.array(flag, dtype=float) for flag in flags))


class Terms(NamedTuple):
    """The bounds of cells at some throughput."""

    setup: Array
    """Seconds of a transfer before its first byte."""
    rounds: Array
    """Round trips of slow start."""
    ramp: Array
    """Gbit that slow start moves."""
    stream: Array
    """The largest rate of a stream after slow start, alone on everything that it passes."""
    window: Array
    """The largest rate of a stream by its window."""
    demand: Array
    """The throughput of all streams without ceilings."""
    ceilings: Mapping[str, Array]
    """The largest throughput of each part, all its instances together."""


def model_cells(parameters: Iterable[Parameters]) -> ModelCells:
    cells = [*parameters]
    return ModelCells.of({name: [getattr(cell, name) for cell in cells] for name in (*NUMBERS, *WORDS)})


def central(physics: Physics) -> dict[str, Array]:
    """Return the values of parameters, each an array without dimensions; null is inf."""
    return {name: np.array(_number(getattr(physics, name).value)) for name in Physics.model_fields}


def _number(value: float | None) -> float:
    return np.inf if value is None else float(value)


def round_trip(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return the RTT in s, which is never below that of the site without any emulation."""
    return np.maximum(cells.rtt, p["base_rtt"]) / 1000


def payload_on_path(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return payload over bytes on the path."""
    records: Array = np.where(cells.encrypted > 0, TLS, 1.0)
    return records * (cells.mtu - HEADERS) / (cells.mtu + p["framing"])


def used_origins(cells: ModelCells) -> Array:
    """Return the origins with a stream: streams are dealt out to them in turn."""
    return np.minimum(cells.origins, cells.streams)


def usable_cores(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return the cores that an origin has and can use."""
    return np.minimum(np.minimum(cells.cores, p["host_cores"]) / cells.origins, p["instance_cores"])


def slowdown(cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return 1 + α·(n − 1): by how much an origin is slower when n streams are runnable on a core.

    A quota below one core still runs on one: what contends is threads for cores, not shares of a core.
    """
    a_core = cells.streams / used_origins(cells) / np.maximum(usable_cores(cells, p), 1)
    return 1 + p["contention"] * np.maximum(0, a_core - 1)


def spilling(throughput: Array, cells: ModelCells, p: Mapping[str, Array]) -> Array:
    """Return 1 + γ·x/(1 + x): the cost of a byte over that while data under way fit into the last-level cache."""
    x = throughput * round_trip(cells, p) / 8 * 1000 / p["cache"]
    return 1 + p["spill"] * x / (1 + x)


def packet(cells: ModelCells, p: Mapping[str, Array], queues: str) -> Array:
    """Return the payload in bytes of one packet of a queue limit, where the limit binds.

    Linux makes a packet of the data that a stream sends in 1/`PACED` s at its pacing rate, `queue_pacing` times its own
    rate: no less than `queue_segments` segments and no more than a super-packet. In between a stream sends
    `PACED`/`queue_pacing` packets a second at any rate, so that only their number decides: streams that are few enough
    for a queue's packets a second grow theirs to super-packets, and those of more shrink theirs to the least.
    """
    least = p["queue_segments"] * (cells.mtu - HEADERS)
    sharing = cells.streams / used_origins(cells) if queues == "origin" else cells.streams
    a_second = cells.queue_limit / (p["queue_delay"] * round_trip(cells, p))
    few = sharing * PACED / a_second <= p["queue_pacing"]
    return np.asarray(np.where(few, np.maximum(least, SUPER_PACKET - HEADERS), least))


def terms(throughput: Array, cells: ModelCells, p: Mapping[str, Array], queues: str) -> Terms:
    """Return the bounds of cells at a throughput, which decides how much of their data leaves the cache.

    `throughput` is (cells,) or (draws, cells); `queues` is "origin" if each origin has the queue of a queue limit, and
    otherwise the path has one.
    """
    rtt, share, used = round_trip(cells, p), payload_on_path(cells, p), used_origins(cells)
    cores, cost = usable_cores(cells, p), spilling(throughput, cells, p)
    file = np.where(cells.endless > 0, np.inf, cells.file_size * GBIT)
    window = p["window_share"] * cells.tcp_buffer * GBIT / rtt
    one_core = np.minimum(1, cores)
    queue = p["queue_use"] * cells.queue_limit * packet(cells, p, queues) * GBIT / (p["queue_delay"] * rtt)
    pool = cores / slowdown(cells, p)
    each = {
        # The set-up's CPU is spread over the bytes of the file.
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
    """Return the streams' demand under all ceilings."""
    return np.asarray(np.minimum.reduce(np.broadcast_arrays(at.demand, *at.ceilings.values())))


def solve(cells: ModelCells, p: Mapping[str, Array], queues: str) -> tuple[Array, Terms]:
    """Return the model's mean-field fixed point: throughput of all cells in Gbit/s, and their bounds at it.

    It is T = min(demand, every ceiling), where the cost of a byte depends on T. No transfer is simulated. The shape is
    (cells,), or (draws, cells) under parameters with draws.
    """
    throughput = np.zeros(np.broadcast_shapes(cells.streams.shape, *map(np.shape, p.values())))
    for _ in range(ROUNDS if np.any(p["spill"]) else 0):  # without spill nothing depends on T
        throughput = least(terms(throughput, cells, p, queues))
    at = terms(throughput, cells, p, queues)
    return least(at), at


def random_sets(physics: Physics, count: int) -> dict[str, Array]:
    """Return random parameter sets: each parameter (count, 1), or without dimensions if its range is a point.

    They are independent and uniform between low and high, of the logarithm if low is above 0: most are known to a
    factor. All cells and sweeps have the same sets, so that differences between cells are those within a set.
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
    """Return the factors of the throughput, (cells,) each, between which a share `confidence` of the sets lies.

    Both are factors of the fixed point, also for cells that SimGrid simulates; 1 is always within.
    """
    middle = solve(cells, central(physics), queues)[0]
    throughput = solve(cells, random_sets(physics, count), queues)[0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.broadcast_to(throughput, (count, middle.size)), [tail, 1 - tail], axis=0)
    return np.minimum(low / middle, 1), np.maximum(high / middle, 1)


def datasets(summary: xr.Dataset) -> Iterator[xr.Dataset]:
    """Yield a simulated dataset under each of its testbed's random parameter sets, on which claims are judged.

    Throughput and CPU are those of the fixed point; the interval is the throughput alone.

    Raises:
        ValueError: for a dataset that is not simulated, or whose cells have several testbeds' parameters.
    """
    settings = settings_of(summary)
    cells, over = cells_in(summary), summary["throughput"]
    ok = (summary["status"] == STATUS.index("ok")).values
    # The ratio of the largest second to the mean belongs to the course, which is the same in all sets.
    largest = summary.get("throughput_max", xr.zeros_like(over) * np.nan) / over
    sets = random_sets(settings.parameters, settings.draws)
    for number in range(settings.draws):
        p = {name: value[number, 0] if np.ndim(value) else value for name, value in sets.items()}
        figures = solved(cells, p, settings.queues)
        figures["throughput_max"] = largest.values.ravel() * figures["throughput"]
        shaped = {name: np.where(ok, values.reshape(over.shape), np.nan) for name, values in figures.items()}
        yield summary.assign({name: (over.dims, values) for name, values in shaped.items()})


def solved(cells: ModelCells, p: Mapping[str, Array], queues: str) -> dict[str, Array]:
    """Return a dataset's variables by the fixed point, each (cells,): throughput without a spread, and CPU."""
    throughput, at = solve(cells, p, queues)
    cores = used_origins(cells) * usable_cores(cells, p)
    names = ("throughput", "throughput_low", "throughput_high")
    busy = {f"{side}_cpu": cores * share for side, share in cpu_shares(throughput, at).items()}
    return dict.fromkeys(names, throughput) | busy


def cpu_shares(throughput: Array, at: Terms) -> dict[str, Array]:
    """Return the share of its usable cores that each side uses, by `source` and `destination`."""
    return {
        side: np.minimum(throughput / at.ceilings[f"cpu_{side}"], 1) for side in ("source", "destination")
    }


def settings_of(summary: xr.Dataset) -> Simulation:
    """Return the testbed that a dataset was simulated on, by its cells. Raises ValueError."""
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
    over = summary["throughput"]
    columns = {name: summary[name].broadcast_like(over).values.ravel() for name in (*NUMBERS, *WORDS)}
    return ModelCells.of(columns)
