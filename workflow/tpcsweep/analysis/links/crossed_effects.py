# SPDX-License-Identifier: Apache-2.0
"""Two-way crossed random effects: log throughput of links = mean + source + destination + pair + measurement error.

Measurement errors have known variances. The variances of sources, destinations and pairs are estimated by restricted
maximum likelihood (H. D. Patterson, R. Thompson, Biometrika 58, 1971), and effects are predicted by Henderson's mixed
model equations (C. R. Henderson, Biometrics 31, 1975; S. R. Searle, G. Casella, C. E. McCulloch, Variance Components,
1992), which shrink the effects of sites with few links towards the mean. Links that differ from their two sites' other
links by more than pairs scatter have no part in the fit (mean-shift outliers, F. N. Gumedze, S. J. Welham, B. J. Gogel,
R. Thompson, Computational Statistics & Data Analysis 54, 2010), which starts from links near the median polish (J. W.
Tukey, Exploratory Data Analysis, 1977) so that outliers do not hide each other (A. S. Hadi, J. S. Simonoff, Journal of
the American Statistical Association 88, 1993).

Where TCP's window binds, throughput falls as 1/RTT. If RTTs are known, the mean is therefore constant up to some RTT
and then a falling line in log RTT, if the Bayesian information criterion prefers that.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from tpcsweep.analysis.holm import holm
from tpcsweep.common.numbers import CONFIDENCE, MAD_FACTOR

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEVEL = (1 - CONFIDENCE) / 2
"""Level of all tests of links; those of sites have the same, and both together 5 %."""
_SMALLEST, _LARGEST = 1e-7, 10.0  # variances of effects
_FAR = 3.0  # robust standard deviations beyond which a link has no part in the first fit
_ROUNDS = 12  # of fits and tests; most meshes need three
_KNEES = 8  # RTTs that are tried as the end of the constant part


@dataclass(frozen=True)
class CrossedFit:
    """A fit of the links of a mesh; matrices are sources × destinations."""

    sources: Floats  # predicted effects
    destinations: Floats
    fixed: Floats  # the mean, and the slope over the covariate if there is one
    covariates: Floats  # covariates × sources × destinations; the first one is 1
    covariance: Floats  # of the errors of fixed effects, sources and destinations, in this order
    scatter: float  # standard deviation of pairs
    freedom: int
    knee: float  # RTT in ms up to which the mean is constant; inf without a line
    used: Mask  # links that the fit contains

    def expected(self) -> Floats:
        """Return the log throughput that follows from the effects of both sites."""
        fixed = np.tensordot(self.fixed, self.covariates, 1)
        return np.asarray(fixed + self.sources[:, None] + self.destinations)

    def variance(self) -> Floats:
        """Return the variance of `expected`."""
        count, rows = len(self.fixed), len(self.sources)
        parts = np.split(np.arange(len(self.covariance)), [count, count + rows])
        (ff, fs, fd), (_, ss, sd), (_, _, dd) = (
            [self.covariance[np.ix_(one, other)] for other in parts] for one in parts
        )
        both = np.einsum("kij,kl,lij->ij", self.covariates, ff, self.covariates)
        both += 2 * np.einsum("kij,ki->ij", self.covariates, fs)
        both += 2 * np.einsum("kij,kj->ij", self.covariates, fd)
        return np.asarray(both + np.diag(ss)[:, None] + np.diag(dd) + 2 * sd)

    def link_scatter(self, logs: Floats) -> float:
        """Return the robust standard deviation of links around `expected`, which contains their noise."""
        off = np.abs(logs - self.expected())[np.isfinite(logs)]
        return MAD_FACTOR * float(np.median(off)) * math.sqrt(int(self.used.sum()) / self.freedom)

    def deviations(self, logs: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return how far each link is from the expectation of all other links, and the variance of that distance.

        The variance contains the pairs' own scatter.
        """
        residual, own, spread = logs - self.expected(), self.scatter**2 + variances, self.variance()
        left = np.where(self.used, np.maximum(1 - spread / own, 1e-9), 1.0)
        return residual / left, np.where(self.used, own / left, own + spread)


def fit_links(logs: Floats, variances: Floats, rtt: Floats) -> tuple[CrossedFit, Floats]:
    """Fit the effects of sources and destinations, and test each link against all others.

    Args:
        logs: Log throughput, sources × destinations, NaN for missing links; all are connected.
        variances: Known variances of `logs`.
        rtt: RTTs in ms; NaN if unknown.

    Returns:
        The fit without links that differ from their sites, and for each link the p-value of no difference (two-sided
        Student's t), NaN for missing ones.
    """
    known = np.isfinite(logs)
    residual = _polished(logs)
    spread = MAD_FACTOR * float(np.nanmedian(np.abs(residual[known])))
    used = known & ~(np.abs(residual) > max(_FAR * spread, 1e-9))
    for _ in range(_ROUNDS):
        fit = _with_rtt(logs, variances, rtt, used)
        distance, variance = fit.deviations(logs, variances)
        p = 2 * stats.t.sf(np.abs(distance) / np.sqrt(variance), fit.freedom)
        alone = np.zeros_like(known)
        alone[known] = holm(p[known]) < LEVEL
        if np.array_equal(known & ~alone, used):
            break
        used = known & ~alone
    return fit, np.where(known, p, np.nan)


def _polished(logs: Floats) -> Floats:
    """Return the residuals of a median polish, in which lines of one link have no effect of their own."""
    rest = logs.copy()
    for _ in range(10):
        for axis in (0, 1):
            counted = np.isfinite(rest).sum(axis=axis, keepdims=True) > 1
            filled = np.where(counted, rest, 0.0)
            rest = rest - np.where(counted, np.nanmedian(filled, axis=axis, keepdims=True), 0.0)
    return rest


def _with_rtt(logs: Floats, variances: Floats, rtt: Floats, used: Mask) -> CrossedFit:
    """Fit the links with a constant mean, or with a mean that falls beyond some RTT if that is better."""
    plain = np.ones((1, *logs.shape))
    best, lowest = _fit(logs, variances, plain, used, np.inf)
    if not np.isfinite(rtt[np.isfinite(logs)]).all():
        return best
    rtts = np.unique(rtt[used])
    for knee in (
        np.unique(np.quantile(rtts[:-1], np.linspace(0, 1, _KNEES), method="nearest"))
        if len(rtts) > 2
        else ()
    ):
        far = -np.log(np.maximum(np.where(np.isfinite(rtt), rtt, knee), knee) / knee)
        fit, criterion = _fit(logs, variances, np.concatenate([plain, far[None]]), used, float(knee))
        criterion += 2 * np.log(used.sum())
        if criterion < lowest and fit.fixed[1] > 0:
            best, lowest = fit, criterion
    return best


def _fit(
    logs: Floats, variances: Floats, covariates: Floats, used: Mask, knee: float
) -> tuple[CrossedFit, float]:
    """Return the fit by restricted maximum likelihood, and -2 log likelihood of the plain kind to compare means."""
    counts = [used.sum(axis=axis) for axis in (1, 0)]
    # One site, or sites with one link each, have no effect apart from those of pairs.
    free = [bool((each > 0).sum() > 1 and (each > 1).sum() > 1) for each in counts]
    effects = sum(int((each > 0).sum()) - 1 for each, is_free in zip(counts, free, strict=True) if is_free)
    freedom = max(1, int(used.sum()) - effects - len(covariates))
    place = [at for at, is_free in enumerate([*free, True]) if is_free]
    start = max(float(np.var(logs[used])) / 3, 1e-4)

    def solved(parameters: Floats) -> tuple[Any, ...]:
        spread = np.full(3, _SMALLEST)
        spread[place] = np.exp(parameters)
        return *mixed_model(logs, variances, covariates, used, spread), spread

    def criterion(parameters: Floats) -> float:
        return float(solved(parameters)[0])

    bounds = [(math.log(_SMALLEST), math.log(_LARGEST))] * len(place)
    found = optimize.minimize(criterion, [math.log(start)] * len(place), method="L-BFGS-B", bounds=bounds)
    _, plain, estimates, covariance, spread = solved(found.x)
    fixed, sources, destinations = np.split(estimates, [len(covariates), len(covariates) + len(logs)])
    fit = CrossedFit(
        sources, destinations, fixed, covariates, covariance, float(np.sqrt(spread[2])), freedom, knee, used
    )
    return fit, plain


def mixed_model(
    logs: Floats, variances: Floats, covariates: Floats, used: Mask, spread: Floats
) -> tuple[float, float, Floats, Floats]:
    """Solve the mixed model equations for given variances of sources, destinations and pairs.

    Returns -2 log likelihood, restricted and plain, the effects, and their covariance.
    """
    rows, columns = logs.shape
    total = np.where(used, spread[2] + variances, 1.0)
    weights = used / total
    y, weighted = np.where(used, logs, 0.0), weights * covariates
    count = len(covariates)
    matrix = np.zeros((count + rows + columns,) * 2)
    fixed, first, second = slice(count), slice(count, count + rows), slice(count + rows, None)
    matrix[fixed, fixed] = np.einsum("kij,lij->kl", weighted, covariates)
    matrix[fixed, first], matrix[fixed, second] = weighted.sum(axis=2), weighted.sum(axis=1)
    matrix[first, second] = weights
    matrix += np.triu(matrix, 1).T
    matrix[fixed, fixed] = np.einsum("kij,lij->kl", weighted, covariates)
    prior = np.repeat([0.0, 1 / spread[0], 1 / spread[1]], [count, rows, columns])
    sums = np.concatenate([np.zeros(count), weights.sum(axis=1), weights.sum(axis=0)])
    matrix[np.diag_indices_from(matrix)] += prior + sums
    right = np.concatenate(
        [np.einsum("kij,ij->k", weighted, y), (weights * y).sum(axis=1), (weights * y).sum(axis=0)]
    )
    inverse = np.linalg.inv(matrix)
    estimates = inverse @ right
    rest = float((weights * y**2).sum() - estimates @ right)
    common = float(np.log(total[used]).sum() + rows * np.log(spread[0]) + columns * np.log(spread[1])) + rest
    restricted = common + float(np.linalg.slogdet(matrix)[1])
    plain = common + float(np.linalg.slogdet(matrix[count:, count:])[1])
    return restricted, plain, estimates, inverse
