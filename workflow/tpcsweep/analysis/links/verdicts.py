# SPDX-License-Identifier: Apache-2.0
"""Slow and fast sites and paths of a mesh, with intervals, and links that cannot tell which.

Sites are tested against the middle half of the other sites (25 % trimmed mean), links against the other links of their
two sites. A few fast sites raise that mean, and must not make all others slow: the ratio to the others' median must be
as large. Holm's correction covers all sites in both roles, with half of the level, and all links, with the other half.
Intervals of named sites and links are as wide as their selection requires (Y. Benjamini, D. Yekutieli, Journal of the
American Statistical Association 100, 2005).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tpcsweep.analysis.holm import holm
from tpcsweep.analysis.links.crossed_effects import LEVEL, CrossedFit, fit_links
from tpcsweep.analysis.links.link_rates import Floats, Mesh
from tpcsweep.common.numbers import CONFIDENCE, json_number

SLOW = 0.8  # largest ratio to the others that is named slow
FAST = 1 / SLOW  # smallest ratio to the others that is named fast
FEWEST_OTHERS = 2  # other sites that a site needs for a comparison
FEWEST_LINKS = 4  # links of a group without which nothing is compared
MOSTLY = 0.5  # share of a site's judged links beyond which their limit is its limit
WINDOW = "window"
Role = Literal["sends", "receives"]
Verdict = Literal["slow", "window", "fast", "one link", "too few", "waited", "not measured", ""]
"""A slow site or link; a slow one whose window limits it; a fast one; a site whose one link cannot tell the site from
the path; too few other sites or links; a link whose rate is made of the pauses that a server asked for; no measurement;
and no difference found."""


@dataclass(frozen=True)
class SiteEffect:
    """Throughput of a site's links in one role, as ratio to the middle half of the other sites."""

    site: str
    role: Role
    links: int  # measured ones
    ratio: float
    low: float
    high: float
    p: float  # corrected; of no difference
    limit: str  # of most of its links, "" without such a limit
    limited: int  # links with this limit
    rtt: float  # median over its links, ms
    verdict: Verdict


@dataclass(frozen=True)
class LinkEffect:
    """Throughput of a link at its best setting, and its ratio to the expectation from both sites' other links."""

    source: str
    destination: str
    throughput: float  # Gbit/s; that of a link that waited has no interval
    low: float
    high: float
    assumed: (
        bool  # whether the link's cells have no interval of their own, so that a typical one stands for it
    )
    ratio: float
    ratio_low: float
    ratio_high: float
    p: float  # corrected
    limit: str
    rtt: float
    streams: float
    started: float  # start of its cells, s since 1970; NaN if they are not of one time
    verdict: Verdict


@dataclass(frozen=True)
class MeshEffects:
    """Effects of all sites and links of a mesh."""

    sites: list[SiteEffect]
    links: list[LinkEffect]  # those of the sweep, measured or not
    groups: list[list[str]]  # sites that links connect, the largest group first
    scatter: float  # robust standard deviation of links around `expected_rates`, relative, with noise
    rtt_from: float  # RTT in ms from which the model expects less; inf if it does not
    rtt_power: float  # power of RTT / `rtt_from` by which the throughput falls from there on
    mesh: Mesh

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "confidence": CONFIDENCE,
            "sites": [_plain(site) for site in self.sites],
            "links": [_plain(link) for link in self.links],
            "groups": self.groups,
            "scatter": json_number(self.scatter),
            "rtt_from": json_number(self.rtt_from),
            "rtt_power": json_number(self.rtt_power),
        }


def _plain(effect: SiteEffect | LinkEffect) -> dict[str, Any]:
    return {
        name: json_number(value) if isinstance(value, float) else value
        for name, value in vars(effect).items()
    }


@dataclass(frozen=True)
class _Estimate:
    """Logarithm of a ratio with its standard error and the p-value of no difference."""

    value: float
    error: float
    freedom: float
    p: float
    typical: float  # logarithm of the ratio to the median of the others, of two middle ones the nearer one

    @property
    def verdict(self) -> Literal["slow", "fast", ""]:
        """Whether the ratio is far enough from 1, be it by chance or not."""
        ends = sorted((self.value, self.typical))
        return "slow" if ends[1] <= np.log(SLOW) else "fast" if ends[0] >= np.log(FAST) else ""

    def interval(self, level: float) -> tuple[float, float, float]:
        half = float(stats.t.isf(level / 2, self.freedom)) * self.error
        low, middle, high = np.exp([self.value - half, self.value, self.value + half]).tolist()
        return middle, low, high


_NONE = _Estimate(np.nan, np.nan, 1.0, 1.0, np.nan)


def mesh_effects(mesh: Mesh) -> MeshEffects:
    """Estimate the effects of the sites and links of a mesh."""
    groups = connected(mesh.known)
    fits = [(group, _fit(mesh, group)) for group in groups]
    of_sites: dict[tuple[Role, int], _Estimate] = {}
    of_links: dict[tuple[int, int], _Estimate] = {}
    for (rows, columns), fitted in fits:
        if fitted is None:
            continue
        fit, p = fitted
        for role, effects, places, axis in (
            ("sends", fit.sources, rows, 1),
            ("receives", fit.destinations, columns, 0),
        ):
            offset = len(fit.fixed) + (len(fit.sources) if axis == 0 else 0)
            measured = mesh.known[np.ix_(rows, columns)].sum(axis=axis)
            estimates = _contrasts(effects, fit, offset, measured)
            of_sites |= {(role, int(places[at])): each for at, each in estimates.items()}  # type: ignore[misc]
        of_links |= _links(mesh, rows, columns, fit, p)
    known = ((group, fitted[0]) for group, fitted in fits if fitted)
    largest = max(known, key=lambda one: int(one[1].used.sum()), default=None)
    return MeshEffects(
        _sites(mesh, of_sites),
        _judged_links(mesh, of_links),
        [_names(mesh, *group) for group in groups],
        largest[1].link_scatter(mesh.logs[np.ix_(*largest[0])]) if largest else np.nan,
        largest[1].knee if largest else np.inf,
        float(largest[1].fixed[1]) if largest and np.isfinite(largest[1].knee) else 0.0,
        mesh,
    )


def expected_rates(mesh: Mesh) -> Floats:
    """Return the throughput in Gbit/s that the effects of both sites predict, sources × destinations; NaN if unknown.

    Sites without a measured link in a role, and links between groups, have none.
    """
    rates = np.full(mesh.logs.shape, np.nan)
    for group in connected(mesh.known):
        if fitted := _fit(mesh, group):
            rates[np.ix_(*group)] = np.exp(fitted[0].expected())
    return rates


def connected(known: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return sources and destinations of each group of connected links, the group with most links first."""
    left, groups = known.copy(), []
    while left.any():
        rows = np.arange(len(known)) == np.argwhere(left)[0][0]
        columns = np.zeros(known.shape[1], bool)
        while True:
            reached = known[rows].any(axis=0)
            back = known[:, reached].any(axis=1)
            if (reached == columns).all() and (back == rows).all():
                break
            rows, columns = back, reached
        left[rows] = False
        groups.append((np.flatnonzero(rows), np.flatnonzero(columns)))
    return sorted(groups, key=lambda group: -int(known[np.ix_(*group)].sum()))


def _names(mesh: Mesh, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> list[str]:
    held = {mesh.sources[row] for row in rows} | {mesh.destinations[column] for column in columns}
    return [site for site in mesh.sites if site in held]


def _fit(mesh: Mesh, group: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[CrossedFit, Floats] | None:
    part = np.ix_(*group)
    if mesh.known[part].sum() < FEWEST_LINKS:
        return None
    return fit_links(mesh.logs[part], mesh.variances[part], mesh.rtt[part])


def _contrasts(
    effects: Floats, fit: CrossedFit, offset: int, links: NDArray[np.int64]
) -> dict[int, _Estimate]:
    """Return the effect of each site with several links, less that of the middle half of the others.

    `offset` is the place of the first effect in the fit's covariance, `links` the number of links of each site.
    """
    several = np.flatnonzero(links > 1)
    found = {}
    for site in several if len(several) > FEWEST_OTHERS else ():
        others = several[several != site]
        others = others[np.argsort(effects[others], kind="stable")]
        cut = len(others) // 4
        middle = others[cut : len(others) - cut]
        weights = np.zeros(len(fit.covariance))
        weights[offset + site], weights[offset + middle] = 1.0, -1 / len(middle)
        error = float(np.sqrt(weights @ fit.covariance @ weights))
        value = float(effects[site] - effects[middle].mean())
        p = float(2 * stats.t.sf(abs(value) / error, fit.freedom)) if error else 1.0
        median = np.quantile(effects[others], 0.5, method="lower" if value < 0 else "higher")
        found[int(site)] = _Estimate(value, error, fit.freedom, p, float(effects[site] - median))
    return found


def _links(
    mesh: Mesh, rows: NDArray[np.int64], columns: NDArray[np.int64], fit: CrossedFit, p: Floats
) -> dict[tuple[int, int], _Estimate]:
    part = np.ix_(rows, columns)
    distance, variance = fit.deviations(mesh.logs[part], mesh.variances[part])
    error = np.sqrt(np.maximum(variance - fit.scatter**2, 0.0))
    return {
        (int(rows[row]), int(columns[column])): _Estimate(
            value, float(error[row, column]), fit.freedom, float(p[row, column]), value
        )
        for row, column in np.argwhere(mesh.known[part])
        for value in [float(distance[row, column])]
    }


def _selected(estimates: Sequence[_Estimate]) -> tuple[list[float], list[Verdict], float]:
    """Return corrected p-values, the verdicts slow, fast or "", and the level of intervals of slow and fast ones."""
    if not estimates:
        return [], [], 1 - CONFIDENCE
    p = holm(np.array([each.p for each in estimates]))
    verdicts: list[Verdict] = [
        each.verdict if value < LEVEL else "" for value, each in zip(p, estimates, strict=True)
    ]
    named = sum(map(bool, verdicts))
    return p.tolist(), verdicts, (1 - CONFIDENCE) * max(1, named) / len(estimates)


def _sites(mesh: Mesh, estimates: dict[tuple[Role, int], _Estimate]) -> list[SiteEffect]:
    p, verdicts, level = _selected(list(estimates.values()))
    corrected = dict(zip(estimates, zip(p, verdicts, strict=True), strict=True))
    found = []
    roles: tuple[tuple[Role, Any, int], ...] = (
        ("sends", mesh.sources, 1),
        ("receives", mesh.destinations, 0),
    )
    for role, names, axis in roles:
        for at, site in enumerate(names):
            which = (at, slice(None)) if axis else (slice(None), at)
            if not mesh.wanted[which].any():
                continue
            known = mesh.known[which]
            limit, limited = _common_limit(mesh.limit[which][known])
            estimate = estimates.get((role, at), _NONE)
            value, verdict = corrected.get((role, at), (1.0, ""))
            interval = estimate.interval(level if verdict else 1 - CONFIDENCE)
            verdict = (
                _by_window(verdict, limit) if (role, at) in estimates
                else ("not measured", "one link")[known.sum()] if known.sum() < 2
                else "too few"
            )  # fmt: skip
            rtts = mesh.rtt[which][known]
            rtt = float(np.nanmedian(rtts)) if np.isfinite(rtts).any() else np.nan
            found.append(
                SiteEffect(site, role, int(known.sum()), *interval, value, limit, limited, rtt, verdict)
            )
    return found


def _common_limit(limits: NDArray[Any]) -> tuple[str, int]:
    """Return the limit of more than half of the judged links, and how many it limits."""
    judged = limits[limits != ""].astype(str)
    if not judged.size:
        return "", 0
    names, counts = np.unique(judged, return_counts=True)
    most = int(counts.argmax())
    return (str(names[most]), int(counts[most])) if counts[most] > MOSTLY * judged.size else ("", 0)


def _by_window(verdict: Verdict, limit: str) -> Verdict:
    return "window" if (verdict, limit) == ("slow", WINDOW) else verdict


def _judged_links(mesh: Mesh, estimates: dict[tuple[int, int], _Estimate]) -> list[LinkEffect]:
    p, verdicts, level = _selected(list(estimates.values()))
    corrected = dict(zip(estimates, zip(p, verdicts, strict=True), strict=True))
    return [_link(mesh, int(row), int(column), estimates, corrected, level) for row, column in _wanted(mesh)]


def _wanted(mesh: Mesh) -> Iterator[Any]:
    yield from np.argwhere(mesh.wanted | mesh.known)


def _link(
    mesh: Mesh,
    row: int,
    column: int,
    estimates: dict[tuple[int, int], _Estimate],
    corrected: dict[tuple[int, int], tuple[float, Verdict]],
    level: float,
) -> LinkEffect:
    at = row, column
    estimate, limit = estimates.get(at, _NONE), str(mesh.limit[at])
    value, verdict = corrected.get(at, (1.0, ""))
    ratio, ratio_low, ratio_high = estimate.interval(level if verdict else 1 - CONFIDENCE)
    verdict = _by_window(verdict, limit)
    if not mesh.known[at]:
        verdict = "waited" if np.isfinite(mesh.waited[at]) else "not measured"
    half = float(stats.norm.isf((1 - CONFIDENCE) / 2) * np.sqrt(mesh.variances[at]))
    rate, low, high = np.exp([mesh.logs[at], mesh.logs[at] - half, mesh.logs[at] + half]).tolist()
    if verdict == "waited":
        rate = float(mesh.waited[at])
    return LinkEffect(
        source=mesh.sources[row],
        destination=mesh.destinations[column],
        throughput=rate,
        low=low,
        high=high,
        assumed=bool(mesh.assumed[at]),
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        p=value,
        limit=limit,
        rtt=float(mesh.rtt[at]),
        streams=float(mesh.streams[at]),
        started=float(mesh.started[at]),
        verdict=verdict,
    )
