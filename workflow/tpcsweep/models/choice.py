# SPDX-License-Identifier: Apache-2.0
"""Which model predicts cells that it has not seen, by leaving out whole values of an axis and whole deployments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.models.base import Floats, Model, plain
from tpcsweep.models.baseline import NAME as PROCESS
from tpcsweep.models.baseline import fit_process
from tpcsweep.models.fit import Fit, fit
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
    problems: tuple[str, ...] = ()

    @property
    def winner(self) -> str:
        """The name of the model with the best score; empty where nothing could be left out."""
        return str(self.scores["model"].iloc[0]) if len(self.scores) else ""

    @property
    def best(self) -> str:
        """The name of the best model that was fitted to all cells at once, and so predicts new settings."""
        for model, fitted in zip(self.scores.get("model", ()), self.scores.get("fitted", ()), strict=True):
            if fitted == POOLED and model != PROCESS:
                return str(model)
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Give the tables as JSON has them, without the single predictions."""
        return {
            "winner": self.winner,
            "best": self.best,
            "scores": plain(self.scores.to_dict("records")),
            "errors": plain(self.errors.to_dict("records")),
            "problems": list(self.problems),
        }


def choose(
    models: Mapping[str, Model], observations: Observations, fits: Mapping[str, Fit], *, seed: int = 0
) -> Choice:
    """Cross-validate every model and the Gaussian process.

    The score is the mean absolute error (Gbit/s) of the cells left out, averaged over the kinds: RTT values, stream
    values, deployments. A model is `tied` with the best if the difference of their errors is not other than zero
    by a bootstrap over folds (95 %). `skill` is 1 - score / score of the constant: at or below zero there is no
    support for the model in the data. AICc and BIC are those of `fits`, of the models to all observations.
    """
    folds = leave_out(observations)
    if not folds:
        nothing = pd.DataFrame()
        return Choice(nothing, nothing, nothing, ("no axis has enough values to leave one out",))
    tables, problems = [], []
    for name, fitted, fitter in _candidates(models, observations, seed):
        table, failed = cross_validate(fitter, observations, folds)
        tables.append(table.assign(model=name, fitted=fitted))
        if failed:
            problems.append(f"{name} ({fitted}) could not be fitted without {', '.join(failed)}")
    predictions = pd.concat(tables, ignore_index=True)
    errors = _errors(predictions, float(observations.throughput.max()))
    return Choice(errors, _scores(predictions, fits, seed), predictions, tuple(problems))


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
    observations: Observations

    def estimate(self, points: pd.DataFrame) -> Floats:
        frame = self.observations.frame
        pooled = fit(self.model, self.observations, resamples=0, seed=self.seed)
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
    models: Mapping[str, Model], observations: Observations, seed: int
) -> Iterator[tuple[str, str, Fitter]]:
    """Give name, way of fitting and what fits, for every model and the Gaussian process."""
    for model in models.values():
        yield model.name, POOLED, partial(fit, model, resamples=0, seed=seed)
        apart = tuple(name for name in observations.axes if name not in model.axes)
        if apart:
            cells = observations.frame.groupby([observations.classes(name) for name in apart]).size()
            if cells.max() > len(model.parameters) + 1:  # as one value is left out of a setting
                yield model.name, GROUPED, partial(GroupedFit, model, apart, seed)
    yield PROCESS, POOLED, partial(fit_process, seed=seed)


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


def _scores(predictions: pd.DataFrame, fits: Mapping[str, Fit], seed: int) -> pd.DataFrame:
    """Score every candidate; one that could not predict some cell has no score."""
    off = predictions.assign(off=(predictions["predicted"] - predictions["measured"]).abs())
    # Mean absolute error by candidate (rows) and fold (columns), folds weighted by their cells within a kind.
    # The mean is NaN where any error is, unlike that of pandas.
    columns = ["kind", "held"]
    candidates = off.groupby(["model", "fitted", *columns], sort=False)["off"]
    by_fold = candidates.agg(lambda errors: np.mean(errors.to_numpy())).unstack(columns, sort=False)
    first = off[["model", "fitted"]].eq(off[["model", "fitted"]].iloc[0]).all(axis=1)
    cells = off[first].groupby(columns, sort=False).size()
    weights = cells / cells.groupby("kind").transform("sum") / cells.index.get_level_values("kind").nunique()
    by_fold = by_fold.loc[:, weights.index].dropna(how="all")
    scores = (by_fold * weights).sum(axis=1, skipna=False).sort_values()
    best = by_fold.loc[scores.index[0]]
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(weights), (_DRAWS, len(weights)))
    table = []
    for (model, fitted), score in scores.items():
        gap = ((by_fold.loc[(model, fitted)] - best) * weights).to_numpy()
        differences = gap[drawn].sum(axis=1)
        pooled = fits.get(model) if fitted == POOLED else None
        table.append(
            {
                "model": model,
                "fitted": fitted,
                "score": score,
                "tied": bool(np.isfinite(score) and np.quantile(differences, 0.025) <= 0),
                "skill": 1 - score / scores.get(("constant", POOLED), math.nan),
                "aicc": pooled.aicc if pooled else math.nan,
                "bic": pooled.bic if pooled else math.nan,
            }
        )
    return pd.DataFrame(table)
