# SPDX-License-Identifier: Apache-2.0
"""Fitted throughput on a page, and gains of changes along axes by the fitted model. An analysis supplies the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.redirectors import each_redirector, redirected
from tpcsweep.data.variables import REMEDIES
from tpcsweep.sweeps.parameters import name_text, value_text


@dataclass(frozen=True)
class Forecast:
    fitted: xr.DataArray  # fitted throughput over the axes, without repetitions, Gbit/s
    section: dict[str, Any]  # content of the page's section


_RAISED = {
    limit: [remedy.axis for remedy in remedies if remedy.larger] for limit, remedies in REMEDIES.items()
}
_ENOUGH = 0.95  # share of the highest throughput along an axis that is enough to recommend a value


@dataclass(frozen=True)
class Gains:
    """Most effective change of each setting by a fitted model, flattened."""

    axis: NDArray[np.object_]
    factor: NDArray[np.float64]
    """Throughput after the change over that before; NaN if no change inside the data is known to be a gain."""
    text: Sequence[str]


def gains(settings: xr.Dataset, fitted: xr.DataArray) -> Gains:
    """Compare the fitted throughput along the axes that relieve each setting's limit (`data.repetitions`)."""
    estimate = fitted.transpose(*settings["throughput"].dims)
    rates, limits = estimate.values, settings["limit"].values
    behind = redirected(settings).reshape(rates.shape)
    factor = np.full(rates.shape, np.nan)
    axis, text = np.full(rates.shape, "", object), np.full(rates.shape, "", object)
    for name in {name for names in _RAISED.values() for name in names}.intersection(estimate.dims):
        relieved = np.isin(limits, [limit for limit, names in _RAISED.items() if name in names])
        values, dimension = settings[name].values.tolist(), estimate.dims.index(name)
        if isinstance(values[0], str):
            continue
        for place in range(len(values) - 1):
            here, later = rates.take(place, dimension), np.moveaxis(rates, dimension, 0)[place + 1 :]
            to = (later >= _ENOUGH * later.max(axis=0)).argmax(axis=0)
            gain = np.take_along_axis(later, to[None], 0)[0] / here
            at: tuple[slice | int, ...] = (slice(None),) * dimension + (place,)
            better = relieved[at] & (gain > np.fmax(factor[at], 1.0))
            new = np.take_along_axis(np.moveaxis(behind, dimension, 0)[place + 1 :], to[None], 0)[0]
            after = np.array([value_text(name, value) for value in values[place + 1 :]], object)[to]
            after += each_redirector(name, new, np.asarray(behind.take(place, dimension)))
            words = f"{name_text(name)} " + after + f" instead of {value_text(name, values[place])}"
            factor[at] = np.where(better, gain, factor[at])
            axis[at] = np.where(better, name, axis[at])
            text[at] = np.where(better, words, text[at])
    where = np.full(rates.shape, "", object)
    if "rtt" in estimate.dims:
        rtts = [f" at RTT {value_text('rtt', rtt)}" for rtt in settings["rtt"].values.tolist()]
        where = np.array(rtts, object)[np.indices(rates.shape)[estimate.dims.index("rtt")]]
    cells = zip(text.ravel(), factor.ravel(), where.ravel(), strict=True)
    texts = [f"{change}: {percent_more(gain)}{place}" if change else "" for change, gain, place in cells]
    return Gains(axis.ravel(), factor.ravel(), texts)


def percent_more(factor: float) -> str:
    return f"{100 * (factor - 1):+.0f} %"
