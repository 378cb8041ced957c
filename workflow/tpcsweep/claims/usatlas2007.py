# SPDX-License-Identifier: Apache-2.0
"""Claims of the load tests of a Tier 1 and its Tier 2s (2007): layers, streams and TCP buffers."""

from __future__ import annotations

import math
from math import inf

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import stats

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, needs, shown
from tpcsweep.claims.cells import CPU_BOUND, Cells
from tpcsweep.claims.effects import ABOUT, MORE, NO_CHANGE, Decision, Region, about, both, largest, share
from tpcsweep.claims.predicates import Test, compare, nothing_there, pair_rows, ratio, spans, together

BOTH_LAYERS = ("[network, disk_to_disk]", {"network"}, {"disk_to_disk"})
"""The need of claims that compare layers."""
_MANY_CRASHES = 0.5
_TUNED = Region(low=20 / ABOUT)
_TUNED_STREAM = about(1000 / 50)
_DISK = Region(high=0.5)


def _more_streams(cells: Cells) -> Finding:
    more = ratio("streams", MORE, "throughput at the most streams over that at the fewest")(cells)
    every = cells.every
    large = every["tcp_buffer"] == every["tcp_buffer"].max()
    buffers, streams = every["tcp_buffer"].max(), every["streams"][large].max()
    corner = large & (every["streams"] == streams)
    in_corner, elsewhere = every["failed"][corner], every["failed"][~corner]
    crashed = share(int(in_corner.sum()), len(in_corner))
    # More often than elsewhere, and at least half of the time: Fisher's exact test, one-sided.
    counts = np.array([[part.sum(), (~part).sum()] for part in (in_corner, elsewhere)])
    more_often = stats.fisher_exact(counts, alternative="greater").pvalue < 0.05
    crashes: Decision = None
    if crashed.high < _MANY_CRASHES:
        crashes = False
    elif more_often and crashed.value >= _MANY_CRASHES:
        crashes = True
    where = f"{shown('streams', streams)} streams with buffers of {shown('tcp_buffer', buffers)}"
    reason = (
        f"{more.reason}; {in_corner.sum()} of {len(in_corner)} cells fail at {where} "
        f"({crashed.low:.0%} to {crashed.high:.0%}), {elsewhere.sum()} of {len(elsewhere)} elsewhere"
    )
    if cells.data == "simulated":
        crashes, reason = None, f"{reason}: nothing in a simulation can crash, so that is no evidence"
    advice = f"{more.advice}; sweep more streams with larger buffers until they fail, and repetitions: 6"
    rows = ({"where": where, "failed": in_corner.sum(), "cells": len(in_corner)}, *more.rows)
    return Finding(both([more.decision, crashes]), reason, more.effect, rows, advice)


def _tuned(region: Region, cells_with: str = "") -> Test:
    """Give the test that the most that a twenty-fold larger TCP buffer brings lies in a region of ratios."""

    def test(cells: Cells) -> Finding:
        rows = cells.trusted.query(cells_with) if cells_with else cells.trusted
        pairs = cells.pairs(rows, "tcp_buffer").kept
        pairs = pairs[pairs["error"].notna() & (pairs["to"] >= 20 * pairs["from"])]
        logarithm = largest([math.log(ratio) for ratio in pairs["ratio"]], pairs["error"])
        if logarithm is None:
            return nothing_there("on both sides of a twenty-fold larger TCP buffer")
        interval = logarithm.map(math.exp)
        subject = f"the best of {len(pairs)} pairs that differ only in tcp_buffer, {spans(pairs)}"
        effect = Effect("throughput with the largest buffer over that with the smallest, best pair", interval)
        return together([(subject, interval, region, pair_rows(pairs))], effect)

    return test


def _bottleneck_buffers(cells: Cells) -> Finding:
    pairs = cells.pairs(cells.trusted, "tcp_buffer", speaks=_bound)
    quantity = "throughput with the largest buffer over that with the smallest, at a bottleneck"
    return compare(pairs, "tcp_buffer", NO_CHANGE, quantity)


def _bound(pairs: pd.DataFrame) -> pd.Series:
    """Which pairs have a bottleneck with the smaller buffer already: a full path, or servers without CPU left."""
    return pairs["before_full"] | (pairs["cpu"] >= CPU_BOUND)


_PAPER = "load tests of 2007"

CLAIMS = (
    Claim(
        "usatlas2007.more_streams",
        "more streams, more throughput, but too many with large buffers crash",
        f"mean ratio of the most to the fewest streams, all else equal, where not both fill the path: {MORE}; and of "
        "the cells with the most streams and the largest buffers half or more fail, more often than others do",
        needs(
            KNOWN_PATH, streams=("[1, 2, 4, 8, 12]", 3, (12, inf)), tcp_buffer=("[4 MB, 8 MB]", 2, (8e6, inf))
        ),
        test=_more_streams,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.tuned_buffers",
        "tuning took some hosts from 5 to 100 MB/s",
        f"the largest ratio of a TCP buffer to one twenty times smaller or more, all else equal, is {_TUNED}",
        needs(
            tcp_buffer=("[64 KiB, 16 MiB]", 2),
            rtt=("[20 ms, 80 ms]", (1, inf)),
            bandwidth=("1 Gbit/s", (0.8, inf)),
        ),
        test=_tuned(_TUNED),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.disk_bound",
        "one-stream iperf 66 MB/s against 2 MB/s disk-to-disk",
        "mean ratio of disk-to-disk to network with one stream, all else but the tool equal: "
        f"{_DISK} (published: a thirtieth)",
        needs(layer=BOTH_LAYERS, streams=("1", (1, 1))),
        test=ratio(
            "layer",
            _DISK,
            "throughput disk-to-disk over that of the network, one stream",
            values=("network", "disk_to_disk"),
            room=None,
            cells_with="streams == 1",
            any_tool=True,
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.disk_buffers",
        "TCP buffers do not matter disk to disk",
        "mean ratio of the largest to the smallest TCP buffer of 1 MB or more, disk to disk, all else equal: "
        f"{NO_CHANGE}",
        needs(layer=("[disk_to_disk]", {"disk_to_disk"}), tcp_buffer=("[4 MB, 8 MB]", (1e6, inf, 2))),
        test=ratio(
            "tcp_buffer",
            NO_CHANGE,
            "throughput disk to disk with the largest buffer over that with the smallest",
            room=None,
            cells_with="layer == 'disk_to_disk' and tcp_buffer >= 1e6",
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.twelve_streams",
        "disk to disk, 12 streams help",
        f"mean ratio of 12 streams to one, disk to disk, all else equal: {MORE}",
        needs(layer=("[disk_to_disk]", {"disk_to_disk"}), streams=("[1, 12]", (1, 1), (12, 12))),
        test=ratio(
            "streams",
            MORE,
            "throughput disk to disk of 12 streams over that of one",
            values=(1, 12),
            room=None,
            cells_with="layer == 'disk_to_disk'",
        ),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.tuned_stream",
        "tuning took one stream from 50 Mbit/s to 1 Gbit/s",
        "the largest ratio of a TCP buffer to one twenty times smaller or more, of one stream without files, all else "
        f"equal, is {_TUNED_STREAM}",
        needs(
            layer=("[network]", {"network"}),
            streams=("1", (1, 1)),
            tcp_buffer=("[128 KiB, 16 MiB]", 2),
            bandwidth=("1 Gbit/s", (0.8, inf)),
        ),
        test=_tuned(_TUNED_STREAM, "layer == 'network' and streams == 1"),
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.bottleneck_buffers",
        "where there is a bottleneck, TCP buffers have no effect",
        "mean ratio of the largest to the smallest TCP buffer, all else equal, where the smallest already fills "
        f"the path, or either uses 90 % of the servers' cores: {NO_CHANGE}",
        needs(KNOWN_PATH, tcp_buffer=("[4 MB, 8 MB]", 2)),
        test=_bottleneck_buffers,
        source=f"{_PAPER}, text",
    ),
    Claim(
        "usatlas2007.one_rate",
        "6.42 MB/s",
        "nothing that a dataset holds",
        beyond="it is a rate of one pair of hosts, whose path, buffers and disks are in no dataset",
        advice="none: what would have to be measured is not known",
        source=f"{_PAPER}, text",
    ),
)
