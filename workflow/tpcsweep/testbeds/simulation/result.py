# SPDX-License-Identifier: Apache-2.0
"""What the simulation of a cell amounts to: its course, and what its file has of it. Pure.

The file has the figures that a model knows, and null for what only measurements tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tpcsweep import files
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.measure.limits import NONE_FOUND, RAMP
from tpcsweep.measure.transfers import MOST_ROWS
from tpcsweep.measure.trust import fairness
from tpcsweep.rates import GBIT
from tpcsweep.testbeds.simulation import model
from tpcsweep.testbeds.simulation.model import Array, Terms
from tpcsweep.variables import SUMMARY, TRANSFERS

WARMUP = 2
"""Transfers of each stream, of those that end a cell, before throughput counts: starts are staggered, and the cost of
a byte finds its value."""
SAMPLES = 16
"""Of a cell that ends after its transfers: enough to draw a course that has no noise."""
REACHED = 0.95
"""Share of a ceiling, or of what the streams demand, from which on it binds."""
LIMIT_OF = {"interface": "bandwidth", "path": "bandwidth", "disk_read": "disk", "disk_write": "disk"}
"""What a cell's limit is called that one of `Terms.ceilings` bounds, where it is another name."""
_DERIVED = ("cell", "startup", "sending", "total", "rate")
_TIMES = ("stream", "number", "start", "first_byte", "end")


class Course(NamedTuple):
    """A cell from its start to its end. Rates in Gbit/s, times in s."""

    throughput: float
    """After the warm-up."""
    rates: Array
    """What each simulated stream contributed to it, (streams,); only their ratios mean something."""
    average: float
    """The warm-up included."""
    largest: float
    """In any one second, or in a sample where these are longer."""
    warmup: float
    duration: float
    step: float
    """Length of a sample."""
    goodput: Array
    """(samples,)."""
    transfers: int
    """That ended."""
    rows: tuple[tuple[float, ...], ...] = ()
    """Of those that are listed: stream, number, start, first byte, end."""
    steady: bool = True
    complete: bool = True
    """Whether every stream has had the files that it was to have."""


def course(cell: Mapping[str, Any], answer: Mapping[str, Any]) -> Course:
    """The course of a cell that `plan` has made, by what `simulate` says of it."""
    return _in_turns(cell, answer) if cell["turns"] else _by_the_clock(cell, answer)


def _in_turns(cell: Mapping[str, Any], answer: Mapping[str, Any]) -> Course:
    """Each stream counts with whole transfers, after the warm-up."""
    scale = cell["weight"] * cell["times"]
    ends = answer["ends"]
    rates = [(len(times) - WARMUP) * cell["file"] / (times[-1] - times[WARMUP - 1]) for times in ends]
    duration = min(times[-1] for times in ends)
    step = cell["interval"]
    while step * SAMPLES < duration:
        step *= 4
    start, end, gbit = np.array(answer["pieces"]).T
    edges = np.arange(max(1, min(SAMPLES, int(duration / step))) + 1) * step
    passed = np.clip((edges[:, None] - start) / np.maximum(end - start, 1e-12), 0, 1)
    goodput = np.diff(passed @ gbit) * scale / step
    return Course(
        throughput=sum(rates) * scale,
        rates=np.array(rates),
        average=gbit[end <= duration].sum() * scale / duration,
        largest=goodput.max(),
        warmup=max(times[WARMUP - 1] for times in ends),
        duration=duration,
        step=step,
        goodput=goodput,
        transfers=sum(map(len, ends)),
    )


def _by_the_clock(cell: Mapping[str, Any], answer: Mapping[str, Any]) -> Course:
    """The warm-up is over when every stream has its first slow start behind it.

    There is no noise to find it by, as a measured cell's is found. One of half of the cell or more is not cut.
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


def result(wanted: Parameters, course: Course, settings: Simulation, confidence: float) -> dict[str, Any]:
    """A cell's result, as `measure.cell.measure` gives one; `confidence` is that of the throughput's interval."""
    physics, queues = settings.parameters, settings.queues
    cells, p = model.cells_of([wanted]), model.central(physics)
    throughput = course.throughput
    at = model.terms(np.array([throughput]), cells, p, queues)
    low, high = model.spread(cells, physics, queues, settings.draws, confidence)
    rtt = float(model.round_trip(cells, p)[0]) * 1000
    wire = throughput / float(model.payload_share(cells, p)[0])
    cores = float(model.used_origins(cells)[0] * model.instance_cores(cells, p)[0])
    used = {name: throughput / float(np.ravel(value)[0]) for name, value in at.ceilings.items()}
    ramp = _ramp(wanted, at, rtt)
    limit, evidence = judge(used, throughput / float(at.demand[0]), ramp, at)
    summary = dict.fromkeys(SUMMARY) | {
        "throughput": throughput,
        "throughput_low": throughput * float(low[0]),
        "throughput_high": throughput * float(high[0]),
        "throughput_average": course.average,
        "throughput_max": course.largest,
        "wire_throughput": wire,
        "duration": course.duration,
        "warmup": course.warmup,
        "path_used": wire / wanted.bandwidth,
        "window_used": throughput / wanted.streams / float(at.window[0]),
        "ramp": ramp,
        "rtt_idle": rtt,
        "fairness": fairness(course.rates),
        "transfers": course.transfers,
        "transfers_failed": 0,
    }
    if wanted.layer == "network":  # as of measured cells without files
        summary |= {"fairness": None, "transfers": 0}
    for side in ("source", "destination"):
        busy = min(1.0, used[f"cpu_{side}"])
        summary |= {f"{side}_cpu": busy * cores, f"{side}_quota_used": busy if wanted.cores else None}
    return {
        "status": "ok",
        "message": "",
        "flags": [
            *([] if course.steady else ["not_steady"]),
            *([] if course.complete else ["files_missing"]),
        ],
        "limit": limit,
        "evidence": evidence,
        "summary": {name: _number(value) for name, value in summary.items()},
        "samples": {
            "time": [_number((place + 1) * course.step) for place in range(len(course.goodput))],
            "goodput": [_number(value) for value in course.goodput.tolist()],
        },
        "transfers": _listed(course, wanted.file_size),
    }


def _listed(course: Course, size: int) -> dict[str, list[Any]]:
    """Every column of single transfers; XRootD's monitoring says nothing of those that are simulated."""
    count = len(course.rows)
    known: dict[str, list[Any]] = {
        **{name: [row[place] for row in course.rows] for place, name in enumerate(_TIMES)},
        **{name: [""] * count for name in ("message", "xrootd_direction")},
        "size": [size] * count,
        "ok": [True] * count,
    }
    return {name: known.get(name, [None] * count) for name in TRANSFERS if name not in _DERIVED}


def judge(used: Mapping[str, float], demanded: float, ramp: float, at: Terms) -> tuple[str, dict[str, Any]]:
    """What bounds a cell, and the evidence: shares used of every ceiling, and of what the streams demand.

    Where no ceiling does, the streams themselves do: by their set-up and slow start, by their windows, or by the one
    core that moves a stream's bytes. `ramp` is the share of a transfer's time that set-up and slow start take, and `at`
    are the terms of the one cell at its throughput.
    """
    shares = {**used, "demand": demanded}
    evidence: dict[str, Any] = {}
    for name, share in shares.items():
        reached = share >= REACHED
        sign = {"number": name, "value": _number(share), "threshold": REACHED, "reached": reached}
        evidence[name] = {"reached": reached, "signs": [[sign]]}
    first = max(shares, key=shares.__getitem__)
    if shares[first] < REACHED:
        return NONE_FOUND, evidence
    if first != "demand":
        return LIMIT_OF.get(first, first), evidence
    if ramp >= RAMP:
        return "slow_start", evidence
    if at.stream[0] >= at.window[0]:
        return "window", evidence
    return max(("cpu_source", "cpu_destination"), key=used.__getitem__), evidence


def _ramp(wanted: Parameters, at: Terms, rtt: float) -> float:
    """Share of a transfer's time that set-up and slow start take when nothing is shared."""
    if wanted.layer == "network":
        return 0.0
    waits = float(at.setup[0] + at.rounds[0] * rtt / 1000)
    rest = (wanted.file_size * GBIT - float(at.ramp[0])) / float(at.stream[0])
    return waits / (waits + rest)


def _number(value: float | None) -> float | None:
    return None if value is None else files.number(value, 6)
