# SPDX-License-Identifier: Apache-2.0
"""Repetitions unlike the others of their setting, in throughput or in the load of machines; pure functions.

A throughput is an outlier by the rule of Iglewicz and Hoaglin (How to detect and handle outliers, 1993): its deviation
from the median is more than 3.5 of the standard deviations that the median of all deviations shows. The deviations of
all settings together say how far repetitions are apart, because each setting has few.
"""

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.labels import STATUS
from tpcsweep.data.repetitions import count_in_mean
from tpcsweep.pages.cell_links import cell_links
from tpcsweep.pages.finding import Sentence, places
from tpcsweep.pages.machine_load import cells_on_full_machine, slowed_cells
from tpcsweep.sweeps.sweep import REPETITION

UNLIKE, LOADED = "unlike repetitions", "load of the machine"  # topics of findings that speak against settings
_FEWEST = 3  # repetitions of a setting
_DEVIATIONS = 3.5
_NORMAL = 1.4826  # standard deviation of a normal distribution over its median deviation
_LEAST = 0.2  # share of the median below which a deviation is no news
_ALIKE = 0.02  # share of the median up to which a throughput is as usual
_MOST = 12  # repetitions with a line each
_UNLIKE = 0.3  # difference of a share to that of the other repetitions from which it is named
_LOADS_ALONE = "No throughput among them is far from that of the others of its setting:"
_SEEN: Mapping[str, str] = {
    "host_cpu": "a host's CPU was busy for {} % of the time",
    "host_iowait": "a host's CPU waited for disks for {} % of the time",
    "machine_cpu": "the measuring machine's CPU was busy for {} % of the time",
    "machine_others": "other programs used {} % of the measuring machine's CPU",
    "machine_slowed": "the measuring machine was {} % slower than at its fastest",
}
"""Shares of time or of CPU that may explain a rate."""


def outliers(summary: xr.Dataset) -> Iterator[Sentence]:
    """Yield the finding that names repetitions with another throughput or load than their siblings."""
    rates, medians, deviations = _compared(summary)
    if np.isnan(deviations).all():
        return
    known, far = rates.notnull().values, _far(deviations)
    loads = {name: (_of_siblings(summary[name]), words) for name, words in _SEEN.items() if name in summary}
    unlike = {name: known & (summary[name].values - usual >= _UNLIKE) for name, (usual, _) in loads.items()}
    found = far | np.any([*unlike.values(), np.zeros_like(far)], axis=0)
    if not found.any():
        return
    counting = count_in_mean(summary).values
    lines = []
    for link, at in zip(cell_links(summary, found), zip(*np.nonzero(found), strict=True), strict=True):
        here = f"{short(float(rates.values[at]))} Gbit/s, the median is {short(float(medians[at]))}"
        rate = [here] if deviations[at] > _ALIKE else []
        seen = [
            _load(words, float(summary[name].values[at]), float(usual[at]))
            for name, (usual, words) in loads.items()
            if unlike[name][at]
        ]
        left_out = ["not in the mean"] if not counting[at] else []
        lines.append(f"{link.words}: {'; '.join([*rate, *left_out, *seen])}")
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    first = "Unlike the other repetitions of its setting:" if far.any() else _LOADS_ALONE
    text = "\n".join([first, *lines[:_MOST], *more])
    topic = UNLIKE if far.any() else "repetitions under another load"
    settings = places(found.any(axis=rates.get_axis_num(REPETITION)).ravel())
    yield Sentence(topic, text, settings)


def are_alike(summary: xr.Dataset) -> bool:
    """Return whether repetitions were compared, and none has a throughput far from that of its siblings."""
    *_, deviations = _compared(summary)
    return not (np.isnan(deviations).all() or _far(deviations).any())


def _compared(summary: xr.Dataset) -> tuple[xr.DataArray, NDArray[np.float64], NDArray[np.float64]]:
    """Return rates of settings with enough repetitions, their medians, and how far from these each rate is."""
    rates = summary["throughput"].where(summary["status"] == STATUS.index("ok"))
    rates = rates.where(rates.notnull().sum(REPETITION) >= _FEWEST)
    medians = rates.median(REPETITION).broadcast_like(rates).transpose(*rates.dims).values
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.abs(np.log(rates.values / medians))
    deviations[~np.isfinite(deviations)] = np.nan
    return rates, medians, deviations


def _far(deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    return deviations > max(_DEVIATIONS * _NORMAL * float(np.nanmedian(deviations)), _LEAST)


def on_a_loaded_machine(summary: xr.Dataset) -> Iterator[Sentence]:
    """Yield the finding that compares cells on a slow or full machine with the other repetitions."""
    loaded = slowed_cells(summary) | cells_on_full_machine(summary)
    rates = summary["throughput"].where(summary["status"] == STATUS.index("ok"))
    ratios = (rates.values / np.where((usual := _of_siblings(rates, fewest=2)) > 0, usual, np.nan))[loaded]
    if not loaded.any():
        return
    text, topic = f"{counted(int(loaded.sum()), 'cell')} on a slow or full machine", LOADED
    if (known := ratios[np.isfinite(ratios)]).size:
        ends = between(float(known.min()), float(known.max()))
        text += f": throughput is {ends} times the median of the other repetitions"
        if known.size == ratios.size and np.abs(np.log(known)).max() <= _ALIKE:
            topic += " without an effect"
    which = summary["throughput"].copy(data=loaded).any(REPETITION)
    yield Sentence(topic, f"{text}.", places(which.values.ravel()), listed=True)


def _of_siblings(figure: xr.DataArray, fewest: int = _FEWEST) -> NDArray[np.float64]:
    """Return the median of the other repetitions of each cell; NaN with fewer repetitions."""
    axis = figure.get_axis_num(REPETITION)
    values = np.asarray(figure.values, float)
    count = values.shape[axis]
    if count < fewest:
        return np.full(values.shape, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # cells without the figure
        others = [np.nanmedian(np.delete(values, at, axis), axis=axis) for at in range(count)]
    return np.stack(others, axis=axis)


def _load(words: str, here: float, usual: float) -> str:
    return f"{words.format(short(100 * here, 2))}, {short(100 * usual, 2)} % in the median of the others"
