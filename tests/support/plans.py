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
from tpcsweep.data.scatter import RUN_TO_RUN
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
Constants = Sequence[float]


def _least(*limits: Floats, sharpness: float = 6.0) -> Floats:
    return np.sum([np.asarray(limit) ** -sharpness for limit in limits], axis=0) ** (-1 / sharpness)


def _windows(at: Points, constants: Constants = (8.4, 0.6, 3.1, 0.97)) -> Floats:
    window, base, core, path = constants
    return _least(
        window * at["streams"] / (at["rtt"] + base), core * at["cores"], np.full(len(at["rtt"]), path)
    )


def _usl(at: Points, constants: Constants = (12, 2.4, 0.8, 0.6, 0.012, 0.96)) -> Floats:
    rtt, core, power, wait, cross, path = constants
    busy = at["streams"] / (1 + at["rtt"] / rtt)
    per_origin = core * at["cores"] / at["origins"]
    return _least(
        per_origin * at["origins"] ** power * busy / (1 + wait * busy + cross * busy**2),
        np.full(len(busy), path),
    )


def _nobody(at: Points, constants: Constants = (0.25, 2.2, 30, 0.9, 0.7, 5, 90, 1.5)) -> Floats:
    height, length, turn, level, power, few, far, fall = constants
    wave = 1 + height * np.sin(length * np.log(at["streams"]) + at["rtt"] / turn)
    rise = 1 - np.exp(-at["streams"] / few)
    return level * (at["cores"] ** power) * wave * rise / (1 + (at["rtt"] / far) ** fall)


def _pauses(at: Points, constants: Constants = (2.5, 4.2, 0.5, 0.02, 1, 0.96)) -> Floats:
    core, window, base, pause, start, path = constants
    rate = np.minimum(core * at["cores"] / at["streams"], window / (at["rtt"] + base))
    return np.minimum(at["streams"] / (1 / rate + pause * at["rtt"] * at["origins"] + start), path)


def _threshold(at: Points, constants: Constants = (6, 1, 4, 0.95, 0.55)) -> Floats:
    window, base, core, path, loss = constants
    queue = np.where(at["streams"] > 10 + 30 * at["cores"], loss, 1.0)
    return queue * _least(
        window * at["streams"] / (at["rtt"] + base), core * at["cores"], np.full(len(at["rtt"]), path)
    )


def _thrash(at: Points, constants: Constants = (2, 30, 40, 14, 0.93)) -> Floats:
    few, each, far, core, path = constants
    load = at["streams"] / (few + each * at["cores"]) / (1 + at["rtt"] / far)
    return np.minimum(core * at["cores"] * load / (1 + load) ** 2, path) * at["origins"] ** -0.05


def _logistic(at: Points, constants: Constants = (0.9, 0.5, 70, 1.2, 4, 1.5, 30)) -> Floats:
    level, power, far, fall, few, steep, wait = constants
    rise = 1 / (1 + (few * (1 + at["rtt"] / wait) / at["streams"]) ** steep)
    return level * at["cores"] ** power / (1 + (at["rtt"] / far) ** fall) * rise * at["origins"] ** 0.1


def _harmonic(at: Points, constants: Constants = (8, 0.8, 0.8, 2.6, 0.003, 2.85)) -> Floats:
    window, power, base, core, each, path = constants
    streams = window * at["streams"] ** power / (at["rtt"] + base)
    return 1 / (1 / streams + 1 / (core * at["cores"] * (1 - each * at["streams"])) + 1 / path)


def _steps(at: Points, constants: Constants = (5, 1, 0.25, 8, 3.5, 0.95)) -> Floats:
    window, base, step, first, core, path = constants
    shrunk = window / (1 + step * np.floor(np.log2(1 + at["rtt"] / first)))
    busy = np.minimum(1, at["streams"] / at["origins"])
    return _least(
        shrunk * at["streams"] / (at["rtt"] + base),
        core * at["cores"] * busy,
        np.full(len(busy), path),
        sharpness=3.0,
    )


LAWS: Mapping[str, Callable[..., Floats]] = {
    "windows and cores": _windows,
    "contention": _usl,
    "nobody's": _nobody,
    "pauses": _pauses,
    "threshold": _threshold,
}
"""Throughput of points by the name of a law, whose constants are its default argument."""
UNSEEN: Mapping[str, Callable[..., Floats]] = {
    "thrash": _thrash,
    "logistic": _logistic,
    "harmonic": _harmonic,
    "steps": _steps,
}
"""Laws that served for no choice of a constant of the planner."""
EVERY = {**LAWS, **UNSEEN}
SMALL = {"origins": [1, 2], "cores": [0.15, 0.6], "rtt": [5.0, 50.0], "streams": [1, 2, 4]}
MEDIUM = {
    "origins": [1, 2],
    "cores": [0.1, 0.2, 0.4],
    "rtt": [2.0, 10.0, 40.0, 100.0],
    "streams": [1, 4, 8, 32],
}
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
    found = luck.measured(EVERY[law](points), np.random.default_rng(seed)).reshape(template.shape)
    content = synthetic.with_ends(found, 1.96 * luck.noise * found)
    ds = xr.Dataset({name: (template.dims, values) for name, values in content.items()}, template.coords)
    about = {"sweep": "made-up", "testbed": "netns", "testbed_kind": "netns", "measurement_confidence": 0.95}
    return ds.assign_coords(bandwidth=1.0).assign_attrs(about)


def planner(observations: Observations, names: Sequence[str] = FORMULAS) -> Anchored:
    """Return the predictor that plans use, from a few formulas."""
    return anchor([fit(MODELS[name], observations, resamples=0) for name in names], observations)


Choice = Callable[[float, Sequence[float]], Sequence[NDArray[np.bool_]]]
"""Which settings suffice, for each of some targets, by the stated probability."""
Rival = Callable[[Anchored, Observations, pd.DataFrame, Floats], Mapping[str, Choice]]
"""Choices to compare with the planner's, of a planner, its cells, the settings to choose from and their truth."""


def _choices(*about: Any, rivals: Sequence[Rival]) -> dict[str, Choice]:
    model, _, grid, _ = about

    def planned(sure: float, targets: Sequence[float]) -> list[NDArray[np.bool_]]:
        tables = evaluate(model, grid, sure, targets)
        return [table["assured"].to_numpy() >= target for target, table in zip(targets, tables, strict=True)]

    return {"planner": planned} | {name: choice for rival in rivals for name, choice in rival(*about).items()}


def on_law(
    law: str,
    axes: Axes,
    luck: Luck,
    seed: int,
    names: Sequence[str] = FORMULAS,
    rivals: Sequence[Rival] = (),
) -> Iterator[dict[str, Any]]:
    """Yield a row for each question that a setting truly satisfies: the answer, and how much dearer it is."""
    observations = observe(made_up(law, axes, luck, seed))
    model = planner(observations, names)
    between = [float(np.sqrt(one * other)) for one, other in itertools.pairwise(axes["rtt"])]
    for rtt in [*axes["rtt"], *between]:
        grid = candidates(model.domain, {"rtt": rtt})
        truth = np.asarray(EVERY[law](grid), float)
        choices = _choices(model, observations, grid, truth, rivals=rivals)
        where = "between" if rtt in between else "measured"
        for sure in STATED:
            most = truth.max() * np.exp(-stats.norm.ppf(sure) * np.hypot(luck.noise, luck.run))
            targets = [share * most for share in SHARES]
            chances = [luck.chance(truth, target) for target in targets]
            fewest = [_cheapest(grid, chance >= sure)["cores"] for chance in chances]
            for by, choice in choices.items():
                for chance, cores, enough in zip(chances, fewest, choice(sure, targets), strict=True):
                    row = {
                        "law": law,
                        "stated": sure,
                        "where": where,
                        "by": by,
                        "answered": bool(enough.any()),
                    }
                    if enough.any():
                        best = _cheapest(grid, enough)
                        row |= {"chance": chance[best.name], "cores": best["cores"] / cores}
                    yield row


def on_left_out(
    ds: xr.Dataset,
    seed: int,
    share: float = 0.25,
    names: Sequence[str] = FORMULAS,
    rivals: Sequence[Rival] = (),
) -> Iterator[dict[str, Any]]:
    """Yield a row for each question to the kept cells: whether the measurement of a left-out setting reaches it.

    Questions are those that a left-out cell truly satisfies: its throughput, less the scatter of one measurement, is
    the largest target. Only left-out settings may be chosen.
    """
    whole = observe(ds)
    out = np.random.default_rng(seed).random(len(whole)) < share
    kept, left = whole.take(~out), whole.take(out).frame
    model = planner(kept, names)
    for rtt, settings in left.groupby("rtt"):
        grid = settings[[*KNOBS]].sort_values([*KNOBS]).assign(rtt=rtt)
        measured = settings["throughput"].reindex(grid.index).to_numpy(float)
        grid = grid.reset_index(drop=True)
        choices = _choices(model, kept, grid, measured, rivals=rivals)
        for sure in STATED:
            most = float(measured.max()) * np.exp(-stats.norm.ppf(sure) * RUN_TO_RUN * np.sqrt(2))
            targets = [part * most for part in SHARES]
            fewest = [_cheapest(grid, measured >= target)["cores"] for target in targets]
            for by, choice in choices.items():
                for target, cores, enough in zip(targets, fewest, choice(sure, targets), strict=True):
                    row = {"stated": sure, "by": by, "answered": bool(enough.any())}
                    if enough.any():
                        best = _cheapest(grid, enough)
                        row |= {
                            "reached": bool(measured[best.name] >= target),
                            "cores": best["cores"] / cores,
                        }
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


def _cheapest(grid: pd.DataFrame, enough: NDArray[np.bool_]) -> Any:
    return grid.loc[cheapest_row(grid[enough])]
