# SPDX-License-Identifier: Apache-2.0
"""Gains of each cell from a change of its setting, by the fitted model; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.parameters import value_text
from tpcsweep.figures.labels import words

_RAISED: Mapping[str, tuple[str, ...]] = {
    "window": ("tcp_buffer", "streams", "tcp_streams"),
    "loss": ("streams", "tcp_streams"),
    "slow_start": ("file_size", "streams"),
    "between_files": ("file_size", "streams"),
    "cpu_source": ("cores",),
    "cpu_destination": ("cores",),
}
"""Parameters whose larger values relieve each limit."""
_ENOUGH = 0.95  # share of the highest throughput along an axis that is enough to recommend a value


@dataclass(frozen=True)
class Gains:
    """Most effective change of each cell, flattened."""

    axis: NDArray[np.object_]
    factor: NDArray[np.float64]
    """Throughput after the change over that before; NaN if no change inside the data is known."""
    text: Sequence[str]


def gains(summary: xr.Dataset, fitted: xr.DataArray) -> Gains:
    """Compare the fitted throughput along the axes that relieve each cell's limit."""
    estimate = fitted.broadcast_like(summary["throughput"]).transpose(*summary["throughput"].dims)
    rates, limits = estimate.values, summary["limit"].values
    factor = np.full(rates.shape, np.nan)
    axis, text = np.full(rates.shape, "", object), np.full(rates.shape, "", object)
    for name in {name for names in _RAISED.values() for name in names}.intersection(estimate.dims):
        relieved = np.isin(limits, [limit for limit, names in _RAISED.items() if name in names])
        values, dimension = summary[name].values.tolist(), estimate.dims.index(name)
        if isinstance(values[0], str):
            continue
        for place in range(len(values) - 1):
            here, later = rates.take(place, dimension), np.moveaxis(rates, dimension, 0)[place + 1 :]
            to = (later >= _ENOUGH * later.max(axis=0)).argmax(axis=0)
            gain = np.take_along_axis(later, to[None], 0)[0] / here
            at: tuple[slice | int, ...] = (slice(None),) * dimension + (place,)
            better = relieved[at] & (np.isnan(factor[at]) | (gain > factor[at]))
            changes = [f"{words(name)} {value_text(name, values[place + 1 + one])} instead of "
                       f"{value_text(name, values[place])}" for one in range(len(values) - place - 1)]  # fmt: skip
            factor[at] = np.where(better, gain, factor[at])
            axis[at] = np.where(better, name, axis[at])
            text[at] = np.where(better, np.array(changes, object)[to], text[at])
    texts = [
        f"{change}: {percent_more(gain)}" if change else ""
        for change, gain in zip(text.ravel(), factor.ravel(), strict=True)
    ]
    return Gains(axis.ravel(), factor.ravel(), _with_rtt(summary, texts))


def percent_more(factor: float) -> str:
    return f"{100 * (factor - 1):+.0f} %"


def _with_rtt(summary: xr.Dataset, texts: Sequence[str]) -> list[str]:
    if "rtt" not in summary["throughput"].dims:
        return list(texts)
    rtts = summary["rtt"].broadcast_like(summary["throughput"]).transpose(*summary["throughput"].dims)
    pairs = zip(texts, rtts.values.ravel().tolist(), strict=True)
    return [f"{text} at RTT {value_text('rtt', rtt)}" if text else "" for text, rtt in pairs]
