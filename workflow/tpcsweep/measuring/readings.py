# SPDX-License-Identifier: Apache-2.0
"""Time series of a cell, which the records of all its targets add up to."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.numbers import GBIT
from tpcsweep.data.variables import QUANTITIES, SAMPLES, Quantity
from tpcsweep.measuring.sampler import Readings, Table

Series = dict[str, NDArray[np.float64]]

SHARED = {
    **dict.fromkeys(("tcp_info", "connections", "snmp", "netstat", "interface"), "network"),
    "machine": "machine",
}
"""Places of quantities that targets may share: of targets on one machine, or of one network, one counts."""
SCALE = {"Gbit/s": GBIT, "ms": 1e3}
"""Factors from bytes per second, and from s, to the units of samples."""
AGGREGATES: Mapping[str, Callable[..., Any]] = {
    "sum": partial(np.sum, axis=0),
    "mean": partial(np.mean, axis=0),
    "min": partial(np.fmin.reduce, axis=0),
    "max": partial(np.fmax.reduce, axis=0),
}
"""Functions over targets; smallest and largest values are those of the targets that know theirs."""


def sampled_series(readings: Readings, interval: float) -> Series:
    """Return rates and states at even times.

    Returns:
        `time` in s since the first reading, and the samples of variables.toml by name, (samples,); `source_origin_cpu`
            and `destination_origin_cpu` are (origins, samples). Series that no target has are NaN.
    """
    times = _times(readings, interval)
    at = partial(quantity_at, readings, times)
    # The total of an interval is counted in ticks, of which a short one may have none; the mean is exact.
    total = mean(np.diff(at("machine_total"))) or math.nan
    per = {"rate": interval, "share": total, "count": 1.0}
    series = {"time": times[1:] - times[:1]}
    for name in SAMPLES:
        quantity = QUANTITIES[name]
        values = at(name)
        changed = np.diff(values) / per[quantity.kind] if quantity.grows else values[1:]
        series[name] = changed * SCALE.get(quantity.units, 1.0)
    for side in ("source", "destination"):
        name = f"{side}_cpu"
        used = _each(readings, times, name, _contributors(readings, QUANTITIES[name]))
        series[f"{side}_origin_cpu"] = (
            np.diff(used if used.size else np.full((1, times.size), math.nan)) / interval
        )
    return series


def looked_at(readings: Readings, interval: float) -> Series:
    """Return the series that looks at a running cell need: goodput and congestion windows."""
    windows = quantity_at(readings, _times(readings, interval), "cwnd")[1:]
    return {"goodput": goodput(readings, interval), "cwnd": windows}


def goodput(readings: Readings, interval: float) -> NDArray[np.float64]:
    """Return only the series `goodput`."""
    arrived = quantity_at(readings, _times(readings, interval), "goodput")
    return np.asarray(np.diff(arrived) * GBIT / interval)


def mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """Return the mean of the finite values, whose last dimension may have weights; NaN without any."""
    known = np.isfinite(values)
    if weights is not None:
        known &= weights > 0
    if not known.any():
        return math.nan
    return float(
        np.average(
            values[known], weights=None if weights is None else np.broadcast_to(weights, values.shape)[known]
        )
    )


def even_times(first: float, last: float, interval: float) -> NDArray[np.float64]:
    """Return evenly spaced times from the first to the last one, despite a rounding error at the end."""
    return np.asarray(first + interval * np.arange(math.floor((last - first) / interval + 1e-6) + 1))


def quantity_at(readings: Readings, times: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return a quantity over all targets at some times, (times,): NaN if no target has it.

    Counters are interpolated between two records, and states are those of the last one. Without interpolation, a late
    record on a busy machine would give the short interval after it the same weight as the long one before it.
    """
    quantity = QUANTITIES[name]
    targets = _contributors(readings, quantity)
    if not targets:
        return np.full(times.size, math.nan)
    values = _each(readings, times, name, targets)
    if quantity.aggregation == "mean" and quantity.place[0] == "tcp_info":
        count = _each(readings, times, "connections", targets)
        total = count.sum(axis=0)
        return np.asarray((np.nan_to_num(values) * count).sum(axis=0) / np.where(total, total, np.nan))
    return np.asarray(AGGREGATES[quantity.aggregation](values))


def _contributors(readings: Readings, quantity: Quantity) -> list[str]:
    """Return the targets that have a quantity, one of each machine or network that they share."""
    having = [target for target, table in readings.tables.items() if quantity.name in table.names]
    return _distinct(quantity, having, readings.shared)


def _distinct(
    quantity: Quantity, targets: Iterable[str], shared: Mapping[str, Mapping[str, str]]
) -> list[str]:
    owners = shared.get(SHARED.get(quantity.place[0], ""), {})
    return list({owners.get(target, target): target for target in targets}.values())


def _each(
    readings: Readings, times: NDArray[np.float64], name: str, targets: list[str]
) -> NDArray[np.float64]:
    """Return a quantity of some targets at some times, (targets, times)."""
    rows = [_at(readings.tables[target], QUANTITIES[name], times) for target in targets]
    return np.array(rows).reshape(len(targets), times.size)


def _times(readings: Readings, interval: float) -> NDArray[np.float64]:
    return even_times(readings.began, readings.ended, interval)


def _at(table: Table, quantity: Quantity, times: NDArray[np.float64]) -> NDArray[np.float64]:
    read, values = (np.array(table.column(name), dtype=float) for name in ("time", quantity.name))
    if quantity.grows:
        return np.asarray(np.interp(times, read, values))
    return np.asarray(values[np.clip(np.searchsorted(read, times + 1e-9, side="right") - 1, 0, None)])


@contextlib.contextmanager
def counters_read() -> Iterator[None]:
    """Raise BrokenError for OSError, because a part of the deployment is gone if its counters are."""
    try:
        yield
    except OSError as error:
        raise BrokenError(f"counters: {error}") from error
