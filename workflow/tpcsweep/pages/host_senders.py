# SPDX-License-Identifier: Apache-2.0
"""Data under way, windows and losses by the kernels of sending hosts, where no limit is known; pure functions."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.common.texts import capital
from tpcsweep.data.host_rates import MOSTLY, time_under_way
from tpcsweep.data.variables import UNEXPLAINED

_STOPPED = 0.3  # share of the time in which windows stopped senders from which these are one
_RESENT = 0.001  # share of segments from which losses are one
_FIGURES = ("host_rwnd_limited", "host_sndbuf_limited", "host_retransmitted")
Floats = NDArray[np.float64]


class HostSenders(NamedTuple):
    """Shares of each setting, and its gain; NaN for settings with a known limit or without records."""

    under_way: Floats  # of the streams' time in which data was under way
    stopped: Floats  # of this time in which full windows stopped the senders
    resent: Floats  # of segments that were sent again
    more: Floats  # times the throughput that more streams reach; NaN if they gain nothing

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentences on some of the settings; "" if none of them is known."""
        known = held & np.isfinite(self.under_way)
        if not known.any():
            return ""
        return f"In {counted(int(known.sum()), 'setting')}, {self._words(known)}"

    def lines(self) -> list[str]:
        """Return a line for each setting that is known, and "" for others."""
        places = np.arange(self.under_way.size)
        return [
            capital(self._words(places == at)) if np.isfinite(share) else ""
            for at, share in enumerate(self.under_way.tolist())
        ]

    @property
    def paced(self) -> NDArray[np.bool_]:
        """Settings of which nothing but the pace of each connection is left as a limit."""
        known = np.isfinite(self.under_way) & np.isfinite(self.more)
        return np.asarray(known & ~np.any([which for which, _ in self._causes(known)], axis=0))

    def _causes(self, known: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], str]]:
        """Return the settings with each cause, and its words."""
        return [
            (known & (self.under_way < MOSTLY), "the source having none to send, as between files"),
            (known & (self.stopped >= _STOPPED), "full windows"),
            (known & (self.resent >= _RESENT), "losses"),
        ]

    def _words(self, known: NDArray[np.bool_]) -> str:
        under_way, stopped, resent = (_percent(shares[known]) for shares in self[:3])
        found = [
            words + " in some" * (not which[known].all())
            for which, words in self._causes(known)
            if which.any()
        ]
        cause = f"This points to {' or '.join(found)}" if found else self._left(known)
        return (
            f"by the record of hosts data was under way for {under_way} of the streams' time, full windows stopped "
            f"senders for {stopped} of it, and {resent} of segments were sent again. {cause}."
        )

    def _left(self, known: NDArray[np.bool_]) -> str:
        """Name the causes that no record excludes; a way that carries more streams is not full."""
        more = self.more[known]
        if np.isnan(more).any():
            return "What is left is slow start of each connection, pacing, or a limit on the way"
        times = between(float(more.min()), float(more.max()))
        return (
            f"More streams reach {times} times as much over the same hosts and path, so these are not full: what is "
            "left is slow start or pacing of each connection"
        )


def host_senders(settings: xr.Dataset, limits: NDArray[Any], more: Floats) -> HostSenders:
    """Return the shares of settings from `data.repetitions.settings_of`.

    Args:
        settings: The dataset of settings.
        limits: What limits each setting, flattened.
        more: How many times as much each reaches with more streams, flattened; NaN if they gain nothing.
    """
    rates = settings["throughput"]
    if not settings.keys() >= {*_FIGURES}:
        return HostSenders(*(np.full(rates.size, np.nan) for _ in HostSenders._fields))
    received, sent, resent = (settings[name] for name in _FIGURES)
    under_way = time_under_way(settings)
    known = np.isin(limits, UNEXPLAINED) & np.isfinite(under_way.values.ravel())
    shares = (under_way, (received.fillna(0) + sent.fillna(0)).clip(max=1.0), resent.fillna(0))
    flat = (one.transpose(*rates.dims).values.ravel() for one in shares)
    return HostSenders(*(np.where(known, one, np.nan) for one in (*flat, more)))


def _percent(shares: Floats) -> str:
    ends = dict.fromkeys(short(100 * float(end), 2) for end in (shares.min(), shares.max()))
    return f"{' to '.join(ends)} %"
