# SPDX-License-Identifier: Apache-2.0
"""Choose a model by cross-validation that leaves out whole axis values, deployments and runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.analysis.models.fit import Fit
from tpcsweep.analysis.models.formula import SEED, Floats, Model, json_content
from tpcsweep.analysis.models.learned import LEARNED, PROCESS, Kernel, Learner
from tpcsweep.analysis.models.least_squares import find_optimum, luck_units
from tpcsweep.analysis.models.observations import Observations
from tpcsweep.analysis.models.predictor import Domain
from tpcsweep.common.numbers import plain

_MOST_FOLDS = 12
_FEWEST_VALUES = 3  # leaving out one of two values leaves no axis
_FLOOR = 0.05  # relative errors divide by the cell's throughput, but at least by this share of the largest throughput
_DRAWS = 1000


Candidate = Callable[[Observations, Observations], Floats]
"""Function of training and left-out observations that returns Gbit/s for each left-out row.
It raises ValueError or LinAlgError if the fit fails."""


@dataclass(frozen=True)
class Fold:
    """Rows that are left out together."""

    kind: str
    left_out_name: str
    test: NDArray[np.bool_]
    interpolated: NDArray[np.bool_]
    """True for left-out rows that are interpolations, that is strictly inside the remaining values."""


@dataclass(frozen=True)
class Choice:
    """Outcome of cross-validation."""

    errors: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row for each model, kind, and interpolation or extrapolation: number of cells and their errors."""
    scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["model"]))
    """One row for each model, best first: score (Gbit/s), tied with the best, skill."""
    best: str = ""
    """Model for predictions inside the data; empty if no fold was possible.
    Of the models tied with the best it is the process, unless left-out runs judge; otherwise the first of `LEARNED`,
    or of the formulas, in the order of their scores."""
    problems: tuple[str, ...] = ()

    @property
    def winner(self) -> str:
        """Name of the model with the best score; empty if no fold was possible."""
        return next(map(str, self.scores["model"]), "")

    @property
    def formula(self) -> str:
        """Name of the best formula, which predicts settings beyond the data."""
        return next((str(name) for name in self.scores["model"] if name not in LEARNED), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as JSON types, without the single predictions."""
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
    kernels: Mapping[str, Kernel | None] | None = None,
    pool: Executor | None = None,
) -> Choice:
    """Cross-validate all formulas and learned predictors, in the processes of `pool` if given.

    The score is the mean absolute error (Gbit/s) of left-out cells, averaged over the kinds of folds. Only interpolated
    cells decide which model predicts inside the data; with several runs, only interpolated cells of left-out runs. A
    model is `tied` with the best if a bootstrap over deployments (95 %) finds no difference between their errors; it
    draws a deployment with its errors of all kinds, because folds of two kinds share cells. `skill` is 1 - score /
    score of the constant model. Searches start at the values of `fits`, and at the `kernels` of learners.
    """
    folds = make_folds(observations)
    if not folds:
        return Choice(problems=("no axis has enough values to leave one out",))
    starts = {name: whole.values for name, whole in fits.items() if whole.ok}
    candidates: dict[str, Candidate] = {
        **{name: partial(_fitted, model, starts.get(name)) for name, model in models.items()},
        **{name: partial(_learned, learner, (kernels or {}).get(name)) for name, learner in learned.items()},
    }
    # Learners take longest. In small parts they end at the same time in all workers.
    parts = [(name, [fold]) for name in learned for fold in folds] + [(name, folds) for name in models]
    validate = partial(cross_validate, observations=observations)
    of_parts = (pool.map if pool else map)(
        validate, [candidates[name] for name, _ in parts], [some for _, some in parts]
    )
    tables = [table.assign(model=name) for (name, _), table in zip(parts, of_parts, strict=True)]
    predictions = pd.concat(tables, ignore_index=True)
    failed = predictions[~np.isfinite(predictions["predicted"])]
    problems = tuple(
        f"{name} could not be fitted without {', '.join(held.unique())}"
        for name, held in failed.groupby("model", sort=False)["held"]
    )
    errors = _errors(predictions, float(observations.throughput.max()))
    units = luck_units(observations)
    inside = predictions[predictions["inside"]]
    held_out = next((part for part in (inside[inside["kind"] == "run"], inside) if len(part)), predictions)
    tied = _scores(_losses(held_out, units)).query("tied")["model"]  # in the order of their scores
    by_runs = held_out["kind"].eq("run").all()
    best = min(tied, key=lambda name: (name not in LEARNED, not by_runs and name != PROCESS), default="")
    return Choice(errors, _scores(_losses(predictions, units)), str(best), problems)


def make_folds(observations: Observations) -> list[Fold]:
    """Return the folds: each value of RTT and streams, each deployment and each run; at most 12 of a kind.

    Neighbours are joined to keep that limit. An axis with fewer than three values is never left out. These cells are
    extrapolations: values at the edge of an axis, deployments at a corner of the grid (extreme on every axis), and
    cells of a run that lie beyond all other runs.
    """
    folds: list[Fold] = []
    for kind in ("rtt", "streams"):
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
            domain, test = Domain.from_observations(observations.take(runs != run)), runs == run
            held = observations.frame.loc[test, list(observations.axes)]
            folds.append(Fold("run", f"run {run}", test, ~domain.outside(held)))
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


def cross_validate(candidate: Candidate, folds: Sequence[Fold], observations: Observations) -> pd.DataFrame:
    """Return the prediction of every left-out row; NaN if the fit fails."""
    tables = []
    for fold in folds:
        test = observations.take(fold.test)
        try:
            predicted = candidate(observations.take(~fold.test), test)
        except (ValueError, np.linalg.LinAlgError):
            predicted = np.full(len(test), np.nan)
        columns = {
            "kind": fold.kind,
            "held": fold.left_out_name,
            "row": np.flatnonzero(fold.test),
            "inside": fold.interpolated,
            "measured": test.throughput,
            "predicted": predicted,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _fitted(
    model: Model, start: Mapping[str, float] | None, train: Observations, test: Observations
) -> Floats:
    problem, units, *_ = find_optimum(model, train, start)
    return np.maximum(model(test.points, problem.values(units)), 0.0)


def _learned(learner: Learner, kernel: Kernel | None, train: Observations, test: Observations) -> Floats:
    return np.exp(learner.train(train, kernel).surface(test.frame)[0])


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
    """Return each unit's (columns) contribution to each candidate's (rows) score; NaN if its fit failed."""
    off = (predictions["predicted"] - predictions["measured"]).abs()
    cells = predictions[predictions["model"] == predictions["model"].iloc[0]]["kind"].value_counts()
    share = predictions["kind"].map(1 / cells / len(cells))
    table = predictions.assign(loss=off * share, unit=units.to_numpy()[predictions["row"]])
    # Unlike the sum of pandas, this sum is NaN if any part is.
    by_unit = table.groupby(["model", "unit"], sort=False)["loss"].agg(lambda some: np.sum(some.to_numpy()))
    return by_unit.unstack("unit", sort=False)


def _scores(losses: pd.DataFrame) -> pd.DataFrame:
    scores = losses.sum(axis=1, skipna=False).sort_values()  # NaN if a fit failed
    table = pd.DataFrame({"model": scores.index, "score": scores.to_numpy()})
    table["tied"] = [_tied(losses.loc[name], losses.loc[scores.index[0]]) for name in scores.index]
    return table.assign(skill=1 - table["score"] / scores.get("constant", math.nan))


def _tied(losses: pd.Series, least: pd.Series) -> bool:
    """Return whether resamples of the units include a score at or below the least."""
    gap = (losses - least).to_numpy()
    drawn = np.random.default_rng(SEED).integers(0, len(gap), (_DRAWS, len(gap)))
    return bool(np.isfinite(gap).all() and np.quantile(gap[drawn].sum(axis=1), 0.025) <= 0)
