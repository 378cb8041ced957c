# SPDX-License-Identifier: Apache-2.0
"""Settings of a dataset as flat arrays, with the trust in each and their limits; pure functions."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, describe, flagged
from tpcsweep.data.redirectors import redirected
from tpcsweep.data.shared_rates import SHARED, UNDECIDED
from tpcsweep.data.tables import observations
from tpcsweep.data.variables import SHARES
from tpcsweep.pages.machine_load import cells_on_full_machine
from tpcsweep.sweeps.parameters import name_text, value_text

FULL = 0.9  # share of the path's bandwidth below which the path was not full all the time; headers take some
_SECOND = 0.1  # smallest share of a second limit that is named


@dataclass(frozen=True)
class Cells:
    """Settings in the order of the flattened grid. Throughput and its errors are in Gbit/s."""

    axes: dict[str, list[Any]]
    places: dict[str, NDArray[np.intp]]  # index of each cell's value, by axis
    throughput: NDArray[np.float64]  # NaN for settings that cannot be trusted
    measured: NDArray[np.float64]  # throughput of every setting, also of those that cannot be trusted
    low: NDArray[np.float64]  # ends of the throughput's interval; NaN if unknown
    high: NDArray[np.float64]
    error: NDArray[np.float64]  # standard error of the throughput; NaN if unknown
    bandwidth: NDArray[np.float64]  # of the path; NaN if unknown
    limit: NDArray[Any]  # "" if the setting was not judged, or paused
    second: NDArray[Any]  # second limit, "" if it took little of the time
    shares: dict[str, NDArray[np.float64]]  # shares of the time of each limit, as far as the dataset has them
    paused: NDArray[np.float64]
    """Share of the time of settings with the flag `waited` that pauses of servers took; NaN for all others."""
    full_machine: NDArray[np.bool_]  # whether the measuring machine of endpoints was full
    redirected: NDArray[np.bool_]  # whether clients contact a redirector
    shared: NDArray[np.bool_]  # whether streams share a rate, so that they fill the pauses of each other
    undecided: NDArray[np.bool_]  # whether nobody knows this, because no setting has fewer streams
    kind: str  # " without warnings" if some settings cannot be trusted

    @property
    def trusted(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.throughput))

    @property
    def partial(self) -> NDArray[np.bool_]:
        """Settings limited by the path's bandwidth although they reach less: the path was full at times."""
        return np.asarray((self.limit == "bandwidth") & (self.measured < FULL * self.bandwidth))

    def share(self, limit: str) -> NDArray[np.float64]:
        return self.shares.get(limit, np.full(self.throughput.shape, np.nan))

    def several(self) -> list[str]:
        """Return the axes with several values."""
        return [name for name, values in self.axes.items() if len(values) > 1]

    def value(self, name: str, place: int, before: str = "") -> str:
        """Return a value of an axis, as text with the name of the axis and words `before` the value."""
        value = self.axes[name][place]
        text = f"{before}{value_text(name, value)}"
        if isinstance(value, str) or describe(name).units not in ("1", "cores"):
            return f"{name_text(name)} {text}"
        return f"{text} {name_text(name).removesuffix('s') if value == 1 else name_text(name)}"

    def number(self, axes: Collection[str]) -> NDArray[np.intp]:
        """Return a number for each setting that settings share if they are equal on some axes."""
        shape = [len(values) for values in self.axes.values()]
        return np.ravel_multi_index([self.places[name] * (name in axes) for name in self.axes], shape)


def grid_cells(summary: xr.Dataset) -> Cells:
    """Return the settings of a dataset from `data.repetitions.settings_of`."""
    throughput = summary["throughput"]
    rates = throughput.values.ravel()
    trusted = (summary["status"] == STATUS.index("ok")).values.ravel() & ~doubtful(summary)
    places = np.indices(throughput.shape).reshape(throughput.ndim, throughput.size)
    bandwidth = summary.get("bandwidth", xr.DataArray(np.nan))
    shares = {limit: summary[name].values.ravel() for limit, name in SHARES.items() if name in summary}
    paused = pauses(summary).ravel()
    limit = np.where(np.isfinite(paused), "", _words(summary, "limit"))
    cells = Cells(
        axes={str(name): summary[name].values.tolist() for name in throughput.dims},
        places={str(name): place for name, place in zip(throughput.dims, places, strict=True)},
        throughput=np.where(trusted, rates, np.nan),
        measured=rates,
        low=summary["throughput_low"].values.ravel(),
        high=summary["throughput_high"].values.ravel(),
        error=observations(summary)["error"].to_numpy(float),
        bandwidth=bandwidth.broadcast_like(throughput).transpose(*throughput.dims).values.ravel(),
        limit=limit,
        second=_words(summary, "limit_second"),
        shares=shares,
        paused=paused,
        full_machine=cells_on_full_machine(summary).ravel(),
        redirected=redirected(summary),
        shared=summary[SHARED].values.ravel(),
        undecided=summary[UNDECIDED].values.ravel(),
        kind="" if trusted.sum() == (summary["status"] == STATUS.index("ok")).sum() else " without warnings",
    )
    return replace(cells, second=np.where(cells.partial, _second_largest(cells), cells.second))


def doubtful(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells carry a warning or are invalid, flattened."""
    return np.asarray(flagged(summary, *graded(FLAGS, "warning", "invalid")).values.ravel())


def pauses(summary: xr.Dataset) -> NDArray[np.float64]:
    """Return the share of the streams' time, waited for servers, in cells of whose rate it is the cause; otherwise NaN.

    The limit of such a cell, usually `between_files`, comes from these pauses.
    """
    if "waited_share" not in summary:
        return np.full(summary["throughput"].shape, np.nan)
    return np.where(flagged(summary, "waited").values, summary["waited_share"].values, np.nan)


def limits_of_cells(summary: xr.Dataset, settings: xr.Dataset) -> NDArray[Any]:
    """Return the limit of each cell, flattened: its setting's where streams share a rate, and "" if it was paused."""
    own = summary["limit"]
    shared, named = (
        settings[name].broadcast_like(own).transpose(*own.dims).values for name in (SHARED, "limit")
    )
    limits = np.where(shared & (own.values != ""), named, own.values)
    return np.asarray(np.where(np.isfinite(pauses(summary)), "", limits).ravel())


def _words(summary: xr.Dataset, name: str) -> NDArray[Any]:
    if name not in summary:
        return np.full(summary["throughput"].size, "", object)
    return np.asarray(summary[name].values.ravel(), object)


def _second_largest(cells: Cells) -> NDArray[Any]:
    """Return the limit with the largest share of each cell's time, except for its own limit; "" if it is small."""
    if not cells.shares:
        return np.full(cells.limit.shape, "", object)
    names = np.array([*cells.shares], object)
    shares = np.nan_to_num(np.stack([*cells.shares.values()]))
    shares[names[:, None] == cells.limit] = 0.0
    return np.where(shares.max(axis=0) >= _SECOND, names[shares.argmax(axis=0)], "")
