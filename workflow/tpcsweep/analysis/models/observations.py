# SPDX-License-Identifier: Apache-2.0
"""Measured cells for fits: one row for each cell and repetition, with its error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.analysis.models.formula import SEED, Floats, Points, with_defaults
from tpcsweep.data.labels import IMPORTED, SIMULATED
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.parameters import CELL
from tpcsweep.sweeps.sweep import REPETITION

FLOOR = 0.05
"""Floor of errors: share of the point's mean throughput and of the median throughput of all cells.
Cells of the same setting differ by about as much between deployments, and no model is exact."""

NO_INTERVAL = 0.2
"""Error of an observation without interval or repetitions, as a share of its point's throughput."""

CLASS_SHARE = 0.1
"""On axes with more than `MANY_VALUES` values, values that differ by no more than this share form one class."""

MANY_VALUES = 12

LARGEST_FULL_FIT = 5000  # largest number of cells that models are fitted to in full

SAMPLE_SIZE = 500  # number of sampled cells for fits of larger datasets; fits to 10⁵ cells would take hours

_MOST = 0.5  # share of the points


class NothingMeasuredError(ValueError):
    """The dataset has no cell that was measured well."""


@dataclass(frozen=True)
class Observations:
    """Measured cells, as columns."""

    frame: pd.DataFrame
    """One row for each cell and repetition.
    Its columns are axes, fixed parameters, throughput, errors, deployment, point, run and flags. `interval_error` is
    the standard error behind the interval alone, NaN without one."""
    axes: tuple[str, ...]
    """Names of parameters with several values, in the dataset's order, without `repetition`."""
    label: str = ""  # description of the data for figures, such as "sweep demo, measured on netns"
    data_kind: str = "measured"  # origin of the throughput: measured or simulated

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.axes if pd.api.types.is_numeric_dtype(self.frame[name]))

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Values of the axes that are not numeric, as sorted texts."""
        others = [name for name in self.axes if name not in self.numeric]
        return {name: tuple(sorted(set(self.frame[name].astype(str)))) for name in others}

    @cached_property
    def points(self) -> Points:
        """All numeric parameters, with values of `DEFAULTS` for missing ones."""
        return with_defaults(self.frame)

    @cached_property
    def throughput(self) -> Floats:
        """Measured throughput in Gbit/s."""
        return np.asarray(self.frame["throughput"], float)

    @cached_property
    def error(self) -> Floats:
        """Standard errors in Gbit/s, never below the floors."""
        return np.asarray(self.frame["error"], float)

    @cached_property
    def level(self) -> Floats:
        """Mean throughput of each row's point in Gbit/s, to which the floor of its error is relative."""
        return np.asarray(self.frame["level"], float)

    @property
    def runs(self) -> NDArray[np.int64] | None:
        """Number of each row's run, or None if few points were measured in several runs.

        Otherwise differences between runs cannot be separated from those between settings.
        """
        repeated = self.frame.groupby("point")["run"].nunique() > 1
        return self.frame["run"].to_numpy(np.int64) if repeated.mean() > _MOST else None

    def error_at(self, estimate: Floats) -> Floats:
        """Return standard errors in Gbit/s, with a floor relative to the estimate if that exceeds `level`.

        A cell that stalled at a hundredth of its neighbours' throughput has the smallest interval of all and would
        outweigh them. With this floor no residual exceeds 1/FLOOR.
        """
        floor = FLOOR**2 * (np.maximum(estimate, self.level) ** 2 - self.level**2)
        return np.asarray(np.sqrt(self.error**2 + floor))

    def classes(self, name: str) -> pd.Series:
        """Return the class of each row's value of an axis (see `value_classes`); subsets of rows keep their classes."""
        return self.frame.get(f"{name}_class", self.frame[name])

    def take(self, rows: NDArray[Any]) -> Observations:
        return replace(self, frame=self.frame.iloc[rows].reset_index(drop=True))


def observe(ds: xr.Dataset, most: int = LARGEST_FULL_FIT) -> Observations:
    """Return the well-measured cells of a dataset; of more than `most`, return a fixed random `SAMPLE_SIZE`.

    A row's error is the standard error behind its interval, in quadrature with the floors. Raises NothingMeasuredError
    if no cell was measured well.
    """
    cells = observations(ds)
    frame = cells[cells["reason"] == ""].drop(columns="reason").reset_index(drop=True)
    if frame.empty:
        raise NothingMeasuredError("the dataset has no cell with the status ok and a throughput")
    # The axes in the dataset's order, then coordinates along them, such as the host of a record.
    names = dict.fromkeys(map(str, (*ds["throughput"].dims, *ds.coords)))
    undeclared = frame.columns[frame.isna().all()]
    frame = frame.drop(columns=[name for name in names if name in undeclared])
    parameters = [name for name in names if name in frame and name != REPETITION]
    numbers = [name for name in parameters if pd.api.types.is_numeric_dtype(frame[name])]
    frame[numbers] = frame[numbers].astype(float)
    axes = tuple(name for name in parameters if frame[name].nunique() > 1)
    grouped = {name: value_classes(frame[name]) for name in axes}
    for name, values in grouped.items():
        if not values.equals(frame[name]):
            frame[f"{name}_class"] = values
    frame["point"] = _key(grouped, frame.index)
    deployed = {name: values for name, values in grouped.items() if name not in CELL}
    frame["deployment"] = _key(deployed, frame.index)
    frame["interval_error"] = frame["error"]  # NaN without an interval
    frame["error"], frame["level"], frame["relative"] = _errors(frame)
    how = "simulated" if ds.attrs.get("testbed_kind") == SIMULATED else "measured"
    elsewhere = "elsewhere, imported from" if ds.attrs.get("testbed_kind") == IMPORTED else "on"
    label = f"sweep {ds.attrs.get('sweep', '?')}, {how} {elsewhere} {ds.attrs.get('testbed', '?')}"
    if len(frame) > most:
        count = min(most, SAMPLE_SIZE)
        label += f", {count} of {len(frame)} cells chosen at random"
        rows = np.sort(np.random.default_rng(SEED).choice(len(frame), count, replace=False))
        frame = frame.iloc[rows].reset_index(drop=True)
    return Observations(frame, axes, label, how)


def value_classes(values: pd.Series) -> pd.Series:
    """Return the class of each value of an axis: the value, or the smallest near one if there are many.

    Measured RTTs, unlike configured ones, never repeat exactly; differences below 0.1 ms are noise.
    """
    if values.nunique() <= MANY_VALUES or not pd.api.types.is_numeric_dtype(values):
        return values
    smallest: dict[float, float] = {}
    first, least = values.min(), 1.0 if values.name == "rtt" else 0.0
    for value in np.sort(values.unique()):
        if value > first + CLASS_SHARE * max(abs(first), least):
            first = value
        smallest[value] = first
    return values.map(smallest)


def _key(columns: dict[str, pd.Series], index: pd.Index) -> pd.Series:
    key = pd.Series("", index)
    for name, values in columns.items():
        key += f"/{name}=" + values.map(
            lambda value: f"{value:g}" if isinstance(value, float) else str(value)
        )
    return key.str.removeprefix("/")


def _errors(frame: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return standard errors in Gbit/s, the levels of their floors, and errors of the logarithm.

    The error share estimated from repetitions is relative to the measured level. An error that grew with the estimate
    would reward estimates that are too high.
    """
    throughput, error = frame["throughput"], frame["error"].to_numpy()
    typical = float(throughput.median()) or float(throughput.max()) or 1.0
    level = throughput.groupby(frame["point"]).transform("mean").to_numpy()
    known = np.isfinite(error)
    share = np.where(known, FLOOR, max(_of_repetitions(frame), FLOOR))
    error = np.where(known, error, 0.0)
    with_floor = np.sqrt(error**2 + (share * level) ** 2 + (FLOOR * typical) ** 2)
    relative = np.divide(error, level, out=np.zeros(len(error)), where=level > 0)
    return with_floor, level, np.hypot(share, relative)


def _of_repetitions(frame: pd.DataFrame) -> float:
    """Return the relative standard deviation of repetitions within a run; `NO_INTERVAL` without any.

    The median pools the points, so that no stalled cell moves it; Wilson and Hilferty's ratio of χ² corrects it.
    """
    about = frame.groupby(["point", "run"])["throughput"].agg(["mean", "var", "size"])
    about = about[(about["size"] > 1) & (about["mean"] > 0)]
    if about.empty:
        return NO_INTERVAL
    freedom = about["size"] - 1
    squares = about["var"] / about["mean"] ** 2 / (1 - 2 / (9 * freedom)) ** 3
    return float(np.sqrt(squares.median()))
