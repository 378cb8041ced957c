"""What the simulation of a cell amounts to: its rates, when it was warm, its samples and its transfers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tpcsweep.measure.transfers import MOST_ROWS
from tpcsweep.testbeds.simulation.model import Array

WARMUP = 2
"""Transfers of each stream, of those that end a cell, before throughput counts: starts are staggered, and the cost of
a byte finds its value."""
SAMPLES = 16
"""Of a cell that ends after its transfers: enough to draw a course that has no noise."""


class Course(NamedTuple):
    """A cell from its start to its end."""

    throughput: float
    """Gbit/s after the warm-up."""
    rates: Array
    """What each simulated stream contributed to it; only their ratios mean something."""
    average: float
    """Gbit/s, the warm-up included."""
    largest: float
    """Gbit/s in any one second, or in a sample where these are longer."""
    warmup: float
    duration: float
    step: float
    """Seconds of a sample."""
    goodput: Array
    """Gbit/s in each."""
    transfers: int
    """That ended."""
    rows: tuple[tuple[float, ...], ...] = ()
    """Of those that are listed: stream, number, start, first byte, end."""
    steady: bool = True
    complete: bool = True
    """Whether every stream has had the files that it was to have."""


def course(cell: Mapping[str, Any], found: Mapping[str, Any]) -> Course:
    """The course of a cell that `plan` has made, by what `simulate` says of it."""
    return _in_turns(cell, found) if cell["turns"] else _by_the_clock(cell, found)


def _in_turns(cell: Mapping[str, Any], found: Mapping[str, Any]) -> Course:
    """Each stream counts with whole transfers, after the warm-up."""
    scale = cell["weight"] * cell["times"]
    ends = found["ends"]
    rates = [(len(times) - WARMUP) * cell["file"] / (times[-1] - times[WARMUP - 1]) for times in ends]
    duration = min(times[-1] for times in ends)
    step = cell["interval"]
    while step * SAMPLES < duration:
        step *= 4
    start, end, gbit = np.array(found["pieces"]).T
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


def _by_the_clock(cell: Mapping[str, Any], found: Mapping[str, Any]) -> Course:
    """The warm-up is over when every stream has its first slow start behind it.

    There is no noise to find it by, as a measured cell's is found. One of half of the cell or more is not cut.
    """
    scale = cell["weight"] * cell["times"]
    duration, moved = found["duration"], np.array(found["moved"])
    steady = found["warmup"] is not None and found["warmup"] < duration / 2
    warmup = found["warmup"] if steady else 0.0
    counted = moved - np.array(found["warm"]) if steady else moved
    arrived = np.concatenate([[0.0], found["arrived"]]) * scale
    window = min(max(1, round(1 / found["step"])), max(1, arrived.size - 1))
    seconds = (arrived[window:] - arrived[:-window]) / window / found["step"]
    transfers = round(found["transfers"] * scale)
    average = float(moved.sum() * scale / duration)
    return Course(
        throughput=float(counted.sum() * scale / (duration - warmup)),
        rates=counted,
        average=average,
        largest=float(seconds.max(initial=average)),
        warmup=warmup,
        duration=duration,
        step=found["step"],
        goodput=np.diff(arrived) / found["step"],
        transfers=transfers,
        rows=tuple(found["rows"][:: max(1, -(-len(found["rows"]) // MOST_ROWS))]),
        steady=steady,
        complete=cell["files"] is None or found["transfers"] == cell["files"] * len(cell["streams"]),
    )
