# SPDX-License-Identifier: Apache-2.0
"""Which model predicts cells that it has not seen, by leaving out whole values of an axis and whole deployments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.models.base import Floats, Model, plain
from tpcsweep.models.fit import Fit, fit
from tpcsweep.models.learned import LEARNED, Learner
from tpcsweep.models.least_squares import units_of
from tpcsweep.models.observations import Observations

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("rtt", "streams", "deployment")
"""What is left out."""

POOLED, GROUPED = "all", "each"
"""Fitted to all cells at once, or to each setting of the axes that the model does not speak about."""

_MOST_FOLDS = 12
_FEWEST_VALUES = 3  # of two, leaving out one leaves no axis
_FLOOR = 0.05  # relative errors are to a cell's throughput, but at least to this share of the largest
_DRAWS = 1000


Fitter = Callable[[Observations], Any]
"""Gives what has been fitted to observations: its `estimate` takes a table, and gives Gbit/s for each row."""


@dataclass(frozen=True)
class Fold:
    """Rows that are left out together."""

    kind: str
    held: str
    test: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    """Of the rows left out, which are interpolations: strictly inside the values that remain."""


@dataclass(frozen=True)
class Choice:
    """What cross-validation found."""

    errors: pd.DataFrame
    """A row for each model, way of fitting, kind, and inside or at an edge: cells and their errors."""
    scores: pd.DataFrame
    """A row for each model and way of fitting, best first: score (Gbit/s), of best, tied, aicc, bic, skill."""
    predictions: pd.DataFrame
    """A row for each cell left out: model, fitted, kind, held, row, inside, measured, predicted."""
    best: str = ""
    """What to predict with, of what was fitted to all cells at once: the first of the formula, of `LEARNED` in their
    order, that cannot be told from what predicted best; empty where nothing could be left out."""
    problems: tuple[str, ...] = ()

    @property
    def winner(self) -> str:
        """The name of the model with the best score; empty where nothing could be left out."""
        return str(self.scores["model"].iloc[0]) if len(self.scores) else ""

    @property
    def formula(self) -> str:
        """The name of the best formula that was fitted to all cells at once, and so predicts new settings."""
        return next((name for name in self._pooled if name not in LEARNED), "")

    @property
    def _pooled(self) -> list[str]:
        return [] if self.scores.empty else self.scores.query("fitted == @POOLED")["model"].tolist()

    def to_dict(self) -> dict[str, Any]:
        """Give the tables as JSON has them, without the single predictions."""
        return {
            "winner": self.winner,
            "best": self.best,
            "formula": self.formula,
            "scores": plain(self.scores.to_dict("records")),
            "errors": plain(self.errors.to_dict("records")),
            "problems": list(self.problems),
        }


def choose(
    models: Mapping[str, Model],
    observations: Observations,
    fits: Mapping[str, Fit],
    *,
    learned: Mapping[str, Learner] = LEARNED,
    seed: int = 0,
    pool: Executor | None = None,
) -> Choice:
    """Cross-validate every model, and what learns the cells, in the processes of a pool if there is one.

    The score is the mean absolute error (Gbit/s) of the cells left out, averaged over the kinds: RTT values, stream
    values, deployments. A model is `tied` with the best if the difference of their errors is not other than zero
    by a bootstrap over deployments (95 %), each with its cells' errors of all kinds: folds of two kinds share cells,
    and are not drawn one without the other. `skill` is 1 - score / score of the constant: at or below zero there is no
    support for the model in the data. AICc and BIC are those of `fits`, of the models to all observations.
    """
    folds = leave_out(observations)
    if not folds:
        nothing = pd.DataFrame()
        return Choice(nothing, nothing, nothing, "", ("no axis has enough values to leave one out",))
    tables, problems = [], []
    names, ways, fitters = zip(*_candidates(models, learned, observations, fits, seed), strict=True)
    validate = partial(cross_validate, observations=observations, folds=folds)
    validated = (pool.map if pool else map)(validate, fitters)
    for name, fitted, (table, failed) in zip(names, ways, validated, strict=True):
        tables.append(table.assign(model=name, fitted=fitted))
        if failed:
            problems.append(f"{name} ({fitted}) could not be fitted without {', '.join(failed)}")
    predictions = pd.concat(tables, ignore_index=True)
    errors = _errors(predictions, float(observations.throughput.max()))
    losses = _losses(predictions, units_of(observations))
    return Choice(errors, _scores(losses, fits, seed), predictions, _best(losses, seed), tuple(problems))


def leave_out(observations: Observations) -> list[Fold]:
    """Give the folds: each value of RTT and streams, and each deployment; at most 12 of a kind, neighbours joined.

    An axis with fewer than three values is never left out. A value at an edge of its axis is an extrapolation, and
    so is a deployment at a corner of the grid: one that is extreme on every axis.
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
    np.random.default_rng(0).shuffle(shuffled)
    folds += _folds("deployment", deployments, shuffled, ~_corners(observations))
    return folds


def _folds(kind: str, values: pd.Series, order: Sequence[Any], inside: NDArray[np.bool_]) -> list[Fold]:
    if len(order) < _FEWEST_VALUES:
        return []
    folds = []
    for part in np.array_split(np.arange(len(order)), min(len(order), _MOST_FOLDS)):
        chosen = [order[at] for at in part]
        test = values.isin(chosen).to_numpy()
        text = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in chosen)
        folds.append(Fold(kind, text if kind == "deployment" else f"{kind}={text}", test, inside[test]))
    return folds


def _corners(observations: Observations) -> NDArray[np.bool_]:
    """Which rows are extreme on every axis along which deployments differ."""
    corner = np.ones(len(observations), bool)
    for name in observations.numeric:
        if observations.frame.groupby("deployment")[name].nunique().max() == 1 or name == "rtt":
            values = observations.classes(name)
            corner &= values.isin([values.min(), values.max()]).to_numpy()
    return corner


def cross_validate(
    fitter: Fitter, observations: Observations, folds: Sequence[Fold]
) -> tuple[pd.DataFrame, list[str]]:
    """Give the prediction of every row left out, NaN where the fit failed, and the folds where it did."""
    tables, failed = [], []
    for fold in folds:
        rows = np.flatnonzero(fold.test)
        test = observations.take(rows)
        try:
            predicted = fitter(observations.take(~fold.test)).estimate(test.frame)
        except (ValueError, np.linalg.LinAlgError):
            predicted = np.full(len(rows), np.nan)
        if not np.all(np.isfinite(predicted)):
            failed.append(fold.held)
        columns = {
            "kind": fold.kind,
            "held": fold.held,
            "row": rows,
            "inside": fold.inside,
            "measured": test.throughput,
            "predicted": predicted,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True), failed


@dataclass
class GroupedFit:
    """A model fitted apart to each setting of the axes that it does not speak about.

    This is how models of one axis are published: for a path, a host. A setting that was not measured, or not often
    enough, has the parameters of the fit to all cells.
    """

    model: Model
    axes: tuple[str, ...]
    seed: int
    start: Mapping[str, float] | None
    observations: Observations

    def estimate(self, points: pd.DataFrame) -> Floats:
        frame = self.observations.frame
        pooled = fit(self.model, self.observations, resamples=0, seed=self.seed, start=self.start)
        measured = {key: rows.index for key, rows in frame.groupby(self._settings(frame))}
        estimates = np.full(len(points), np.nan)
        for key, rows in points.reset_index(drop=True).groupby(self._settings(points)):
            estimates[rows.index] = self._apart(measured.get(key, ()), pooled).estimate(rows)
        return estimates

    def _apart(self, rows: Sequence[int], pooled: Fit) -> Fit:
        """The fit to some rows alone; the pooled one where they are too few or it fails."""
        if len(rows) <= len(self.model.parameters) or not pooled.ok:
            return pooled
        alone = fit(self.model, self.observations.take(np.asarray(rows)), resamples=0, start=pooled.values)
        return alone if alone.ok else pooled

    def _settings(self, frame: pd.DataFrame) -> list[pd.Series]:
        return [frame.get(f"{name}_class", frame[name]) for name in self.axes]


def _candidates(
    models: Mapping[str, Model],
    learned: Mapping[str, Learner],
    observations: Observations,
    fits: Mapping[str, Fit],
    seed: int,
) -> Iterator[tuple[str, str, Fitter]]:
    """Give name, way of fitting and what fits, for every model and all that learns.

    Searches begin at the fit to all cells.
    """
    for model in models.values():
        whole = fits.get(model.name)
        start = whole.values if whole and whole.ok else None
        yield model.name, POOLED, partial(fit, model, resamples=0, seed=seed, start=start)
        apart = tuple(name for name in observations.axes if name not in model.axes)
        if apart:
            cells = observations.frame.groupby([observations.classes(name) for name in apart]).size()
            if cells.max() > len(model.parameters) + 1:  # as one value is left out of a setting
                yield model.name, GROUPED, partial(GroupedFit, model, apart, seed, start)
    for name, learner in learned.items():
        yield name, POOLED, partial(learner, seed=seed)


def _errors(predictions: pd.DataFrame, largest: float) -> pd.DataFrame:
    off = (predictions["predicted"] - predictions["measured"]).abs()
    known = predictions.assign(off=off, relative=off / predictions["measured"].clip(lower=_FLOOR * largest))
    known["where"] = np.where(known["inside"], "interpolation", "extrapolation")
    groups = known.dropna(subset="off").groupby(["model", "fitted", "kind", "where"], sort=False)
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
    """Give the part of each unit (columns) in the score of each candidate (rows); NaN where it could not predict."""
    off = (predictions["predicted"] - predictions["measured"]).abs()
    first = predictions[["model", "fitted"]].eq(predictions[["model", "fitted"]].iloc[0]).all(axis=1)
    cells = predictions[first]["kind"].value_counts()
    share = predictions["kind"].map(1 / cells / len(cells))
    table = predictions.assign(loss=off * share, unit=units.to_numpy()[predictions["row"]])
    # The sum is NaN where any part is, unlike that of pandas.
    by_unit = table.groupby(["model", "fitted", "unit"], sort=False)["loss"].agg(
        lambda some: np.sum(some.to_numpy())
    )
    return by_unit.unstack("unit", sort=False)


def _scores(losses: pd.DataFrame, fits: Mapping[str, Fit], seed: int) -> pd.DataFrame:
    """Score every candidate; one that could not predict some cell has no score."""
    scores = losses.sum(axis=1, skipna=False).sort_values()
    table = []
    for (model, fitted), score in scores.items():
        pooled = fits.get(model) if fitted == POOLED else None
        table.append(
            {
                "model": model,
                "fitted": fitted,
                "score": score,
                "tied": _tied(losses.loc[(model, fitted)], losses.loc[scores.index[0]], seed),
                "skill": 1 - score / scores.get(("constant", POOLED), math.nan),
                "aicc": pooled.aicc if pooled else math.nan,
                "bic": pooled.bic if pooled else math.nan,
            }
        )
    return pd.DataFrame(table)


def _tied(losses: pd.Series, least: pd.Series, seed: int) -> bool:
    """Whether resamples of the units may have the score of one candidate at or below the least."""
    gap = (losses - least).to_numpy()
    drawn = np.random.default_rng(seed).integers(0, len(gap), (_DRAWS, len(gap)))
    return bool(np.isfinite(gap).all() and np.quantile(gap[drawn].sum(axis=1), 0.025) <= 0)


def _best(losses: pd.DataFrame, seed: int) -> str:
    """The first that cannot be told from the best, of what was fitted to all cells: a formula knows limits."""
    pooled = losses.xs(POOLED, level="fitted")
    scores = pooled.sum(axis=1, skipna=False).dropna().sort_values()
    formulas = [name for name in scores.index if name not in LEARNED]
    order = [*formulas[:1], *(name for name in LEARNED if name in scores.index)]
    return next((name for name in order if _tied(pooled.loc[name], pooled.loc[scores.index[0]], seed)), "")
