# SPDX-License-Identifier: Apache-2.0
"""Limits of settings by the records of hosts, in place of those without a known cause; pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, SHARES, UNEXPLAINED
from tpcsweep.pages.axis_changes import gains_of_more
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.full_rates import RateOfHost, lines_of_settings, rates_of_hosts
from tpcsweep.pages.host_senders import HostSenders, host_senders
from tpcsweep.pages.host_windows import HostWindow, host_windows, window_lines

HOST_RATE, CONNECTION = "host_rate", "connection"
NAMES: Mapping[str, str] = {
    **LIMIT_NAMES,
    HOST_RATE: "a host's rate limit",
    CONNECTION: "the pace of each connection",
}
MEANINGS: Mapping[str, str] = {
    **LIMITS,
    HOST_RATE: "no other cause is known, and a queueing discipline of a recorded host lets no more pass",
    CONNECTION: "data was under way, windows and losses hardly stopped it, and more streams reach more over the same "
    "hosts and path, so that slow start or pacing is left",
}
"""Names and meanings of the limits on pages."""
WITHOUT_CAUSE = (*UNEXPLAINED, CONNECTION)
"""Limits with sentences of the records of hosts."""


class HostRecords(NamedTuple):
    rates: Sequence[RateOfHost]
    windows: Sequence[HostWindow]
    senders: HostSenders
    limits: NDArray[Any]
    """HOST_RATE or CONNECTION of each setting, flattened; "" for settings with a known cause or without records."""
    shares: NDArray[np.float64]
    """Share of the time without a known cause that this limit takes."""
    lines: Sequence[Sequence[str]]
    """Lines about each setting."""

    @property
    def full(self) -> NDArray[np.bool_]:
        """Settings that fill a rate limit."""
        return np.asarray(np.any([limit.full for limit in self.rates] or [self.limits == HOST_RATE], axis=0))

    def in_settings(self, held: NDArray[np.bool_]) -> Iterator[str]:
        """Yield the sentences on some settings: full rate limits, windows, and senders."""
        yield from filter(None, (rate.in_settings(held) for rate in self.rates))
        yield from filter(None, (window.in_settings(held) for window in self.windows))
        yield from filter(None, [self.senders.in_settings(held)])

    def instead_of(self, limits: NDArray[Any]) -> NDArray[Any]:
        """Return limits of settings, or of all their repetitions; those of hosts replace the ones without a cause."""
        shown = self.limits.repeat(limits.size // self.limits.size)
        return np.where((shown != "") & np.isin(limits, UNEXPLAINED), shown, limits.astype(object))

    def explained(self, cells: Cells) -> Cells:
        limit, second = (self.instead_of(limits) for limits in (cells.limit, cells.second))
        return replace(cells, limit=limit, second=np.where(second == limit, "", second))


def host_records(summary: xr.Dataset, settings: xr.Dataset, cells: Cells) -> HostRecords:
    """Return the records of hosts about the settings of a dataset; `cells` have the measured limits."""
    rates = rates_of_hosts(summary)
    windows = host_windows(summary, rates)
    found = np.full(cells.limit.shape, "", object)
    shares = np.ones(found.size)
    for rate in rates:
        found[rate.full] = HOST_RATE
        shares[rate.full] = np.where(rate.at_times, rate.under_way, 1.0)[rate.full]
    known = np.where(found != "", found, cells.limit)
    senders = host_senders(settings, known, gains_of_more(cells, "streams"))
    found[senders.paced] = CONNECTION
    lines = zip(
        lines_of_settings(rates, cells.limit),
        window_lines(windows, found.size),
        senders.lines(),
        strict=True,
    )
    return HostRecords(rates, windows, senders, found, shares, [[*filter(None, each)] for each in lines])


def shares_of_time(settings: xr.Dataset, of_hosts: HostRecords) -> list[list[list[int]]] | None:
    """Return each setting's limits with their percentage of its time, largest first; datasets may lack them.

    Limits that hosts show take the time without a known cause.
    """
    names = [name for name, share in SHARES.items() if share in settings and settings[share].notnull().any()]
    if not names:
        return None
    places = [*MEANINGS]
    shares = np.stack([settings[SHARES[name]].values.ravel() for name in names], axis=1)
    percent = np.rint(100 * np.nan_to_num(shares)).astype(int)
    rows = []
    for row, shown, share in zip(percent, of_hosts.limits, of_hosts.shares, strict=True):
        known = dict(zip(names, map(int, row), strict=True))
        if shown:
            unknown = sum(known[name] for name in UNEXPLAINED if name in known)
            known |= {name: round(known[name] * (1 - share)) for name in UNEXPLAINED if name in known}
            known[shown] = round(unknown * share)
        largest_first = sorted(known.items(), key=lambda each: -each[1])
        rows.append([[places.index(name), each] for name, each in largest_first if each > 0])
    return rows
