"""Claims about TCP on long fat paths (TERENA 2005): one flow, loss, recovery, MTU and variants."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.base import Claim, Effect, Finding, Need, Row
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import (
    FEWEST_PAIRS,
    MORE,
    Decision,
    Interval,
    Region,
    about,
    both,
    largest,
    mean_ratio,
)
from tpcsweep.claims.predicates import MEASURE_MORE, cell_rows, nothing_there, pair_rows, ratio, said
from tpcsweep.claims.usatlas2007 import LAYERS, LAYERS_SWEEP, of_any_tool
from tpcsweep.tcp import recovery_time

MINUTE = 60.0
"""Seconds."""

_LAN = Region(low=0.9)
_WAN = about(0.012)
_VARIANTS = ("reno", "westwood", "bic")
"""In the order of their published rates, the slowest first; FAST is in no Linux kernel."""


@dataclass(frozen=True)
class Recovery:
    """A row of the table of times to recover from one loss."""

    id: str
    path: str
    bandwidth: float
    rtt: float
    mtu: int
    published: float
    rounded_to: float = MINUTE
    """What the published time is a multiple of, s."""

    @property
    def by_formula(self) -> float:
        """The time by the publication's own formula, s."""
        return recovery_time(self.bandwidth, self.rtt, self.mtu)

    @property
    def agrees(self) -> bool:
        """Whether the published time is what the formula gives, rounded."""
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
"""Every row of the published table; bandwidths in Gbit/s, RTTs in ms, MTUs in bytes, times in s."""


def _recovery_rows() -> tuple[Row, ...]:
    return tuple(
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
    )


def _one_flow(rows: pd.DataFrame) -> pd.DataFrame:
    alone = rows["streams"] == 1
    return rows[alone & (rows["tcp_streams"] == 1)] if "tcp_streams" in rows else rows[alone]


def _loss(cells: Cells) -> Finding:
    rows = _one_flow(cells.trusted)
    rows = rows[
        (rows["congestion_control"] == "reno")
        & rows["mtu"].between(1400, 1500)
        & rows["loss"].between(0.5e-4, 2e-4)
        & rows["bandwidth"].between(0.5, 2)
    ]
    parts = {
        "1 ms or less": (rows[rows["rtt"] <= 1], _LAN),
        "about 120 ms": (rows[rows["rtt"].between(100, 140)], _WAN),
    }
    decisions: list[Decision] = []
    texts: list[str] = []
    lines: list[Row] = []
    effect = None
    for where, (part, region) in parts.items():
        points = cells.points(part)
        used = largest(points["throughput"] / points["bandwidth"], points["error"] / points["bandwidth"], 2)
        if used is None:
            return nothing_there(f"with one Reno stream, a loss of about 0.01 %, an MTU of 1500 and {where}")
        decisions.append(region.decide(used))
        texts.append(f"utilisation at {where}: {said(used, region)}")
        lines += cell_rows(points, cells)
        effect = Effect(f"utilisation at {where}", used)
    return Finding(both(decisions), "; ".join(texts), effect, tuple(lines), MEASURE_MORE)


def _variants(cells: Cells) -> Finding:
    rows = _one_flow(cells.trusted)
    rows = rows[(rows["rtt"] >= 150) & (rows["bandwidth"] >= 1)]
    decisions: list[Decision] = []
    texts: list[str] = []
    lines: list[Row] = []
    last: Interval | None = None
    steps = list(itertools.pairwise(_VARIANTS))
    for slower, faster in steps:
        pairs = cells.pairs(rows, "congestion_control", (slower, faster)).kept
        last = mean_ratio(pairs["ratio"], pairs["error"], len(steps)) if len(pairs) else None
        if last is None:
            there = f"{len(pairs)} trustworthy pairs of one flow at 150 ms or more have {slower} and {faster}"
            reason = f"{there}; {FEWEST_PAIRS} are needed"
            return Finding(
                None, reason, rows=pair_rows(pairs), advice="sweep repetitions: 3, with streams: 1"
            )
        decisions.append(MORE.decide(last))
        texts.append(f"{faster} over {slower}: {said(last, MORE)}")
        lines += pair_rows(pairs)
    effect = Effect(f"throughput of {_VARIANTS[-1]} over that of {_VARIANTS[-2]}", last) if last else None
    return Finding(
        both(decisions), f"{'; '.join(texts)}; FAST is not among them", effect, tuple(lines), MEASURE_MORE
    )


CLAIMS = (
    Claim(
        "terena2005.loss",
        "single stream, 1 Gbit/s, loss of 0.01 %: utilisation is 99 % on a LAN (0.04 ms), 1.2 % on a WAN (120 ms)",
        "one Reno stream, MTU 1500, 0.5 to 2 Gbit/s, loss of 0.005 to 0.02 %: utilisation is "
        f"{_LAN} at 1 ms or less, and {_WAN} at 100 to 140 ms",
        needs=(
            Need("loss", low=0.5e-4, high=2e-4, sweep="loss: 0.01 %"),
            Need("rtt", low=0, high=1, sweep="rtt: [0, 120 ms]"),
            Need("rtt", low=100, high=140, sweep="rtt: [0, 120 ms]"),
            Need("bandwidth", low=0.5, high=2, sweep="bandwidth: 1 Gbit/s"),
            Need("mtu", low=1400, high=1500, sweep="mtu: 1500"),
            Need("streams", low=1, high=1, sweep="streams: 1"),
            Need("congestion_control", words=(frozenset({"reno"}),), sweep="congestion_control: reno"),
        ),
        test=_loss,
    ),
    Claim(
        "terena2005.recovery",
        "time to recover from one loss is C·RTT²/(2·MSS), from 430 ms on a LAN to 3 h 51 min at 180 ms and 10 Gbit/s",
        "nothing that a dataset of throughputs holds; the table is compared with its formula",
        beyond="a cell's mean does not show one loss and the recovery from it; by the formula six of the seven "
        "published times are right as rounded, and Geneva–Chicago is not: 1 h 43 min, where 1 h 32 min was published",
        advice="`snakemake terena2005_measured` records the congestion window of one connection over single losses",
        rows=_recovery_rows(),
    ),
    Claim(
        "terena2005.mtu_fairness",
        "two Reno streams share 1 Gbit/s at 117 ms: MTU 1500 gets 50 Mbit/s, MTU 9000 gets 698",
        "nothing that a dataset holds",
        beyond="the MTU is one of a cell's whole path, and no dataset has the rates of two streams of a cell with "
        "different MTUs",
        advice="`snakemake terena2005_measured` lets two streams with routes of MTU 1500 and 9000 share a path",
    ),
    Claim(
        "terena2005.variants",
        "one flow, 9.5 Gbit/s, 264 ms: Reno 3.0, Westwood+ 4.1, BIC 5.0, FAST 7.3 Gbit/s",
        f"one stream, 1 Gbit/s or more, 150 ms or more: westwood over reno, and bic over westwood, are {MORE}; FAST is "
        "in no Linux kernel",
        needs=(
            Need(
                "congestion_control",
                words=tuple(frozenset({variant}) for variant in _VARIANTS),
                sweep="congestion_control: [reno, westwood, bic]",
            ),
            Need("rtt", low=150, sweep="rtt: 264 ms"),
            Need("bandwidth", low=1, sweep="bandwidth: 10 Gbit/s"),
            Need("streams", low=1, high=1, sweep="streams: 1"),
        ),
        test=_variants,
    ),
    Claim(
        "terena2005.disk",
        "disk-to-disk 500 to 536 MB/s where the network carries 7.5 Gbit/s: the servers are the bottleneck",
        "mean ratio of disk-to-disk to network, all else but the tool equal, on a path of 7.5 Gbit/s or more: "
        f"{about(0.55)}",
        needs=(
            Need("layer", words=LAYERS, sweep=LAYERS_SWEEP),
            Need("bandwidth", low=7.5, sweep="bandwidth: 10 Gbit/s"),
        ),
        test=ratio(
            "layer",
            about(0.55),
            "throughput disk-to-disk over that of the network",
            values=("network", "disk_to_disk"),
            room=None,
            choose=lambda rows: of_any_tool(rows[rows["bandwidth"] >= 7.5]),
        ),
    ),
)
