# SPDX-License-Identifier: Apache-2.0
"""Claims of the load tests of a Tier 1 and its Tier 2s (2007): layers, streams and TCP buffers."""

from __future__ import annotations

import math
from math import inf

import numpy as np
from scipy import stats

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, needs, shown
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import ABOUT, MORE, Decision, Region, both, largest, share
from tpcsweep.claims.predicates import nothing_there, pair_rows, ratio, spans, together

BOTH_LAYERS = ("[network, disk_to_disk]", {"network"}, {"disk_to_disk"})
"""The need of claims that compare layers."""
_MANY_CRASHES = 0.5
_TUNED = Region(low=20 / ABOUT)
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


def _tuned_buffers(cells: Cells) -> Finding:
    pairs = cells.pairs(cells.trusted, "tcp_buffer").kept
    pairs = pairs[pairs["error"].notna() & (pairs["to"] >= 20 * pairs["from"])]
    logarithm = largest([math.log(ratio) for ratio in pairs["ratio"]], pairs["error"])
    if logarithm is None:
        return nothing_there("on both sides of a twenty-fold larger TCP buffer")
    interval = logarithm.map(math.exp)
    subject = f"the best of {len(pairs)} pairs that differ only in tcp_buffer, {spans(pairs)}"
    effect = Effect("throughput with the largest buffer over that with the smallest, best pair", interval)
    return together([(subject, interval, _TUNED, pair_rows(pairs))], effect)


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
        test=_tuned_buffers,
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
    ),
)
