# SPDX-License-Identifier: Apache-2.0
"""Rate limits of recorded hosts that settings fill, even if clocks and counters of cells show another limit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import between, counted, short
from tpcsweep.common.texts import capital
from tpcsweep.data.host_rates import FULL_RATE, HostRate, is_full, shares_of_rates, time_under_way
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import UNEXPLAINED
from tpcsweep.sweeps.sweep import REPETITION

RAISE = "Only a higher rate there raises it."
WHILE = "while data is under way"
RAISE_OR_FILL = "A higher rate there raises it, or less time without data."


class RateOfHost(NamedTuple):
    """A rate limit on an interface of a host, in the settings that were measured with it."""

    words: str
    """The limit, such as "a rate limit on dtn1's ens1 (tbf, 10 Gbit/s)"."""
    shares: NDArray[np.float64]
    """Throughput of each setting over the limit; NaN for settings without it."""
    under_way: NDArray[np.float64]
    """Share of each setting's time in which data was under way; NaN if unknown."""

    @property
    def full(self) -> NDArray[np.bool_]:
        """Settings that fill the limit, at least while data is under way."""
        return is_full(self.shares, self.under_way)

    @property
    def at_times(self) -> NDArray[np.bool_]:
        """Settings that fill the limit only while data is under way."""
        return np.asarray(self.full & (self.shares < FULL_RATE))

    @property
    def below(self) -> NDArray[np.bool_]:
        """Settings that the limit lets have more."""
        return np.asarray((self.shares < FULL_RATE) & ~self.full)

    def in_settings(self, held: NDArray[np.bool_]) -> str:
        """Return the sentences on some of the settings; "" if none of them fills the limit."""
        full = self.full & held
        groups = (
            (full & ~self.at_times, self.words),
            (full & self.at_times, f"{WHILE}, {self.words}"),
        )
        return " ".join(
            f"{capital(words)} is full in {counted(int(group.sum()), 'setting')}: throughput is "
            f"{self._percent(group)} of it."
            for group, words in groups
            if group.any()
        )

    def below_in(self, held: NDArray[np.bool_]) -> str:
        """Return the sentence on the settings among some that do not fill the limit; "" without any."""
        below = self.below & held
        if not below.any():
            return ""
        settings = counted(int(below.sum()), "setting")
        return f"In {settings}, throughput is {self._percent(below)} of {self.words}, which is not full."

    def after_window(self, held: NDArray[np.bool_]) -> str:
        """Return the sentence on the limit of some settings with a larger window; "" if they are without it."""
        below = self.below & held
        if not below.any():
            return ""
        gains = 1 / self.shares[below]
        most = between(float(gains.min()), float(gains.max()))
        return f"It then meets {self.words}: that alone gives at most {most} times the throughput."

    def _percent(self, settings: NDArray[np.bool_]) -> str:
        shares = 100 * self.shares[settings]
        return f"{between(float(shares.min()), float(shares.max()))} %"


def rates_of_hosts(summary: xr.Dataset) -> list[RateOfHost]:
    """Return the limits under which settings of a dataset were measured."""
    settings = settings_of(summary)
    under_way, rates = time_under_way(settings).values.ravel(), settings["throughput"].values.ravel()
    positive = summary["throughput"].where(summary["throughput"] > 0)
    return [
        RateOfHost(rate_words(limit), rates * (cells / positive).max(REPETITION).values.ravel(), under_way)
        for limit, cells in shares_of_rates(summary).items()
    ]


def rate_words(limit: HostRate) -> str:
    rate = f"{limit.kind}, {short(limit.rate)} Gbit/s{' for each flow' * limit.of_flow}"
    return f"a rate limit on {limit.host}'s {limit.interface} ({rate})"


def lines_of_settings(rates: Sequence[RateOfHost], limits: NDArray[Any]) -> list[str]:
    """Return a line for each setting that fills a limit, or has one and no known cause; "" for others."""
    lines = [""] * limits.size
    unexplained = np.isin(limits, UNEXPLAINED)
    for limit in rates:
        for at in np.flatnonzero(limit.full | (unexplained & limit.below)):
            share = f"{short(100 * limit.shares[at])} % of"
            if limit.full[at]:
                when, change = (f" {WHILE}", RAISE_OR_FILL) if limit.at_times[at] else ("", RAISE)
                lines[at] = f"{capital(limit.words)} is full{when}: throughput is {share} it. {change}"
            else:
                lines[at] = lines[at] or f"Throughput is {share} {limit.words}, which is not full."
    return lines
