# SPDX-License-Identifier: Apache-2.0
"""Judge plans by hidden truths: laws that no model has, with luck and stalls, and datasets with cells left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.plans.anchored import Anchored, anchor
from tpcsweep.analysis.plans.plan import candidates, cheapest_row, evaluate
from tpcsweep.data.run_effects import RUN_TO_RUN
from tpcsweep.sweeps.parameters import KNOBS

from tests.support import synthetic

STATED = (0.8, 0.9, 0.95)
SHARES = (0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Targets, as shares of the largest throughput that a setting truly reaches."""
DEARER = 1.25
FORMULAS = ("window", "usl", "combined")

Floats = NDArray[np.float64]
Axes = Mapping[str, Sequence[float]]
Points = Mapping[str, Any]


def _least(*limits: Floats, sharpness: float = 6.0) -> Floats:
    return np.sum([np.asarray(limit) ** -sharpness for limit in limits], axis=0) ** (-1 / sharpness)


def _windows(at: Points) -> Floats:
    return _least(8.4 * at["streams"] / (at["rtt"] + 0.6), 3.1 * at["cores"], np.full(len(at["rtt"]), 0.97))


def _usl(at: Points) -> Floats:
    busy = at["streams"] / (1 + at["rtt"] / 12)
    per_origin = 2.4 * at["cores"] / at["origins"]
    return _least(
        per_origin * at["origins"] ** 0.8 * busy / (1 + 0.6 * busy + 0.012 * busy**2),
        np.full(len(busy), 0.96),
    )


def _nobody(at: Points) -> Floats:
    wave = 1 + 0.25 * np.sin(2.2 * np.log(at["streams"]) + at["rtt"] / 30)
    return (
        0.9 * (at["cores"] ** 0.7) * wave * (1 - np.exp(-at["streams"] / 5)) / (1 + (at["rtt"] / 90) ** 1.5)
    )


def _pauses(at: Points) -> Floats:
    rate = np.minimum(2.5 * at["cores"] / at["streams"], 4.2 / (at["rtt"] + 0.5))
    return np.minimum(at["streams"] / (1 / rate + 0.02 * at["rtt"] * at["origins"] + 1.0), 0.96)


def _threshold(at: Points) -> Floats:
    queue = np.where(at["streams"] > 10 + 30 * at["cores"], 0.55, 1.0)
    return queue * _least(
        6.0 * at["streams"] / (at["rtt"] + 1), 4.0 * at["cores"], np.full(len(at["rtt"]), 0.95)
    )


LAWS: Mapping[str, Callable[[Points], Floats]] = {
    "windows and cores": _windows,
    "contention": _usl,
    "nobody's": _nobody,
    "pauses": _pauses,
    "threshold": _threshold,
}
SMALL = {"origins": [1, 2], "cores": [0.15, 0.6], "rtt": [5.0, 50.0], "streams": [1, 2, 4]}
LARGE = {
    "origins": [1, 2, 4],
    "cores": [0.1, 0.2, 0.4],
    "rtt": [2.0, 10.0, 40.0, 100.0],
    "streams": [1, 2, 4, 8, 16, 32],
}


@dataclass(frozen=True)
class Luck:
    """Scatter of a measurement about the law, as standard deviations of logarithms, and the share of stalled cells."""

    noise: float = 0.02  # known by the interval
    run: float = 0.02
    stalls: float = 0.03

    def measured(self, truth: Floats, generator: np.random.Generator) -> Floats:
        scatter = np.exp(np.hypot(self.noise, self.run) * generator.standard_normal(truth.shape))
        stalled = generator.random(truth.shape) < self.stalls
        return truth * scatter * np.where(stalled, generator.uniform(0.1, 0.7, truth.shape), 1.0)

    def chance(self, truth: Floats, target: float) -> Floats:
        """Return the chance that a measurement that does not stall reaches the target."""
        return stats.norm.cdf(np.log(truth / target) / np.hypot(self.noise, self.run))


def made_up(law: str, axes: Axes, luck: Luck, seed: int) -> xr.Dataset:
    """Return measurements of a law over a grid, with the intervals that tell of their noise alone."""
    coordinates = {name: [*values] for name, values in axes.items()} | {"repetition": [1]}
    template = xr.DataArray(np.zeros([*map(len, coordinates.values())]), coordinates)
    points = {name: template[name].broadcast_like(template).values.ravel().astype(float) for name in axes}
    found = luck.measured(LAWS[law](points), np.random.default_rng(seed)).reshape(template.shape)
    content = synthetic.with_ends(found, 1.96 * luck.noise * found)
    ds = xr.Dataset({name: (template.dims, values) for name, values in content.items()}, template.coords)
    about = {"sweep": "made-up", "testbed": "netns", "testbed_kind": "netns", "measurement_confidence": 0.95}
    return ds.assign_coords(bandwidth=1.0).assign_attrs(about)


def planner(observations: Observations, names: Sequence[str] = FORMULAS) -> Anchored:
    """Return the predictor that plans use, from a few formulas."""
    return anchor([fit(MODELS[name], observations, resamples=0) for name in names], observations)


def on_law(
    law: str, axes: Axes, luck: Luck, seed: int, names: Sequence[str] = FORMULAS
) -> Iterator[dict[str, Any]]:
    """Yield a row for each question that a setting truly satisfies: the answer, and how much dearer it is."""
    model = planner(observe(made_up(law, axes, luck, seed)), names)
    between = [float(np.sqrt(one * other)) for one, other in itertools.pairwise(axes["rtt"])]
    for rtt, sure in itertools.product([*axes["rtt"], *between], STATED):
        grid = candidates(model.domain, {"rtt": rtt})
        truth = LAWS[law](grid)
        most = truth.max() * np.exp(-stats.norm.ppf(sure) * np.hypot(luck.noise, luck.run))
        targets = [share * most for share in SHARES]
        for target, table in zip(targets, evaluate(model, grid, sure, targets), strict=True):
            chances = luck.chance(truth, target)
            cheapest = grid.loc[cheapest_row(grid[chances >= sure])]
            row = {"law": law, "stated": sure, "where": "between" if rtt in between else "measured"}
            if (best := _answer(table, target)) is not None:
                row |= {"chance": chances[best.name], "cores": best["cores"] / cheapest["cores"]}
            yield {**row, "answered": best is not None}


def on_left_out(
    ds: xr.Dataset, seed: int, share: float = 0.25, names: Sequence[str] = FORMULAS
) -> Iterator[dict[str, Any]]:
    """Yield a row for each question to the kept cells: whether the measurement of a left-out setting reaches it.

    Questions are those that a left-out cell truly satisfies: its throughput, less the scatter of one measurement, is
    the largest target. Only left-out settings may be chosen.
    """
    whole = observe(ds)
    out = np.random.default_rng(seed).random(len(whole)) < share
    model = planner(whole.take(~out), names)
    left = whole.take(out).frame
    for (rtt, settings), sure in itertools.product(left.groupby("rtt"), STATED):
        grid = settings[[*KNOBS]].sort_values([*KNOBS]).assign(rtt=rtt)
        measured = settings["throughput"].reindex(grid.index)
        grid, measured = grid.reset_index(drop=True), measured.reset_index(drop=True)
        most = float(measured.max()) * np.exp(-stats.norm.ppf(sure) * RUN_TO_RUN * np.sqrt(2))
        targets = [part * most for part in SHARES]
        for target, table in zip(targets, evaluate(model, grid, sure, targets), strict=True):
            cheapest = grid.loc[cheapest_row(grid[measured >= target])]
            row = {"stated": sure, "answered": False}
            if (best := _answer(table, target)) is not None:
                reached = bool(measured[best.name] >= target)
                row |= {"answered": True, "reached": reached, "cores": best["cores"] / cheapest["cores"]}
            yield row


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Add whether answers suffice, and whether they need at most 25 % more cores than the cheapest true setting.

    Both are NaN for a question without an answer. An answer on a law suffices if the true chance is the stated one; one
    on left-out cells, if the chosen cell reached the target.
    """
    enough = rows["chance"] >= rows["stated"] if "chance" in rows else rows["reached"].eq(True)
    cheap = rows["cores"] <= DEARER + 1e-9
    return rows.assign(
        **{
            name: yes.astype(float).where(rows["answered"])
            for name, yes in (("sufficient", enough), ("cheap", cheap))
        }
    )


def _answer(table: pd.DataFrame, target: float) -> Any:
    enough = table[table["assured"] >= target]
    return None if enough.empty else table.loc[cheapest_row(enough)]
