# SPDX-License-Identifier: Apache-2.0
"""Effect of nodes on throughput, separated from parameters, for cells measured on several pairs.

A pair is a source's node and a destination's node. Effects are differences of log throughput, that is ratios.
docs/studies.md describes the method for users.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy import optimize, sparse, stats
from scipy.sparse import csgraph, linalg

from tpcsweep.common.numbers import CONFIDENCE, short
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.tables import observations
from tpcsweep.data.variables import TABLES
from tpcsweep.sweeps.parameters import Parameters

SOURCE, DESTINATION = "source_node", "destination_node"
ADVICE = "Sweeps with `repeat: deployments` and `repetitions` measure each setting on several pairs."
TABLE: Mapping[str, str] = TABLES["pairs_of_nodes"]

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
_SMALLEST = 1e-12  # variance of log throughput below which all values count as equal
_LARGEST = 1e12  # ratio of variances; a wider interval has no upper end


class Spread(NamedTuple):
    """Standard deviation of the pairs' log throughput."""

    value: float
    low: float
    high: float
    p: float  # probability of equally different pairs if all nodes are the same (F test)


@dataclass(frozen=True)
class Hardware:
    pairs: pd.DataFrame  # one row for each pair, see `TABLE`; NaN for unknown values
    spread: Spread | None
    """Spread, or None if no two pairs are comparable or too few data remain to estimate chance."""

    @property
    def confounded(self) -> list[str]:
        """Pairs whose effect cannot be separated from that of parameters."""
        return [str(pair) for pair in self.pairs["pair"][self.pairs["with"] == 1]]

    def summary(self) -> str:
        count = len(self.pairs)
        if count == 0:
            return "No usable cell records its nodes."
        if count == 1:
            return f"All cells were measured on one pair of nodes, {self.pairs['pair'].iloc[0]}."
        if len(self.confounded) == count:
            return (
                f"Confounded: each setting was measured on only one of the {count} pairs, so effects of axes "
                f"may be effects of hardware. {ADVICE}"
            )
        alone = f" Confounded: {len(self.confounded)} of {count} pairs, which share no setting with another."
        return _of_spread(self.spread) + (alone if self.confounded else "")


def _of_spread(spread: Spread | None) -> str:
    if spread is None:
        return f"Each pair has measured too little to tell its effect from chance. {ADVICE}"
    ends = (spread.value, spread.low, spread.high)
    size, low, high = (f"{np.expm1(end):.1%}" if np.isfinite(end) else "anything" for end in ends)
    chance = "p < 0.001" if spread.p < 0.001 else f"p = {short(spread.p, 2)}"
    if spread.p < 1 - CONFIDENCE:
        return (
            f"Pairs of nodes differ ({chance}): their standard deviation is {size}, with a {CONFIDENCE:.0%} interval "
            f"of {low} to {high}."
        )
    return (
        f"No difference between pairs of nodes was found ({chance}): their standard deviation may be up to {high} "
        f"({CONFIDENCE:.0%} interval)."
    )


def node_effects(summary: xr.Dataset) -> Hardware:
    """Estimate the effect of nodes on the throughput of a dataset's successful, valid cells.

    Cells of one deployment share more than their nodes. Therefore pairs are compared by deployments: the mean log
    throughput of a deployment relative to other deployments with the same settings. See `estimate`.
    """
    also = (SOURCE, DESTINATION, "provenance")
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=also)
    known = (rows["reason"] == "") & (rows["throughput"] > 0) & (rows[SOURCE].astype(object).fillna("") != "")
    rows = rows[known]
    parameters = [name for name in rows if name in {*Parameters.model_fields, *summary.dims} - {"repetition"}]
    setting = rows.groupby(parameters, dropna=False, sort=False).ngroup()
    deployment, _ = pd.factorize(rows["provenance"])
    both = rows[SOURCE].astype(str) + " → " + rows[DESTINATION].astype(str)
    pair, names = pd.factorize(both.where(rows[SOURCE] != rows[DESTINATION], rows[SOURCE]).to_numpy(object))
    values = np.log(rows["throughput"].to_numpy(float))
    table, spread = estimate(values, setting.to_numpy(), deployment, pair, len(names))
    return Hardware(table.assign(pair=names)[list(TABLE)], spread)


def estimate(
    values: Floats, setting: Integers, deployment: Integers, pair: Integers, pairs: int
) -> tuple[pd.DataFrame, Spread | None]:
    """Estimate the contribution of each pair to values, beyond settings and chance in deployments.

    The model is value = setting + pair + deployment + rest, with the last two random. Ratios are least-squares
    estimates; their intervals are Student's, each on its own. The spread is the pairs' component of variance, with
    Wald's interval (Annals of Mathematical Statistics 18, 1947; unbalanced data: Seely & El-Bassiouni, Annals of
    Statistics 11, 1983), relative to the variance of deployments, which is taken as exact; its test is that of the
    analysis of variance.

    Each cell has a value, and the numbers of its setting, deployment and pair, from 0; a deployment has one of `pairs`.
    Returns one row for each pair, with `TABLE` except names; and the spread, or None if it cannot be estimated.
    """
    cells = np.bincount(deployment)
    of = np.empty(len(cells), np.intp)  # the pair of each deployment
    of[deployment] = pair
    counts = {"deployments": np.bincount(of, minlength=pairs), "cells": np.bincount(pair, minlength=pairs)}
    unknown = dict.fromkeys(("ratio", "ratio_low", "ratio_high"), np.full(pairs, np.nan))
    table = pd.DataFrame({**counts, "with": np.ones(pairs, int), **unknown})
    if not len(values):
        return table, None
    effects, group, rest = _deployments(values, setting, deployment)
    fit = _fit(effects, group, of, pairs, np.ones(len(cells)))
    if rest is not None and fit.freedom:
        # Deployments with few cells are less certain.
        chance = max(0.0, fit.error - rest * float(np.mean(1 / cells)))
        fit = _fit(effects, group, of, pairs, 1 / (chance + rest / cells + _SMALLEST))
    comparable = fit.inverse.diagonal() > 0
    table["with"] = fit.members
    table.loc[comparable, "ratio"] = np.exp(fit.effects[comparable])
    if not (fit.freedom and fit.rank):
        return table, None
    half = stats.t.ppf((1 + CONFIDENCE) / 2, fit.freedom) * np.sqrt(fit.error * fit.inverse.diagonal())
    for name, effect in (("ratio_low", fit.effects - half), ("ratio_high", fit.effects + half)):
        table.loc[comparable, name] = np.exp(effect[comparable])
    return table, _spread(fit)


def _deployments(
    values: Floats, setting: Integers, deployment: Integers
) -> tuple[Floats, Integers, float | None]:
    """Return each deployment's least-squares effect beyond settings, its group, and the residual variance.

    Effects are determined up to a constant in each group of deployments that share settings. The variance is that of a
    cell beyond setting and deployment, None without degrees of freedom.
    """
    settings, deployments = setting.max() + 1, deployment.max() + 1
    rows = np.tile(np.arange(len(values)), 2)
    columns = np.concatenate([setting, settings + deployment])
    design = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(values), settings + deployments))
    solution = linalg.lsqr(design, values, atol=1e-12, btol=1e-12, iter_lim=10_000)[0]
    count, label = csgraph.connected_components(design.T @ design, directed=False)
    freedom = len(values) - (settings + deployments - count)
    left = float(np.sum((values - design @ solution) ** 2))
    return solution[settings:], label[settings:].astype(np.intp), left / freedom if freedom else None


class _Fit(NamedTuple):
    """Effects of pairs by weighted least squares, without the means of groups."""

    effects: Floats  # effect of each pair; the mean over comparable pairs is 0
    inverse: Floats  # covariance of the effects over `error`; 0 for a pair without a comparable one
    members: Integers  # for each pair, the number of comparable pairs
    rank: int
    freedom: int
    error: float  # variance of a deployment of weight 1; 0 without degrees of freedom
    roots: Floats  # nonzero eigenvalues of the pairs' normal matrix
    along: Floats  # effects along their eigenvectors, each with variance `error` if pairs are equal


def _fit(values: Floats, group: Integers, pair: Integers, pairs: int, weight: Floats) -> _Fit:
    weight = weight / weight.mean()
    known = np.zeros((len(values), pairs + 1))  # the pairs' columns and that of the values
    known[np.arange(len(values)), pair] = 1
    known[:, pairs] = values
    sums = np.zeros((group.max() + 1, pairs + 1))
    np.add.at(sums, group, weight[:, None] * known)
    means = sums / np.maximum(np.bincount(group, weight), _SMALLEST)[:, None]
    known = np.sqrt(weight)[:, None] * (known - means[group])
    design, seen = known[:, :pairs], known[:, pairs]
    normal = design.T @ design
    roots, vectors = np.linalg.eigh(normal)
    count, label = csgraph.connected_components(np.abs(normal) > 1e-9, directed=False)
    rank = pairs - count
    roots, vectors = roots[count:], vectors[:, count:]  # in ascending order: as many are 0 as there are parts
    along = vectors.T @ (design.T @ seen) / np.sqrt(roots)
    freedom = len(values) - len(np.unique(group)) - rank
    left = max(0.0, float(seen @ seen - along @ along))
    inverse = (vectors / roots) @ vectors.T
    members = np.bincount(label)[label]
    inverse[members == 1] = inverse[:, members == 1] = 0
    effects = (vectors / np.sqrt(roots)) @ along
    error = left / freedom if freedom else 0.0
    return _Fit(effects, inverse, members, rank, freedom, error, roots, along)


def _spread(fit: _Fit) -> Spread | None:
    if not fit.error > 0:
        return None
    known = stats.f(fit.rank, fit.freedom)

    def quotient(ratio: float) -> float:
        """Return F for a ratio of the variances of pairs and deployments; it decreases with the ratio."""
        return float(np.sum(fit.along**2 / (1 + ratio * fit.roots)) / (fit.rank * fit.error))

    def ratio(wanted: float) -> float:
        if quotient(0) <= wanted:
            return 0.0
        if quotient(_LARGEST) >= wanted:
            return np.inf
        return float(optimize.brentq(lambda at: quotient(at) - wanted, 0, _LARGEST, xtol=1e-9))

    tail = (1 - CONFIDENCE) / 2
    ratios = (ratio(1.0), ratio(known.ppf(1 - tail)), ratio(known.ppf(tail)))
    value, low, high = (float(np.sqrt(one * fit.error)) for one in ratios)
    return Spread(value, low, high, float(known.sf(quotient(0))))
