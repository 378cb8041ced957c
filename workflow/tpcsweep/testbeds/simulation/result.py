# SPDX-License-Identifier: Apache-2.0
"""The results of simulated cells; quantities that only measurements provide are null. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tpcsweep.common import numbers
from tpcsweep.common.numbers import GBIT
from tpcsweep.data.cell_result import CellResult, Summary
from tpcsweep.data.flag_rules import Evidence, raised_flags
from tpcsweep.data.variables import NONE_FOUND, SHARES, SUMMARY, TRANSFERS
from tpcsweep.measuring.limits import binding
from tpcsweep.measuring.transfers import MOST_ROWS
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.simulation import fixed_point
from tpcsweep.testbeds.simulation.fixed_point import Array, ModelCells, Terms
from tpcsweep.testbeds.simulation.settings import Simulation

SAMPLES = 2  # the most samples of a cell: enough to draw its constant goodput
ENDLESS = 10.0  # seconds of a cell without files that ends when it is steady
REACHED = 0.95  # the share of a ceiling, or of the streams' demand, from which it counts as binding
CEILING_LIMITS = {"interface": "bandwidth", "path": "bandwidth", "disk_read": "disk", "disk_write": "disk"}
"""The limit of a cell that corresponds to one of `Terms.ceilings`, if their names differ."""
_DERIVED = ("cell", "startup", "sending", "total", "rate")


def results(
    wanted: Sequence[Parameters], settings: Simulation, measurement: Measurement
) -> Iterator[CellResult]:
    """Yield the results of cells as `measuring.cell.measure` returns them, at the model's fixed point.

    A cell is in steady state from its start to its end: it has no warm-up, and its goodput is constant. Intervals
    contain a share `confidence` of the results under random parameter sets.
    """
    cells, p = fixed_point.model_cells(wanted), fixed_point.central(settings.parameters)
    throughput, _ = fixed_point.solve(cells, p, settings.queues)
    at = fixed_point.terms(throughput, cells, p, settings.queues)
    durations, ended = course(throughput, cells, measurement)
    steps, counts = _samples(durations, measurement.interval)
    figures = _figures(throughput, cells, at, settings, measurement.confidence)
    courses = {"duration": durations, "ended": ended, "step": steps, "count": counts, "setup": at.setup}
    columns = _rows({**figures, **courses}, len(wanted))
    used = {**at.ceilings, "demand": at.demand}
    shares = _rows({name: throughput / most for name, most in used.items()}, len(wanted))
    windowed = (at.stream >= at.window).tolist()
    for one, row, shared, by_window in zip(wanted, columns, shares, windowed, strict=True):
        bound = time_shares(shared, row["ramp"], by_window)
        rate, has_files = row["throughput"], one.layer != "network"
        counted = measurement.until == "files" and has_files
        known = {
            **row,
            "throughput_average": rate,
            "throughput_max": rate,
            "warmup": 0.0,
            # Simulated streams are equal. Measured cells without files lack these values too.
            "fairness": 1.0 if has_files else None,
            "transfers": one.streams * row["ended"] if has_files else 0,
            **{name: bound[limit] for limit, name in SHARES.items()},
            **({} if one.cores else dict.fromkeys(("source_quota_used", "destination_quota_used"))),
        }
        summary = Summary({name: _number(known.get(name)) for name in SUMMARY})
        files = (measurement.files or 0) * one.streams if counted else 0
        evidence = Evidence(status="ok", summary=summary, bandwidth=one.bandwidth, files=files)
        yield CellResult(
            status="ok",
            flags=raised_flags(evidence),
            limit=binding(bound),
            summary=summary,
            samples={
                "time": [_number((place + 1) * row["step"]) for place in range(row["count"])],
                "goodput": [_number(rate)] * row["count"],
            },
            transfers=_listed(one, row["ended"] if counted else 0, rate, row["setup"]),
        )


def course(throughput: Array, cells: ModelCells, measurement: Measurement) -> tuple[Array, Array]:
    """Return the seconds of cells, and the number of files that each of their streams ends; both (cells,).

    `throughput` is in Gbit/s. A cell that ends when it is steady has one file of each stream.
    """
    each = cells.streams * cells.file_size * GBIT / throughput
    if measurement.until == "steady":
        return np.where(cells.endless > 0, ENDLESS, each), np.ones_like(each)
    files = np.inf if measurement.files is None else measurement.files
    durations = np.minimum(files * each, measurement.bounds[1])
    return durations, np.minimum(np.floor(durations / each * (1 + 1e-9)), files)  # in spite of rounding


def _samples(durations: Array, interval: float) -> tuple[Array, Array]:
    """Return the length in s and the number of a cell's samples, which are at least `interval` seconds apart."""
    # Use few distinct steps, because each time is a position on the dataset's time axis.
    steps = interval * 4 ** np.floor(np.log(np.maximum(durations / SAMPLES / interval, 1)) / np.log(4))
    return steps, np.clip(durations // steps, 1, SAMPLES).astype(int)


def _figures(
    throughput: Array, cells: ModelCells, at: Terms, settings: Simulation, confidence: float
) -> dict[str, Array]:
    """Return the summary's variables that do not depend on courses, each (cells,)."""
    physics, p = settings.parameters, fixed_point.central(settings.parameters)
    low, high = fixed_point.spread(cells, physics, settings.queues, settings.draws, confidence)
    rtt, wire = fixed_point.round_trip(cells, p), throughput / fixed_point.payload_on_path(cells, p)
    cores = fixed_point.used_origins(cells) * fixed_point.usable_cores(cells, p)
    busy = fixed_point.cpu_shares(throughput, at)
    waits = at.setup + at.rounds * rtt
    return {
        "throughput": throughput,
        "throughput_low": throughput * low,
        "throughput_high": throughput * high,
        "wire_throughput": wire,
        "path_used": wire / cells.bandwidth,
        "window_used": throughput / cells.streams / at.window,
        # The share of a transfer's time for set-up and slow start without contention.
        "ramp": waits / (waits + cells.file_size * GBIT / at.stream) * (cells.endless == 0),
        "rtt_idle": rtt * 1000,
        "transfers_failed": np.zeros(len(throughput), int),
        **{f"{side}_cpu": share * cores for side, share in busy.items()},
        **{f"{side}_quota_used": share for side, share in busy.items()},
    }


def _rows(columns: Mapping[str, Array], count: int) -> Iterator[dict[str, Any]]:
    """Yield the values of each cell by name; columns are scalars or have the shape (cells,)."""
    values = [np.broadcast_to(column, count).tolist() for column in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def _listed(one: Parameters, ended: float, throughput: float, setup: float) -> dict[str, list[Any]]:
    """Return the columns of transfers: `ended` files of each stream, one after another."""
    each = one.streams * one.file_size * GBIT / throughput
    count = one.streams * int(ended)
    # The number in its stream, and the stream, of every listed transfer.
    numbers = [divmod(place, one.streams) for place in range(0, count, max(1, math.ceil(count / MOST_ROWS)))]
    count = len(numbers)
    known: dict[str, list[Any]] = {
        "stream": [stream for _, stream in numbers],
        "number": [number for number, _ in numbers],
        "start": [number * each for number, _ in numbers],
        "first_byte": [number * each + setup for number, _ in numbers],
        "end": [(number + 1) * each for number, _ in numbers],
        **{name: [""] * count for name in ("message", "xrootd_direction")},
        "size": [one.file_size] * count,
        "ok": [True] * count,
    }
    return {name: known.get(name, [None] * count) for name in TRANSFERS if name not in _DERIVED}


def time_shares(shares: Mapping[str, float], ramp: float, windowed: bool) -> dict[str, float]:
    """Return the share of time of each limit, from the used shares of ceilings and of `demand`.

    If no ceiling binds, the streams' demand does: set-up and slow start take the share `ramp` of their time, and the
    window or the core of a stream limits the rest.
    """
    first = max(shares, key=shares.__getitem__)
    bound = dict.fromkeys(SHARES, 0.0)
    if shares[first] < REACHED:
        return bound | {NONE_FOUND: 1.0}
    if first != "demand":
        return bound | {CEILING_LIMITS.get(first, first): 1.0}
    side = max(("cpu_source", "cpu_destination"), key=shares.__getitem__)
    return bound | {"between_files": ramp, "window" if windowed else side: 1 - ramp}


def _number(value: float | None) -> float | None:
    return None if value is None else numbers.json_number(value, 6)
