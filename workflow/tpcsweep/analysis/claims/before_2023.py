# SPDX-License-Identifier: Apache-2.0
"""Tests of claims published before 2023, whose YAML files have the texts, needs and regions."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import stats

from tpcsweep.analysis.claims import predicates
from tpcsweep.analysis.claims.claim import Claim, Effect, Finding, Row, for_claims
from tpcsweep.analysis.claims.claim_cells import CellTable
from tpcsweep.common.numbers import CONFIDENCE, between
from tpcsweep.data import effects
from tpcsweep.measuring.tcp import recovery_time
from tpcsweep.sweeps.parameters import value_text

MINUTE = 60.0  # s
_SAME_LINK = 1.1  # largest ratio of RTTs on one link; measured RTTs of a path vary
_LINK = (
    *("rtt", "streams", "xrootd_cells", "gridftp_cells", "xrootd_gbit_s", "gridftp_gbit_s"),
    *("ratio", "error", "together"),
)
_MANY_CRASHES = 0.5
_VARIANTS = ("reno", "westwood", "bic")  # the slowest published rate first; FAST is in no Linux kernel


@for_claims
def xrootd_vs_gridftp(claim: Claim, cells: CellTable) -> Finding:
    """Test the mean ratio of both tools over the faster half of the links."""
    links = _links(claim, cells)
    # Both tools together define fast links, so that neither is favoured.
    fast = links[links["together"] >= links["together"].median()]
    interval = effects.mean_ratio(fast["ratio"], fast["error"])
    rows = tuple(fast.sort_values("ratio").drop(columns=["together", "error"]).to_dict("records"))
    if interval is None:
        reason = (
            f"{len(fast)} links of high throughput have both tools with the same streams and at least two trustworthy "
            f"cells each; {effects.FEWEST_PAIRS} are needed"
        )
        return Finding(None, reason, rows=rows, advice="sweep more RTTs with both tools, and repetitions: 3")
    beyond = ": better, and by more than slightly" if interval.low > claim.region.high else ""
    subject = (
        f"{len(fast)} of {len(links)} links (RTTs within 10 %, same streams), the faster half of them, "
        f"{between(fast['rtt'].min(), fast['rtt'].max())} ms"
    )
    effect = Effect("throughput of XRootD HTTP-TPC over that of GridFTP on fast links", interval)
    finding = predicates.judge_parts([(subject, interval, claim.region, rows)], effect)
    return replace(finding, reason=f"{finding.reason}{beyond}")


def _links(claim: Claim, cells: CellTable) -> pd.DataFrame:
    """Return mean throughputs and their ratio for each link and number of streams with both tools."""
    [(xrootd, gridftp)] = [need.words for need in claim.needs if need.words]
    rows = cells.trusted[cells.trusted["throughput"] > 0]
    rtt = np.log(rows["rtt"].astype(float).clip(lower=0.01)) / math.log(_SAME_LINK)
    links = []
    for (_, streams), part in rows.assign(link=np.rint(rtt)).groupby(["link", "streams"]):
        ours, theirs = (part[part["tool"].isin(tools)]["throughput"] for tools in (xrootd, gridftp))
        if min(len(ours), len(theirs)) < 2:
            continue
        errors = (rates.std() / rates.mean() / math.sqrt(len(rates)) for rates in (ours, theirs))
        us, them = ours.mean(), theirs.mean()
        place = part["rtt"].mean(), streams, len(ours), len(theirs)
        links.append((*place, us, them, us / them, math.hypot(*errors), math.sqrt(us * them)))
    return pd.DataFrame(links, columns=_LINK)


@for_claims
def more_streams(claim: Claim, cells: CellTable) -> Finding:
    """Test that more streams gain throughput, and that the most with the largest buffers crash."""
    more = predicates.ratio(claim, cells, "streams", "throughput at the most streams over that at the fewest")
    every, buffers = cells.every, cells.every["tcp_buffer"].max()
    large = every["tcp_buffer"] == buffers
    streams = every["streams"][large].max()
    corner = large & (every["streams"] == streams)
    in_corner, elsewhere = every["failed"][corner], every["failed"][~corner]
    crashed = exact_share(int(in_corner.sum()), len(in_corner))
    # More often than elsewhere, and at least half of the time: Fisher's exact test, one-sided.
    counts = np.array([[part.sum(), (~part).sum()] for part in (in_corner, elsewhere)])
    more_often = stats.fisher_exact(counts, alternative="greater").pvalue < 0.05
    crashes: effects.Decision = True if more_often and crashed.value >= _MANY_CRASHES else None
    if crashed.high < _MANY_CRASHES:
        crashes = False
    where = f"{value_text('streams', streams)} streams with buffers of {value_text('tcp_buffer', buffers)}"
    reason = (
        f"{more.reason}; {in_corner.sum()} of {len(in_corner)} cells fail at {where} "
        f"({crashed.low:.0%} to {crashed.high:.0%}), {elsewhere.sum()} of {len(elsewhere)} elsewhere"
    )
    if cells.data == "simulated":
        crashes, reason = None, f"{reason}: nothing in a simulation can crash, so that is no evidence"
    advice = f"{more.advice}; sweep more streams with larger buffers until they fail, and repetitions: 6"
    rows = ({"where": where, "failed": in_corner.sum(), "cells": len(in_corner)}, *more.rows)
    return Finding(effects.all_true([more.decision, crashes]), reason, more.effect, rows, advice)


@for_claims
def scales(claim: Claim, cells: CellTable) -> Finding:
    """Test the mean exponent of streams that differ four-fold or more."""
    free, left = predicates.unbound_pairs(cells, claim.select(cells), "streams", 4)
    subject = (
        f"exponent of streams in {len(free)} pairs that differ only in streams, four-fold or more up to 10 "
        f"({left} left out that differ less, or in which an end fills the path or uses up the servers' CPU)"
    )
    changes = free["to"] / free["from"]
    exponent = effects.mean_exponent(free["ratio"], free["error"], changes, free["deployment"], free["luck"])
    advice = "sweep streams: [1, 2, 5, 10], repetitions: 3, with a path and cores that ten do not use up"
    return predicates.judge_pairs(free, subject, exponent, claim.region, "exponent of streams", advice)


@for_claims
def loss(claim: Claim, cells: CellTable) -> Finding:
    """Test the utilisation of one Reno stream with losses, on a short and on a long path."""
    rows = _one_connection(claim, cells)
    parts = []
    places = ("1 ms or less", "rtt <= 1", "lan"), ("about 120 ms", "100 <= rtt <= 140", "wan")
    for where, rtts, name in places:
        points = cells.points(rows.query(rtts))
        used = effects.largest_level(
            points["throughput"] / points["bandwidth"], points["error"] / points["bandwidth"], 2
        )
        if used is None:
            return predicates.missing_cells(
                f"with one Reno stream, a loss of about 0.01 %, an MTU of 1500 and {where}"
            )
        parts.append(
            (f"utilisation at {where}", used, claim.regions[name], predicates.cell_rows(points, cells))
        )
    return predicates.judge_parts(parts, Effect(*parts[-1][:2]))


@for_claims
def variants(claim: Claim, cells: CellTable) -> Finding:
    """Test that each variant of TCP is faster than the previous one."""
    rows = _one_connection(claim, cells)
    parts = []
    for slower, faster in itertools.pairwise(_VARIANTS):
        pairs = cells.pairs(rows, "congestion_control", (slower, faster)).table
        interval = predicates.pair_mean(pairs, len(_VARIANTS) - 1)
        if interval is None:
            found = f"{len(pairs)} trustworthy pairs of one flow at 150 ms or more have {slower} and {faster}"
            return predicates.too_few_pairs(found, pairs, "sweep repetitions: 3, with streams: 1")
        parts.append((f"{faster} over {slower}", interval, claim.region, predicates.pair_rows(pairs)))
    effect = Effect(f"throughput of {_VARIANTS[-1]} over that of {_VARIANTS[-2]}", parts[-1][1])
    finding = predicates.judge_parts(parts, effect)
    return replace(finding, reason=f"{finding.reason}; FAST is not among them")


def _one_connection(claim: Claim, cells: CellTable) -> pd.DataFrame:
    rows = claim.select(cells)
    return rows[rows["tcp_streams"] == 1] if "tcp_streams" in rows else rows


@dataclass(frozen=True)
class Recovery:
    """Row of the published table of recovery times after one loss."""

    id: str
    path: str
    bandwidth: float
    rtt: float
    mtu: int
    published: float
    rounded_to: float = MINUTE  # rounding of the published time, s

    @property
    def by_formula(self) -> float:
        """Time by the publication's own formula, s."""
        return recovery_time(self.bandwidth, self.rtt, self.mtu)

    @property
    def agrees(self) -> bool:
        """Whether the published time equals the formula's, rounded."""
        return abs(self.by_formula - self.published) <= self.rounded_to / 2


RECOVERIES = (
    Recovery("recovery.lan", "LAN", 10, 1, 1500, 0.430, rounded_to=0.010),
    Recovery("recovery.chicago", "Geneva–Chicago", 10, 120, 1500, 92 * MINUTE),
    Recovery("recovery.los_angeles_1g", "Geneva–Los Angeles", 1, 180, 1500, 23 * MINUTE),
    Recovery("recovery.los_angeles_10g", "Geneva–Los Angeles", 10, 180, 1500, 231 * MINUTE),
    Recovery("recovery.los_angeles_9000", "Geneva–Los Angeles", 10, 180, 9000, 38 * MINUTE),
    Recovery("recovery.los_angeles_64k", "Geneva–Los Angeles", 10, 180, 65536, 5 * MINUTE),
    Recovery("recovery.tokyo", "Geneva–Tokyo", 1, 300, 1500, 64 * MINUTE),
)
"""Published table; bandwidths in Gbit/s, RTTs in ms, MTUs in bytes, times in s."""


@for_claims
def recovery_rows() -> list[Row]:
    return [
        {
            "path": row.path,
            "bandwidth_gbit_s": row.bandwidth,
            "rtt_ms": row.rtt,
            "mtu": row.mtu,
            "published_s": row.published,
            "by_formula_s": row.by_formula,
            "agrees": row.agrees,
        }
        for row in RECOVERIES
    ]


@for_claims
def climb_rows() -> list[Row]:
    return [
        {"rtt_ms": rtt, "mtu": mtu, "published_s": 15 * MINUTE, "by_formula_s": recovery_time(6, rtt, mtu)}
        for rtt, mtu in ((120, 1500), (120, 9000), (180, 1500), (180, 9000), (250, 9000), (264, 9000))
    ]


def exact_share(successes: int, trials: int) -> effects.Interval:
    """Return a share with its exact interval (C. J. Clopper, E. S. Pearson, Biometrika 26, 1934)."""
    ends = stats.binomtest(successes, trials).proportion_ci(CONFIDENCE, method="exact")
    return effects.Interval(successes / trials, float(ends.low), float(ends.high))
