# SPDX-License-Identifier: Apache-2.0
"""Cells of a dataset as flat arrays, with the trust in each and their limits; pure functions."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, describe, flagged
from tpcsweep.data.tables import observations
from tpcsweep.data.variables import SHARES
from tpcsweep.sweeps.parameters import name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

FULL = 0.9  # share of the path's bandwidth below which the path was not full all the time; headers take some
_SECOND = 0.1  # smallest share of a second limit that is named


@dataclass(frozen=True)
class Cells:
    """Cells in the order of the flattened grid. Throughput and its errors are in Gbit/s."""

    axes: dict[str, list[Any]]
    places: dict[str, NDArray[np.intp]]  # index of each cell's value, by axis
    throughput: NDArray[np.float64]  # NaN for cells that cannot be trusted
    measured: NDArray[np.float64]  # throughput of every cell, also of those that cannot be trusted
    half: NDArray[np.float64]  # half-width of the throughput's interval; NaN if unknown
    error: NDArray[np.float64]  # standard error of the throughput; NaN if unknown
    bandwidth: NDArray[np.float64]  # of the path; NaN if unknown
    limit: NDArray[Any]  # "" if the cell was not judged
    second: NDArray[Any]  # second limit, "" if it took little of the time
    shares: dict[str, NDArray[np.float64]]  # shares of the time of each limit, as far as the dataset has them

    kind: str  # " without warnings" if some cells cannot be trusted

    @property
    def trusted(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.throughput))

    @property
    def partial(self) -> NDArray[np.bool_]:
        """Cells limited by the path's bandwidth although they reach less: the path was full at times."""
        return np.asarray((self.limit == "bandwidth") & (self.measured < FULL * self.bandwidth))

    def share(self, limit: str) -> NDArray[np.float64]:
        return self.shares.get(limit, np.full(self.throughput.shape, np.nan))

    def several(self) -> list[str]:
        """Return the axes with several values, without repetitions."""
        return [name for name, values in self.axes.items() if len(values) > 1 and name != REPETITION]

    def value(self, name: str, place: int, before: str = "") -> str:
        """Return a value of an axis, as text with the name of the axis and words `before` the value."""
        value = self.axes[name][place]
        text = f"{before}{value_text(name, value)}"
        if isinstance(value, str) or describe(name).units not in ("1", "cores") or name == REPETITION:
            return f"{name_text(name)} {text}"
        return f"{text} {name_text(name).removesuffix('s') if value == 1 else name_text(name)}"

    def of_settings(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each cell's throughput and the half-width of its interval, as means over the setting's repetitions."""
        count, setting = np.maximum(np.bincount(self.setting, self.trusted), 1), self.setting
        rates = np.bincount(setting, np.nan_to_num(self.throughput)) / count
        half = np.sqrt(np.bincount(setting, np.where(self.trusted, self.half, 0.0) ** 2)) / count
        mean, wide = (np.where(self.trusted, each[setting], np.nan) for each in (rates, half))
        return mean, wide

    @property
    def setting(self) -> NDArray[np.intp]:
        """Number of each cell's setting; repetitions of a setting share it."""
        return self.number([name for name in self.axes if name != REPETITION])

    def number(self, axes: Collection[str]) -> NDArray[np.intp]:
        """Return a number for each cell that cells share if they are equal on some axes."""
        shape = [len(values) for values in self.axes.values()]
        return np.ravel_multi_index([self.places[name] * (name in axes) for name in self.axes], shape)


def grid_cells(summary: xr.Dataset) -> Cells:
    throughput = summary["throughput"]
    rates = throughput.values.ravel()
    trusted = (summary["status"] == STATUS.index("ok")).values.ravel() & ~doubtful(summary)
    places = np.indices(throughput.shape).reshape(throughput.ndim, -1)
    bandwidth = summary.get("bandwidth", xr.DataArray(np.nan))
    shares = {limit: summary[name].values.ravel() for limit, name in SHARES.items() if name in summary}
    limit = _words(summary, "limit")
    cells = Cells(
        axes={str(name): summary[name].values.tolist() for name in throughput.dims},
        places={str(name): place for name, place in zip(throughput.dims, places, strict=True)},
        throughput=np.where(trusted, rates, np.nan),
        measured=rates,
        half=((summary["throughput_high"] - summary["throughput_low"]) / 2).values.ravel(),
        error=observations(summary)["error"].to_numpy(float),
        bandwidth=bandwidth.broadcast_like(throughput).transpose(*throughput.dims).values.ravel(),
        limit=limit,
        second=_words(summary, "limit_second"),
        shares=shares,
        kind="" if trusted.sum() == (summary["status"] == STATUS.index("ok")).sum() else " without warnings",
    )
    return replace(cells, second=np.where(cells.partial, _second_largest(cells), cells.second))


def doubtful(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells carry a warning or are invalid, flattened."""
    return np.asarray(flagged(summary, *graded(FLAGS, "warning", "invalid")).values.ravel())


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
