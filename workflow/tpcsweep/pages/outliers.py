# SPDX-License-Identifier: Apache-2.0
"""Repetitions far from the others of their setting, with what was unlike at them; pure functions.

A repetition is an outlier by the rule of Iglewicz and Hoaglin (How to detect and handle outliers, 1993): its deviation
from the median is more than 3.5 of the standard deviations that the median of all deviations shows. The deviations of
all settings together say how far repetitions are apart, because each setting has few.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import short
from tpcsweep.data.repetitions import count_in_mean
from tpcsweep.pages.cell_links import cell_links
from tpcsweep.pages.finding import Sentence, places
from tpcsweep.sweeps.sweep import REPETITION

_FEWEST = 3  # repetitions of a setting that count in its mean
_DEVIATIONS = 3.5
_NORMAL = 1.4826  # standard deviation of a normal distribution over its median deviation
_LEAST = 0.2  # share of the median below which a deviation is no news
_MOST = 5  # repetitions with a line each
_UNLIKE = 0.2  # difference of a share to that of the other repetitions from which it is named
_SEEN: Mapping[str, str] = {
    "host_cpu": "a host's CPU was busy for {} % of the time",
    "host_iowait": "a host's CPU waited for disks for {} % of the time",
    "machine_cpu": "the measuring machine's CPU was busy for {} % of the time",
    "machine_others": "other programs used {} % of the measuring machine's CPU",
    "machine_slowed": "the measuring machine was {} % slower than at its fastest",
}
"""Shares of time or of CPU that may explain a rate."""


def outliers(summary: xr.Dataset) -> Iterator[Sentence]:
    """Yield the finding that names the outliers, if there are any; they count in the means of their settings."""
    counted = count_in_mean(summary)
    rates = summary["throughput"].where(counted & (counted.sum(REPETITION) >= _FEWEST))
    medians = rates.median(REPETITION)
    deviations = np.abs(np.log(rates.where(rates > 0)) - np.log(medians.where(medians > 0)))
    if not deviations.notnull().any():
        return
    far = deviations > max(_DEVIATIONS * _NORMAL * float(deviations.median()), _LEAST)
    far = far.transpose(*summary["throughput"].dims)
    if not far.any():
        return
    cells = [*zip(*np.nonzero(far.values), strict=True)]
    links = cell_links(summary, far.values)
    lines = [
        f"{link.words}: {short(float(rates.transpose(*far.dims).values[at]))} Gbit/s, the median is "
        f"{short(float(medians.broadcast_like(far).transpose(*far.dims).values[at]))}{_unlike(summary, far, at)}"
        for link, at in zip(links[:_MOST], cells, strict=False)
    ]
    more = f"; and {len(links) - _MOST} more" if len(links) > _MOST else ""
    text = f"Far from the other repetitions of its setting, and in its mean: {'; '.join(lines)}{more}."
    yield Sentence(text, places(far.any(REPETITION).values.ravel()))


def _unlike(summary: xr.Dataset, far: xr.DataArray, at: tuple[int, ...]) -> str:
    """Describe the shares at a cell that differ from those of the other repetitions."""
    texts = []
    for name, words in _SEEN.items():
        if name not in summary:
            continue
        values: NDArray[np.float64] = summary[name].transpose(*far.dims).values
        axis = far.get_axis_num(REPETITION)
        every: list[int | slice] = [*at]
        every[axis] = slice(None)
        others = np.delete(values[tuple(every)], at[axis])
        if np.isfinite(others).any() and values[at] - np.nanmedian(others) >= _UNLIKE:
            here, usual = (short(100 * float(share), 2) for share in (values[at], np.nanmedian(others)))
            texts.append(f"{words.format(here)}, at the others {usual} %")
    return f" ({'; '.join(texts)})" if texts else ""
