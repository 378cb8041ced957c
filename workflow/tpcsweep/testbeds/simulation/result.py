# SPDX-License-Identifier: Apache-2.0
"""The courses of simulated cells, and their results; quantities that only measurements provide are null. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpcsweep import files
from tpcsweep.cell_result import CellResult, Summary
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.flag_rules import Evidence, raised_flags
from tpcsweep.measure.limits import NONE_FOUND, binding
from tpcsweep.measure.transfers import MOST_ROWS, fairness
from tpcsweep.testbeds.simulation import model
from tpcsweep.testbeds.simulation.engine import ENDLESS
from tpcsweep.testbeds.simulation.model import Array, ModelCells, Terms
from tpcsweep.variables import GBIT, SHARES, SUMMARY, TRANSFERS

SAMPLES = 2  # the most samples of a fixed-point cell: enough to draw its constant goodput
REACHED = 0.95  # the share of a ceiling, or of the streams' demand, from which it counts as binding
CEILING_LIMITS = {"interface": "bandwidth", "path": "bandwidth", "disk_read": "disk", "disk_write": "disk"}
"""The limit of a cell that corresponds to one of `Terms.ceilings`, if their names differ."""
_DERIVED = ("cell", "startup", "sending", "total", "rate")
_TIMES = ("stream", "number", "start", "first_byte", "end")


class Course(NamedTuple):
    """A cell's course. Rates in Gbit/s, times in s."""

    throughput: float  # mean after the warm-up
    rates: Array  # relative contributions of the simulated streams, (streams,)
    average: float  # mean including the warm-up
    largest: float  # largest mean over one second, or over a sample if samples are longer
    warmup: float
    duration: float
    step: float  # length of a sample
    goodput: Array  # goodput by sample, (samples,)
    transfers: int  # the number of ended transfers
    rows: tuple[tuple[float, ...], ...] = ()  # listed transfers: stream, number, start, first byte, end
    steady: bool = True
    complete: bool = True  # whether every stream has transferred its files


def in_steady_state(throughput: Array, cells: ModelCells, interval: float) -> list[Course]:
    """Return the courses of cells with the fixed point's throughput, in Gbit/s.

    Such a cell starts in steady state: it has no warm-up, its goodput is constant, and each stream transfers one file.
    Samples are at least `interval` seconds apart.
    """
    durations = np.where(cells.endless > 0, ENDLESS, cells.streams * cells.file_size * GBIT / throughput)
    # Use few distinct steps, because each time is a position on the dataset's time axis.
    steps = interval * 4 ** np.floor(np.log(np.maximum(durations / SAMPLES / interval, 1)) / np.log(4))
    counts = np.clip(durations // steps, 1, SAMPLES).astype(int)
    columns = (column.tolist() for column in (throughput, durations, steps, counts, cells.streams))
    alike = np.ones(1)  # streams are equal
    return [
        Course(rate, alike, rate, rate, 0.0, duration, step, np.full(count, rate), int(streams))
        for rate, duration, step, count, streams in zip(*columns, strict=True)
    ]


def course(cell: Mapping[str, Any], answer: Mapping[str, Any]) -> Course:
    """Return the course of a cell from `engine.cell_plan`, using the answer of `simulate.py`.

    The warm-up ends when every stream has finished its first slow start; measured cells detect it from noise instead. A
    warm-up of half of the cell or more is not removed.
    """
    scale = cell["weight"] * cell["times"]
    duration, moved, step = answer["duration"], np.array(answer["moved"]), answer["step"]
    steady = answer["warmup"] is not None and answer["warmup"] < duration / 2
    warmup = answer["warmup"] if steady else 0.0
    counted = moved - np.array(answer["warm"]) if steady else moved
    arrived = np.concatenate([[0.0], answer["arrived"]]) * scale
    window = min(max(1, round(1 / step)), max(1, arrived.size - 1))
    seconds = (arrived[window:] - arrived[:-window]) / window / step
    average = float(moved.sum() * scale / duration)
    return Course(
        throughput=float(counted.sum() * scale / (duration - warmup)),
        rates=counted,
        average=average,
        largest=float(seconds.max(initial=average)),
        warmup=warmup,
        duration=duration,
        step=step,
        goodput=np.diff(arrived) / step,
        transfers=round(answer["transfers"] * scale),
        rows=tuple(answer["rows"][:: max(1, -(-len(answer["rows"]) // MOST_ROWS))]),
        steady=steady,
        complete=cell["files"] is None or answer["transfers"] == cell["files"] * len(cell["streams"]),
    )


def results(
    wanted: Sequence[Parameters], courses: Sequence[Course], settings: Simulation, confidence: float
) -> Iterator[CellResult]:
    """Yield results as `measure.cell.measure` returns them; intervals hold a share `confidence` of random sets."""
    throughput = np.array([course.throughput for course in courses])
    cells = model.model_cells(wanted)
    at = model.terms(throughput, cells, model.central(settings.parameters), settings.queues)
    columns = _rows(_figures(throughput, cells, at, settings, confidence), len(wanted))
    used = {**at.ceilings, "demand": at.demand}
    shares = _rows({name: throughput / most for name, most in used.items()}, len(wanted))
    windowed = (at.stream >= at.window).tolist()
    for one, course, row, shared, by_window in zip(wanted, courses, columns, shares, windowed, strict=True):
        bound = time_shares(shared, row["ramp"], by_window)
        files = one.layer != "network"  # measured cells without files lack these values too
        figures = {
            **row,
            "throughput_average": course.average,
            "throughput_max": course.largest,
            "duration": course.duration,
            "warmup": course.warmup,
            "fairness": fairness(course.rates) if files else None,
            "transfers": course.transfers if files else 0,
            **{name: bound[limit] for limit, name in SHARES.items()},
            **({} if one.cores else dict.fromkeys(("source_quota_used", "destination_quota_used"))),
        }
        summary = Summary({name: _number(figures.get(name)) for name in SUMMARY})
        evidence = Evidence(
            status="ok",
            summary=summary,
            bandwidth=one.bandwidth,
            steady=course.steady,
            files=0 if course.complete else course.transfers + 1,
        )
        yield CellResult(
            status="ok",
            flags=raised_flags(evidence),
            limit=binding(bound),
            summary=summary,
            samples={
                "time": [_number((place + 1) * course.step) for place in range(len(course.goodput))],
                "goodput": [_number(value) for value in course.goodput.tolist()],
            },
            transfers=_listed(course.rows, one.file_size),
        )


def failed(message: str) -> CellResult:
    """Return the result of a cell that SimGrid could not compute."""
    return CellResult(
        status="failed",
        message=message,
        summary=Summary(dict.fromkeys(SUMMARY)),
        samples={"time": [], "goodput": []},
        transfers=_listed((), 0),
    )


def _figures(
    throughput: Array, cells: ModelCells, at: Terms, settings: Simulation, confidence: float
) -> dict[str, Array]:
    """Return the summary's variables that do not depend on courses, each (cells,)."""
    physics, p = settings.parameters, model.central(settings.parameters)
    low, high = model.spread(cells, physics, settings.queues, settings.draws, confidence)
    rtt, wire = model.round_trip(cells, p), throughput / model.payload_on_path(cells, p)
    cores = model.used_origins(cells) * model.usable_cores(cells, p)
    busy = model.cpu_shares(throughput, at)
    waits = at.setup + at.rounds * rtt
    return {
        "throughput": throughput,
        "throughput_low": throughput * low,
        "throughput_high": throughput * high,
        "wire_throughput": wire,
        "path_used": wire / cells.bandwidth,
        "window_used": throughput / cells.streams / at.window,
        # The share of a transfer's time for set-up and slow start without contention.
        "ramp": waits / (waits + (cells.file_size * GBIT - at.ramp) / at.stream) * (cells.endless == 0),
        "rtt_idle": rtt * 1000,
        "transfers_failed": np.zeros(len(throughput), int),
        **{f"{side}_cpu": share * cores for side, share in busy.items()},
        **{f"{side}_quota_used": share for side, share in busy.items()},
    }


def _rows(columns: Mapping[str, Array], count: int) -> Iterator[dict[str, Any]]:
    """Yield the values of each cell by name; columns are scalars or have the shape (cells,)."""
    values = [np.broadcast_to(column, count).tolist() for column in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def _listed(rows: Sequence[Sequence[float]], size: int) -> dict[str, list[Any]]:
    count = len(rows)
    known: dict[str, list[Any]] = {
        **{name: [row[place] for row in rows] for place, name in enumerate(_TIMES)},
        **{name: [""] * count for name in ("message", "xrootd_direction")},
        "size": [size] * count,
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
    return None if value is None else files.number(value, 6)
