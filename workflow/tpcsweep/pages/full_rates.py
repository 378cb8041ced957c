# SPDX-License-Identifier: Apache-2.0
"""Rate limits of recorded hosts that settings fill, even if clocks and counters of cells show another limit.

Pages show such a rate in place of a limit without a known cause, under the name HOST_RATE.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.data.host_rates import shares_of_rates
from tpcsweep.data.labels import STATUS
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, UNEXPLAINED
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.sweeps.sweep import REPETITION

RAISE = "Only a higher rate there raises it."
HOST_RATE = "host_rate"
NAMES: Mapping[str, str] = {**LIMIT_NAMES, HOST_RATE: "a host's rate limit"}
MEANINGS: Mapping[str, str] = {
    **LIMITS,
    HOST_RATE: "no other cause is known, and a queueing discipline of a recorded host lets no more pass",
}
"""Names and meanings of the limits on pages."""
_FULL = 0.86
"""Throughput over a rate limit from which it is full: 0.9 of it, as of a path, less headers at an MTU of 1500."""


class FullRate(NamedTuple):
    words: str
    """The limit, such as "A rate limit on dtn1's ens1 (tbf, 10 Gbit/s)"."""
    shares: NDArray[np.float64]
    """Throughput of each setting over the limit, in the median of repetitions; NaN for settings that do not fill it."""

    @property
    def settings(self) -> NDArray[np.bool_]:
        return np.isfinite(self.shares)

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentence on some of the settings; "" if none of them fills the limit."""
        full = self.settings & held
        if not full.any():
            return ""
        ends = between(100 * float(self.shares[full].min()), 100 * float(self.shares[full].max()))
        return f"{self.words} is full in {counted(int(full.sum()), 'setting')}: throughput is {ends} % of it."


def full_rates(summary: xr.Dataset) -> list[FullRate]:
    """Return the limits that settings of a dataset fill."""
    found = []
    for limit, cells in shares_of_rates(summary).items():
        known = cells.where(summary["status"] == STATUS.index("ok")).median(REPETITION).values.ravel()
        shares = np.where((known >= _FULL) & (known <= 2 - _FULL), known, np.nan)
        if np.isfinite(shares).any():
            rate = f"{limit.kind}, {short(limit.rate)} Gbit/s{' for each flow' * limit.of_flow}"
            found.append(FullRate(f"A rate limit on {limit.host}'s {limit.interface} ({rate})", shares))
    return found


def fills_some(full: Sequence[FullRate], count: int) -> NDArray[np.bool_]:
    """Return which of `count` settings fill a limit."""
    return np.asarray(np.any([limit.settings for limit in full] or [np.zeros(count, bool)], axis=0))


def with_host_rate(limits: NDArray[Any], is_full: NDArray[np.bool_]) -> NDArray[Any]:
    """Return limits with HOST_RATE in place of those without a known cause, where a rate of a host is full."""
    return np.where(is_full & np.isin(limits, UNEXPLAINED), HOST_RATE, limits.astype(object))


def explained(cells: Cells, full: Sequence[FullRate]) -> Cells:
    """Return settings whose limits are those of `with_host_rate`."""
    is_full = fills_some(full, cells.limit.size)
    limit, second = (with_host_rate(limits, is_full) for limits in (cells.limit, cells.second))
    return replace(cells, limit=limit, second=np.where(second == limit, "", second))


def lines_of_settings(full: Sequence[FullRate], count: int) -> list[str]:
    """Return a line for each of `count` settings that fills a limit, and "" for others."""
    lines = [""] * count
    for limit in full:
        for at in np.flatnonzero(limit.settings):
            share = short(100 * limit.shares[at])
            lines[at] = f"{limit.words} is full: throughput is {share} % of it. {RAISE}"
    return lines
