"""What the file of a simulated cell has: the figures that a model knows, and null for what only measurements tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.measure.limits import NONE_FOUND, RAMP
from tpcsweep.measure.trust import fairness
from tpcsweep.rates import GBIT
from tpcsweep.testbeds.simulation.course import Course
from tpcsweep.testbeds.simulation.model import Terms
from tpcsweep.variables import SUMMARY, TRANSFERS

REACHED = 0.95
"""Share of a ceiling, or of what the streams demand, from which on it binds."""
LIMIT_OF = {
    "cpu_source": "cpu_source",
    "cpu_destination": "cpu_destination",
    "interface": "bandwidth",
    "server": "server",
    "path": "bandwidth",
    "path_queue": "path_queue",
    "disk_read": "disk",
    "disk_write": "disk",
}
"""What a cell's limit is called that one of `Terms.ceilings` bounds."""
_DERIVED = ("cell", "startup", "sending", "total", "rate")


class Around(NamedTuple):
    """What of a cell follows from its parameters alone."""

    cores: float
    """Of a side, as far as its origins can use them."""
    share: float
    """Payload over bytes on the path."""
    rtt: float
    """In ms."""
    spread: tuple[float, float]
    """Ends of the interval over the throughput."""


def result(wanted: Parameters, found: Course, at: Terms, around: Around) -> dict[str, Any]:
    """A cell's result, as `measure.cell.measure` gives one. at: the terms of the one cell at its throughput."""
    throughput, wire = found.throughput, found.throughput / around.share
    used = {name: throughput / float(np.ravel(value)[0]) for name, value in at.ceilings.items()}
    ramp = _ramp(wanted, at, around.rtt)
    limit, evidence = judge(used, throughput / float(at.demand[0]), ramp, at)
    summary = dict.fromkeys(SUMMARY) | {
        "throughput": throughput,
        "throughput_low": throughput * around.spread[0],
        "throughput_high": throughput * around.spread[1],
        "throughput_average": found.average,
        "throughput_max": found.largest,
        "wire_throughput": wire,
        "duration": found.duration,
        "warmup": found.warmup,
        "path_used": wire / wanted.bandwidth,
        "window_used": throughput / wanted.streams / float(at.window[0]),
        "ramp": ramp,
        "rtt_idle": around.rtt,
        "fairness": fairness(found.rates),
        "transfers": found.transfers,
        "transfers_failed": 0,
    }
    if wanted.layer == "network":  # as of measured cells without files
        summary |= {"fairness": None, "transfers": 0}
    for side in ("source", "destination"):
        busy = min(1.0, used[f"cpu_{side}"])
        summary |= {f"{side}_cpu": busy * around.cores, f"{side}_quota_used": busy if wanted.cores else None}
    return {
        "status": "ok",
        "message": "",
        "flags": [*([] if found.steady else ["not_steady"]), *([] if found.complete else ["files_missing"])],
        "limit": limit,
        "evidence": evidence,
        "summary": {name: _number(value) for name, value in summary.items()},
        "samples": {
            "time": [_number((place + 1) * found.step) for place in range(len(found.goodput))],
            "goodput": [_number(value) for value in found.goodput.tolist()],
        },
        "transfers": _listed(found, wanted.file_size),
    }


def _listed(found: Course, size: int) -> dict[str, list[Any]]:
    """Every column of single transfers; XRootD's monitoring says nothing of those that are simulated."""
    columns = zip(*found.rows, strict=True) if found.rows else ((),) * 5
    times = dict(zip(("stream", "number", "start", "first_byte", "end"), map(list, columns), strict=True))
    count = len(found.rows)
    texts = {"message": [""] * count, "xrootd_direction": [""] * count}
    known = {**times, **texts, "size": [size] * count, "ok": [True] * count}
    return {name: known.get(name, [None] * count) for name in TRANSFERS if name not in _DERIVED}


def judge(used: Mapping[str, float], demanded: float, ramp: float, at: Terms) -> tuple[str, dict[str, Any]]:
    """What bounds a cell, and the evidence: shares used of every ceiling, and of what the streams demand.

    Where no ceiling does, the streams themselves do: by their set-up and slow start, by their windows, or by the one
    core that moves a stream's bytes.
    """
    shares = {**used, "demand": demanded}
    evidence = {
        name: {
            "reached": share >= REACHED,
            "signs": [
                [{"number": name, "value": _number(share), "threshold": REACHED, "reached": share >= REACHED}]
            ],
        }
        for name, share in shares.items()
    }
    first = max(shares, key=shares.__getitem__)
    if shares[first] < REACHED:
        return NONE_FOUND, evidence
    if first != "demand":
        return LIMIT_OF[first], evidence
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
    return None if value is None else float(f"{value:.6g}")
