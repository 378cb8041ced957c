# SPDX-License-Identifier: Apache-2.0
"""Claims about TCP on long fat paths (TERENA 2005): one flow, loss, recovery, MTU and variants."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import inf

from tpcsweep.claims.base import Claim, Effect, Finding, needs
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import FEWEST_PAIRS, MORE, Region, about, largest, mean_ratio
from tpcsweep.claims.predicates import cell_rows, nothing_there, pair_rows, ratio, together
from tpcsweep.claims.usatlas2007 import BOTH_LAYERS
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


def _loss(cells: Cells) -> Finding:
    rows = cells.trusted.query(
        f"{_one_flow(cells)} and congestion_control == 'reno' and 1400 <= mtu <= 1500 and 0.5e-4 <= loss <= 2e-4 "
        "and 0.5 <= bandwidth <= 2"
    )
    parts = []
    for where, rtts, region in (
        ("1 ms or less", "rtt <= 1", _LAN),
        ("about 120 ms", "100 <= rtt <= 140", _WAN),
    ):
        points = cells.points(rows.query(rtts))
        used = largest(points["throughput"] / points["bandwidth"], points["error"] / points["bandwidth"], 2)
        if used is None:
            return nothing_there(f"with one Reno stream, a loss of about 0.01 %, an MTU of 1500 and {where}")
        parts.append((f"utilisation at {where}", used, region, cell_rows(points, cells)))
    return together(parts, Effect(*parts[-1][:2]))


def _variants(cells: Cells) -> Finding:
    rows = cells.trusted.query(f"{_one_flow(cells)} and rtt >= 150 and bandwidth >= 1")
    parts = []
    steps = list(itertools.pairwise(_VARIANTS))
    for slower, faster in steps:
        pairs = cells.pairs(rows, "congestion_control", (slower, faster)).kept
        interval = mean_ratio(pairs["ratio"], pairs["error"], len(steps))
        if interval is None:
            pairs_there = (
                f"{len(pairs)} trustworthy pairs of one flow at 150 ms or more have {slower} and {faster}"
            )
            reason = f"{pairs_there}; {FEWEST_PAIRS} are needed"
            advice = "sweep repetitions: 3, with streams: 1"
            return Finding(None, reason, rows=pair_rows(pairs), advice=advice)
        parts.append((f"{faster} over {slower}", interval, MORE, pair_rows(pairs)))
    effect = Effect(f"throughput of {_VARIANTS[-1]} over that of {_VARIANTS[-2]}", parts[-1][1])
    finding = together(parts, effect)
    return replace(finding, reason=f"{finding.reason}; FAST is not among them")


def _one_flow(cells: Cells) -> str:
    return "streams == 1 and tcp_streams == 1" if "tcp_streams" in cells.trusted else "streams == 1"


_PAPER = "TERENA 2005"
_MEASURE = "`snakemake -s studies/terena2005/Snakefile measured`"

CLAIMS = (
    Claim(
        "terena2005.loss",
        "single stream, 1 Gbit/s, loss of 0.01 %: utilisation is 99 % on a LAN (0.04 ms), 1.2 % on a WAN (120 ms)",
        "one Reno stream, MTU 1500, 0.5 to 2 Gbit/s, loss of 0.005 to 0.02 %: utilisation is "
        f"{_LAN} at 1 ms or less, and {_WAN} at 100 to 140 ms",
        needs(
            loss=("0.01 %", (0.5e-4, 2e-4)),
            rtt=("[0, 120 ms]", (0, 1), (100, 140)),
            bandwidth=("1 Gbit/s", (0.5, 2)),
            mtu=("1500", (1400, 1500)),
            streams=("1", (1, 1)),
            congestion_control=("reno", {"reno"}),
        ),
        test=_loss,
        source=f"{_PAPER}, figure on loss",
    ),
    Claim(
        "terena2005.recovery",
        "time to recover from one loss is C·RTT²/(2·MSS), from 430 ms on a LAN to 3 h 51 min at 180 ms and 10 Gbit/s",
        "nothing that a dataset of throughputs holds; the table is compared with its formula",
        beyond="a cell's mean does not show one loss and the recovery from it; by the formula six of the seven "
        "published times are right as rounded, and Geneva–Chicago is not: 1 h 43 min, where 1 h 32 min was published",
        advice=f"{_MEASURE} records the congestion window of one connection over single losses",
        rows=tuple(
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
        ),
        source=f"{_PAPER}, table of recovery times",
    ),
    Claim(
        "terena2005.mtu_fairness",
        "two Reno streams share 1 Gbit/s at 117 ms: MTU 1500 gets 50 Mbit/s, MTU 9000 gets 698",
        "nothing that a dataset holds",
        beyond="the MTU is one of a cell's whole path, and no dataset has the rates of two streams of a cell with "
        "different MTUs",
        advice=f"{_MEASURE} lets two streams with routes of MTU 1500 and 9000 share a path",
        source=f"{_PAPER}, figure of two MTUs",
    ),
    Claim(
        "terena2005.variants",
        "one flow, 9.5 Gbit/s, 264 ms: Reno 3.0, Westwood+ 4.1, BIC 5.0, FAST 7.3 Gbit/s",
        f"one stream, 1 Gbit/s or more, 150 ms or more: westwood over reno, and bic over westwood, are {MORE}; FAST is "
        "in no Linux kernel",
        needs(
            congestion_control=("[reno, westwood, bic]", *({variant} for variant in _VARIANTS)),
            rtt=("264 ms", (150, inf)),
            bandwidth=("10 Gbit/s", (1, inf)),
            streams=("1", (1, 1)),
        ),
        test=_variants,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "terena2005.disk",
        "disk-to-disk 500 to 536 MB/s where the network carries 7.5 Gbit/s: the servers are the bottleneck",
        "mean ratio of disk-to-disk to network, all else but the tool equal, on a path of 7.5 Gbit/s or more: "
        f"{about(0.55)}",
        needs(layer=BOTH_LAYERS, bandwidth=("10 Gbit/s", (7.5, inf))),
        test=ratio(
            "layer",
            about(0.55),
            "throughput disk-to-disk over that of the network",
            values=("network", "disk_to_disk"),
            room=None,
            cells_with="bandwidth >= 7.5",
            any_tool=True,
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "terena2005.climb",
        "from 3 to 6 Gbit/s in 15 min",
        "nothing that a dataset of throughputs holds; the time is compared with the publication's own formula",
        beyond="a cell's mean does not show a climb; from half of 6 Gbit/s to all of it is what the formula of "
        "terena2005.recovery gives: 43.6 min at 250 ms and an MTU of 9000, and 15 min at 147 ms. Another misprint, "
        "another path, or another TCP than Reno",
        advice=f"{_MEASURE} records the congestion window of one connection",
        rows=tuple(
            {
                "rtt_ms": rtt,
                "mtu": mtu,
                "published_s": 15 * MINUTE,
                "by_formula_s": recovery_time(6, rtt, mtu),
            }
            for rtt, mtu in ((120, 1500), (120, 9000), (180, 1500), (180, 9000), (250, 9000), (264, 9000))
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "terena2005.records",
        "land speed records of TCP over intercontinental paths",
        "nothing that a dataset holds",
        beyond="a record is of one pair of hosts on one day, over a path that is no longer there",
        advice="none: neither path nor hosts are to be had",
        source=f"{_PAPER}, text",
    ),
)
