# SPDX-License-Identifier: Apache-2.0
"""Scatter of measurements, on the logarithm of throughput: within a cell, of a deployment, and of a run.

A measurement differs from its setting's true throughput by noise, which its interval contains, by luck of the cell in
this run (`RUN_TO_RUN`), which cells of a deployment may have in common, and by luck that all cells of the run share
(`SHARED`). `data.differences` estimates both where cells were measured in several runs; defaults take their place
otherwise.

Sources: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004 (moderated variances);
F. E. Satterthwaite, Biometrics Bulletin 2, 1946 (degrees of freedom of sums).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

RUN_TO_RUN = 0.02
"""Default relative standard deviation of a cell's throughput between runs.
Idle runs of the demo on one machine, compared in pairs, had a median difference of 1.6 to 1.8 %, which is that of a
standard deviation of 1.7 to 1.9 % in each run. Other machines may vary more."""

SHARED, SHARED_FREEDOM = 0.0125, 4.0
"""Default relative standard deviation that all cells of a run share, and its degrees of freedom.
Idle runs of the demo share about 0.5 %; other machines and days share more. With four degrees of freedom the default
stands for 0.75 to 3.6 %."""

OF_THE_MACHINE = ("disturbed", "machine_saturated")
"""Flags of cells whose throughput is that of a machine with other work."""

Floats = NDArray[np.float64]


class Spread(NamedTuple):
    """Variances with their degrees of freedom."""

    variance: Any
    freedom: Any


def total(*parts: Spread) -> Spread:
    """Return the sum of independent variances, with Satterthwaite's degrees of freedom."""
    variance = sum(part.variance for part in parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Spread(variance, 1 / sum((part.variance / variance) ** 2 / part.freedom for part in parts))


def moderated(found: Spread, prior: Spread) -> Spread:
    """Return the mean of a variance and its prior, weighted by their degrees of freedom, which add up (Smyth)."""
    freedom = prior.freedom + found.freedom
    share = 1.0 if np.isinf(prior.freedom) else prior.freedom / freedom
    return Spread(share * prior.variance + (1 - share) * found.variance, freedom)


# --- measurements by cell and run


@dataclass(frozen=True)
class Side:
    """Measurements of one side's cells by run, as logarithms of throughput."""

    means: Floats  # mean of each run, runs × cells; NaN where a run lacks the cell
    counts: Floats  # measurements, runs × cells
    within: Spread  # of single measurements, from repetitions in one run, by cell
    interval: Spread  # of single measurements, from their intervals, by cell; NaN if unknown

    @property
    def runs(self) -> NDArray[np.int64]:
        """Number of runs that measured each cell."""
        return np.asarray(np.isfinite(self.means).sum(axis=0))

    @property
    def weights(self) -> Floats:
        """Weights of runs in each cell's mean, runs × cells."""
        return np.isfinite(self.means) / np.maximum(self.runs, 1)


def read_side(rows: pd.DataFrame, cells: int) -> Side:
    """Return the measurements in rows with `cell` (from 0), `run`, `throughput`, and its `error` and `freedom`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rows["throughput"].where(rows["throughput"] > 0))
        rows = rows.assign(log=logs, square=(rows["error"] / rows["throughput"]) ** 2).dropna(subset="log")
    grouped = rows.groupby(["run", "cell"])["log"].agg(["mean", "count", "var"])
    wide = {name: column.unstack().reindex(columns=range(cells)) for name, column in grouped.items()}
    counts = wide["count"].fillna(0).to_numpy(float)
    freedom = np.maximum(counts - 1, 0)
    squares = (freedom * wide["var"].fillna(0.0).to_numpy(float)).sum(axis=0)
    by_cell = rows.groupby("cell")[["square", "freedom"]].mean().reindex(range(cells)).to_numpy(float).T
    with np.errstate(invalid="ignore"):
        within = Spread(squares / freedom.sum(axis=0), freedom.sum(axis=0))
    return Side(wide["mean"].to_numpy(float), counts, within, Spread(*by_cell))


def run_to_run(rows: pd.DataFrame) -> float:
    """Return the relative standard deviation of cells between runs, beyond that within runs.

    It is `RUN_TO_RUN` without several runs. Columns are those of `read_side`.
    """
    numbers, places = pd.factorize(rows["cell"])
    side = read_side(rows.assign(cell=numbers), len(places))
    several = side.runs > 1
    if not several.any():
        return RUN_TO_RUN
    means = side.means[:, several]
    squares = np.nansum((means - np.nanmean(means, axis=0)) ** 2) / (side.runs[several] - 1).sum()
    return float(np.sqrt(max(squares - interval_noise(side, several), 0.0)))


def interval_noise(side: Side, cells: NDArray[np.bool_]) -> float:
    """Return the mean variance of a run's mean that follows from intervals; 0 if all are unknown."""
    known = (side.interval.variance * side.runs / np.maximum(side.counts.sum(axis=0), 1))[cells]
    return float(np.nanmean(known)) if np.isfinite(known).any() else 0.0
