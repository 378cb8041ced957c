# SPDX-License-Identifier: Apache-2.0
"""Measured links of a mesh: the settings of each link, and its best one, as logarithms of throughput.

The best of the measured settings, usually of several `streams`, stands for a link. With few streams TCP's window makes
far links slow, so that the same streams on all links would compare RTTs. The best of noisy means is a little too high,
on all links alike if they have the same settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import is_mesh, outside_sweep
from tpcsweep.data.scatter import run_to_run
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.parameters import DESTINATION, LINK, SOURCE
from tpcsweep.sweeps.problems import refused
from tpcsweep.sweeps.sweep import REPETITION

Floats = NDArray[np.float64]
RATE = "throughput"
TOGETHER = 60.0  # most seconds between the starts of cells that one event slows
WAITED = "waited"
"""Flag of cells whose rate contains the pauses that a server asked for, and tells nothing about the path."""


@dataclass(frozen=True)
class Mesh:
    """The best setting of each link. Matrices are sources × destinations, NaN or "" for links without a measurement."""

    sources: Sequence[str]
    destinations: Sequence[str]
    logs: Floats  # logarithm of the throughput in Gbit/s, mean over repetitions
    variances: Floats  # of `logs`: interval of the cells, and luck of the run
    assumed: NDArray[np.bool_]
    """Whether no cell has an interval, so that `variances` has the median noise of settings."""
    rtt: Floats  # ms
    limit: NDArray[Any]  # names of `data.variables.LIMITS`
    streams: Floats
    wanted: NDArray[np.bool_]  # whether the link is part of the sweep
    waited: Floats  # throughput in Gbit/s of links of which `waited_rates` tells; NaN for others
    started: Floats  # start of the cells, s since 1970; NaN if unknown, or if they are not of one time

    @property
    def known(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.logs))

    @property
    def sites(self) -> list[str]:
        return list(dict.fromkeys([*self.sources, *self.destinations]))


def require_mesh(summary: xr.Dataset) -> None:
    """Raise ConfigurationError if a dataset has no links."""
    if not is_mesh(summary):
        axes = ", ".join(str(name) for name in summary[RATE].dims if name != REPETITION)
        raise refused(
            "RESULTS", f"a dataset with the axes {axes}", f"a mesh, with the axes {' and '.join(LINK)}"
        )


def link_settings(summary: xr.Dataset) -> pd.DataFrame:
    """Return one row for each link and setting with a usable cell, whose rate is not made of a server's pauses.

    Columns are source, destination, the other axes (without repetitions), and

        log, variance, freedom: mean logarithm of the throughput in Gbit/s, its variance and degrees of freedom;
        single: variance of a single further measurement of the setting;
        count: number of measurements;
        assumed: whether none of its cells has an interval, so that the variance has the median noise of all cells;
        rtt (ms), limit, streams (NaN if unknown);
        started: mean start of its cells, s since 1970; NaN if unknown, or more than `TOGETHER` apart.
    """
    rows = _usable(summary)
    rows = rows[~rows[WAITED]]
    axes = [str(name) for name in summary[RATE].dims if name != REPETITION]
    if rows.empty:
        return pd.DataFrame(
            columns=[
                *axes,
                *("log", "variance", "freedom", "single"),
                *("count", "assumed", "rtt", "limit", "streams", "started"),
            ]
        )
    rows = rows.assign(cell=rows.groupby(axes, sort=False).ngroup())
    luck = run_to_run(rows) ** 2
    square = (rows["error"] / rows[RATE]) ** 2
    rows = rows.assign(
        assumed=square.isna(), log=np.log(rows[RATE]), square=square.fillna(square.median()).fillna(0.0)
    )
    grouped = rows.groupby(axes, sort=False)
    found = grouped.agg(
        log=("log", "mean"),
        square=("square", "mean"),
        freedom=("freedom", "sum"),
        count=("log", "size"),
        assumed=("assumed", "all"),
        rtt=("link_rtt", "median"),
        limit=("limit", _most_frequent),
        started=("started", _one_time),
    ).reset_index()
    single = found["square"] + luck
    found = found.assign(single=single, variance=single / found["count"]).drop(columns="square")
    if "streams" not in found:
        found["streams"] = float(rows["streams"].iloc[0]) if "streams" in rows else np.nan
    return found


def _usable(summary: xr.Dataset) -> pd.DataFrame:
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=("limit", "rtt_idle", "started"))
    rows = rows[(rows["reason"] == "") & (rows[RATE] > 0)]
    declared = pd.to_numeric(rows["rtt"], errors="coerce") if "rtt" in rows else np.nan
    return rows.assign(
        link_rtt=rows["rtt_idle"].fillna(declared),
        limit=rows["limit"].fillna("").astype(str),
        started=(pd.to_datetime(rows["started"]) - pd.Timestamp(0)) / pd.Timedelta(seconds=1),
    )


def waited_rates(summary: xr.Dataset) -> dict[tuple[str, str], float]:
    """Return the throughput in Gbit/s of links whose usable cells all waited for pauses that servers asked for."""
    rows = _usable(summary)
    by_link = rows.groupby([*LINK], sort=False)
    found = by_link[RATE].max()[by_link[WAITED].all()] if len(rows) else pd.Series(dtype=float)
    return {(str(source), str(destination)): float(rate) for (source, destination), rate in found.items()}


def _most_frequent(limits: "pd.Series[str]") -> str:
    known = limits[limits != ""]
    return str(known.mode().iloc[0]) if len(known) else ""


def _one_time(starts: "pd.Series[float]") -> float:
    return float(starts.mean()) if starts.max() - starts.min() <= TOGETHER else np.nan


def best_settings(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the row with the largest mean of each link."""
    best = settings.loc[settings.groupby([*LINK], sort=False)["log"].idxmax()] if len(settings) else settings
    return best.reset_index(drop=True)


def mesh_of(summary: xr.Dataset, settings: pd.DataFrame | None = None) -> Mesh:
    """Return the links of a mesh; `settings` are those of `link_settings`. Raises ConfigurationError without links."""
    require_mesh(summary)
    best = best_settings(link_settings(summary) if settings is None else settings)
    sources, destinations = ([str(value) for value in summary[name].values.tolist()] for name in LINK)
    at = (
        best[SOURCE].astype(str).map(sources.index).to_numpy(int),
        best[DESTINATION].astype(str).map(destinations.index).to_numpy(int),
    )

    def plane(name: str, nothing: Any = np.nan) -> NDArray[Any]:
        matrix = np.full(
            (len(sources), len(destinations)), nothing, object if nothing == "" else type(nothing)
        )
        matrix[at] = best[name].to_numpy()
        return matrix

    waited = np.full((len(sources), len(destinations)), np.nan)
    for (source, destination), rate in waited_rates(summary).items():
        waited[sources.index(source), destinations.index(destination)] = rate
    return Mesh(
        sources,
        destinations,
        plane("log"),
        plane("variance"),
        plane("assumed", False),
        plane("rtt"),
        plane("limit", ""),
        plane("streams"),
        _wanted(summary),
        waited,
        plane("started"),
    )


def _wanted(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which links have a cell that is part of the sweep."""
    shaped = ~outside_sweep(summary)
    links = shaped.any([name for name in shaped.dims if name not in LINK]).transpose(*LINK)
    same = summary[SOURCE].values[:, None] == summary[DESTINATION].values[None, :]
    return np.asarray(links.values & ~same)
