# SPDX-License-Identifier: Apache-2.0
"""The choice of a model by cross-validation: whole values of an axis, deployments and runs are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.models.base import SEED, Floats, Model, json_content
from tpcsweep.models.fit import Fit
from tpcsweep.models.least_squares import UnfittableError, optimum_of, units_of
from tpcsweep.models.observations import Observations
from tpcsweep.models.predictor import Domain, Predictor
from tpcsweep.models.process import fit_process
from tpcsweep.models.table import fit_table
from tpcsweep.numbers import plain

KINDS = ("rtt", "streams", "deployment")
"""The kinds of folds of one run."""

RUN = "run"
"""The kind of folds of several runs."""

_MOST_FOLDS = 12
_FEWEST_VALUES = 3  # without one of two values no axis is left
_FLOOR = 0.05  # relative errors are to a cell's throughput, but at least to this share of the largest
_DRAWS = 1000


Learner = Callable[[Observations], Predictor]
"""A function that returns a fitted predictor, and raises ValueError if the observations are not enough."""

LEARNED: Mapping[str, Learner] = {"gaussian_process": fit_process, "table": fit_table}
"""Predictors that learn the cells, by name."""

Candidate = Callable[[Observations, Observations], Floats]
"""A function of the observations to fit and of those left out. It returns Gbit/s for each row of the latter (NaN if
the fit fails)."""


@dataclass(frozen=True)
class Fold:
    """Rows that are left out together."""

    kind: str
    held: str
    test: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    """For the rows left out, whether they are interpolations: strictly inside the values that remain."""


@dataclass(frozen=True)
class Choice:
    """The outcome of cross-validation."""

    errors: pd.DataFrame
    """A row for each model, kind, and inside or at an edge: cells and their errors."""
    scores: pd.DataFrame
    """A row for each model, best first: score (Gbit/s), tied with the best, skill."""
    predictions: pd.DataFrame
    """A row for each cell left out: model, kind, held, row, inside, measured, predicted."""
    best: str = ""
    """The model to predict with inside the data: the first that cannot be told from the best, of `LEARNED` and then of
    the formulas, each in the order of their scores; empty if nothing could be left out."""
    problems: tuple[str, ...] = ()

    @classmethod
    def none(cls, problem: str) -> Choice:
        """Return the outcome if nothing can be chosen."""
        return cls(pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), "", (problem,))

    @property
    def winner(self) -> str:
        """The name of the model with the best score; empty if nothing could be left out."""
        return str(self.scores["model"].iloc[0]) if len(self.scores) else ""

    @property
    def formula(self) -> str:
        """The name of the best formula, which predicts settings beyond the data."""
        models = [] if self.scores.empty else self.scores["model"]
        return next((str(name) for name in models if name not in LEARNED), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as JSON has them, without the single predictions."""
        return {
            "winner": self.winner,
            "best": self.best,
            "formula": self.formula,
            "scores": json_content(self.scores.to_dict("records")),
            "errors": json_content(self.errors.to_dict("records")),
            "problems": list(self.problems),
        }


def choose(
    models: Mapping[str, Model],
    observations: Observations,
    fits: Mapping[str, Fit],
    *,
    learned: Mapping[str, Learner] = LEARNED,
    pool: Executor | None = None,
) -> Choice:
    """Cross-validate every model, and those that learn the cells, in the processes of a pool if there is one.

    The score is the mean absolute error (Gbit/s) of the cells left out, averaged over the kinds: RTT values, stream
    values, deployments, and runs where there are several. Interpolated cells alone judge the model to predict with
    inside the data, and of these the left-out runs where there are several. A model is `tied` with the best if the
    difference of their errors is not other than zero by a bootstrap over deployments (95 %), each with its cells'
    errors of all kinds: folds of two kinds share cells, and are not drawn one without the other. `skill` is
    1 - score / score of the constant: at or below zero there is no support for the model in the data. Searches begin at
    the values of `fits`.
    """
    folds = leave_out(observations)
    if not folds:
        return Choice.none("no axis has enough values to leave one out")
    candidates: dict[str, Candidate] = {
        **{
            name: partial(_fitted, model, whole.values if (whole := fits.get(name)) and whole.ok else None)
            for name, model in models.items()
        },
        **{name: partial(_learned, learner) for name, learner in learned.items()},
    }
    validate = partial(cross_validate, observations=observations, folds=folds)
    tables = zip(candidates, (pool.map if pool else map)(validate, candidates.values()), strict=True)
    predictions = pd.concat([table.assign(model=name) for name, table in tables], ignore_index=True)
    failed = predictions[~np.isfinite(predictions["predicted"])]
    problems = tuple(
        f"{name} could not be fitted without {', '.join(held.unique())}"
        for name, held in failed.groupby("model", sort=False)["held"]
    )
    errors = _errors(predictions, float(observations.throughput.max()))
    units = units_of(observations)
    inside = predictions[predictions["inside"]]
    asked = next((part for part in (inside[inside["kind"] == RUN], inside) if len(part)), predictions)
    best = _best(_losses(asked, units))
    return Choice(errors, _scores(_losses(predictions, units)), predictions, best, problems)


def leave_out(observations: Observations) -> list[Fold]:
    """Return the folds: each value of RTT and streams, deployment and run; at most 12 of a kind, neighbours joined.

    An axis with fewer than three values is never left out. A value at an edge of its axis is an extrapolation, and
    so is a deployment at a corner of the grid: one that is extreme on every axis. Of a run, cells beyond all other runs
    are extrapolations.
    """
    folds: list[Fold] = []
    for kind in KINDS[:2]:
        if kind in observations.numeric:
            values = observations.classes(kind)
            order = sorted(values.unique())
            inside = (values > order[0]) & (values < order[-1])
            folds += _folds(kind, values, order, inside.to_numpy())
    deployments = observations.frame["deployment"]
    shuffled = list(deployments.unique())
    np.random.default_rng(SEED).shuffle(shuffled)
    folds += _folds("deployment", deployments, shuffled, ~_corners(observations))
    if (runs := observations.runs) is not None:
        for run in np.unique(runs):
            domain, test = Domain.of(observations.take(runs != run)), runs == run
            held = observations.frame.loc[test, list(observations.axes)]
            folds.append(Fold(RUN, f"run {run}", test, ~domain.outside(held)))
    return folds


def _folds(kind: str, values: pd.Series, order: Sequence[Any], inside: NDArray[np.bool_]) -> list[Fold]:
    if len(order) < _FEWEST_VALUES:
        return []
    folds = []
    for part in np.array_split(np.arange(len(order)), min(len(order), _MOST_FOLDS)):
        chosen = [order[at] for at in part]
        test = values.isin(chosen).to_numpy()
        text = ", ".join(plain(value) if isinstance(value, float) else str(value) for value in chosen)
        folds.append(Fold(kind, text if kind == "deployment" else f"{kind}={text}", test, inside[test]))
    return folds


def _corners(observations: Observations) -> NDArray[np.bool_]:
    corner = np.ones(len(observations), bool)
    for name in observations.numeric:
        if observations.frame.groupby("deployment")[name].nunique().max() == 1 or name == "rtt":
            values = observations.classes(name)
            corner &= values.isin([values.min(), values.max()]).to_numpy()
    return corner


def cross_validate(candidate: Candidate, observations: Observations, folds: Sequence[Fold]) -> pd.DataFrame:
    """Return the prediction of every row left out."""
    tables = []
    for fold in folds:
        test = observations.take(fold.test)
        columns = {
            "kind": fold.kind,
            "held": fold.held,
            "row": np.flatnonzero(fold.test),
            "inside": fold.inside,
            "measured": test.throughput,
            "predicted": candidate(observations.take(~fold.test), test),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _fitted(
    model: Model, start: Mapping[str, float] | None, train: Observations, test: Observations
) -> Floats:
    try:
        problem, units, *_ = optimum_of(model, train, start)
    except UnfittableError:
        return np.full(len(test), np.nan)
    return np.maximum(model(test.points, problem.values(units)), 0.0)


def _learned(learner: Learner, train: Observations, test: Observations) -> Floats:
    try:
        return learner(train).estimate(test.frame)
    except (ValueError, np.linalg.LinAlgError):
        return np.full(len(test), np.nan)


def _errors(predictions: pd.DataFrame, largest: float) -> pd.DataFrame:
    off = (predictions["predicted"] - predictions["measured"]).abs()
    known = predictions.assign(off=off, relative=off / predictions["measured"].clip(lower=_FLOOR * largest))
    known["where"] = np.where(known["inside"], "interpolation", "extrapolation")
    groups = known.dropna(subset="off").groupby(["model", "kind", "where"], sort=False)
    return groups.agg(
        cells=("off", "size"),
        mean=("off", "mean"),
        rmse=("off", _root_mean_square),
        median=("off", "median"),
        relative_rmse=("relative", _root_mean_square),
        relative_median=("relative", "median"),
    ).reset_index()


def _root_mean_square(values: pd.Series) -> float:
    return math.sqrt(float((values**2).mean()))


def _losses(predictions: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """Return the part of each unit (columns) in the score of each candidate (rows); NaN if it could not predict."""
    off = (predictions["predicted"] - predictions["measured"]).abs()
    cells = predictions[predictions["model"] == predictions["model"].iloc[0]]["kind"].value_counts()
    share = predictions["kind"].map(1 / cells / len(cells))
    table = predictions.assign(loss=off * share, unit=units.to_numpy()[predictions["row"]])
    # The sum is NaN where any part is, unlike that of pandas.
    by_unit = table.groupby(["model", "unit"], sort=False)["loss"].agg(lambda some: np.sum(some.to_numpy()))
    return by_unit.unstack("unit", sort=False)


def _scores(losses: pd.DataFrame) -> pd.DataFrame:
    scores = losses.sum(axis=1, skipna=False).sort_values()  # NaN of one that could not predict some cell
    table = pd.DataFrame({"model": scores.index, "score": scores.to_numpy()})
    table["tied"] = [_tied(losses.loc[name], losses.loc[scores.index[0]]) for name in scores.index]
    return table.assign(skill=1 - table["score"] / scores.get("constant", math.nan))


def _tied(losses: pd.Series, least: pd.Series) -> bool:
    """Tell whether in resamples of the units the score of a candidate may be at or below the least."""
    gap = (losses - least).to_numpy()
    drawn = np.random.default_rng(SEED).integers(0, len(gap), (_DRAWS, len(gap)))
    return bool(np.isfinite(gap).all() and np.quantile(gap[drawn].sum(axis=1), 0.025) <= 0)


def _best(losses: pd.DataFrame) -> str:
    """Return the first candidate that cannot be told from the best: measured cells are surer than a formula inside."""
    scores = losses.sum(axis=1, skipna=False).dropna().sort_values()
    order = sorted(scores.index, key=lambda name: name not in LEARNED)  # stable: by score in each
    return next((name for name in order if _tied(losses.loc[name], losses.loc[scores.index[0]])), "")
