"""Claims of the load tests of a Tier 1 and its Tier 2s (2007): layers, streams and TCP buffers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import stats

from tpcsweep.claims.base import KNOWN_PATH, Claim, Effect, Finding, Need
from tpcsweep.claims.cells import Cells
from tpcsweep.claims.effects import ABOUT, MORE, Interval, Region, both, largest, share
from tpcsweep.claims.predicates import (
    MEASURE_MORE,
    compare,
    nothing_there,
    pair_rows,
    ratio,
    said,
    shown,
    spans,
    with_room,
)

LAYERS = (frozenset({"network"}), frozenset({"disk_to_disk"}))
LAYERS_SWEEP = "layer: [network, disk_to_disk]"
_CRASHES = Region(low=0.5)
_TUNED = Region(low=20 / ABOUT)
_DISK = Region(high=0.5)


def _more_streams(cells: Cells) -> Finding:
    what = "throughput at the most streams over that at the fewest"
    more = compare(
        cells.pairs(cells.trusted, "streams", speaks=with_room("somewhere")),
        "streams",
        MORE,
        what,
        "somewhere",
    )
    every = cells.every
    large = every["tcp_buffer"] == every["tcp_buffer"].max()
    buffers, streams = every["tcp_buffer"].max(), every["streams"][large].max()
    corner = large & (every["streams"] == streams)
    at, other = every[corner]["failed"], every[~corner]["failed"]
    crashed = share(int(at.sum()), len(at))
    # More often than elsewhere, and at least half of the time: Fisher's exact test, one-sided.
    counts = [[int(part.sum()), int((~part).sum())] for part in (at, other)]
    rarer = float(stats.fisher_exact(np.array(counts), alternative="greater").pvalue) < 0.05
    crashes = (
        True if rarer and crashed.value >= _CRASHES.low else False if crashed.high < _CRASHES.low else None
    )
    where = f"{shown('streams', streams)} streams with buffers of {shown('tcp_buffer', buffers)}"
    reason = (
        f"{more.reason}; {int(at.sum())} of {len(at)} cells fail at {where} "
        f"({crashed.low:.0%} to {crashed.high:.0%}), {int(other.sum())} of {len(other)} elsewhere"
    )
    if cells.data == "simulated":
        crashes, reason = None, f"{reason}: nothing in a simulation can crash, so that is no evidence"
    advice = f"{more.advice}; sweep more streams with larger buffers until they fail, and repetitions: 6"
    rows = ({"where": where, "failed": int(at.sum()), "cells": len(at)}, *more.rows)
    return Finding(both([more.decision, crashes]), reason, more.effect, rows, advice)


def _tuned_buffers(cells: Cells) -> Finding:
    pairs = cells.pairs(cells.trusted, "tcp_buffer").kept
    pairs = pairs[pairs["error"].notna() & (pairs["to"] >= 20 * pairs["from"])]
    if pairs.empty:
        return nothing_there("on both sides of a twenty-fold larger TCP buffer")
    found = largest([math.log(ratio) for ratio in pairs["ratio"]], pairs["error"])
    interval = found and Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))
    if interval is None:
        return nothing_there("on both sides of a twenty-fold larger TCP buffer")
    reason = f"the best of {len(pairs)} pairs that differ only in tcp_buffer, {spans(pairs)}: {said(interval, _TUNED)}"
    effect = Effect("throughput with the largest buffer over that with the smallest, best pair", interval)
    return Finding(_TUNED.decide(interval), reason, effect, pair_rows(pairs), MEASURE_MORE)


def _one_stream(rows: pd.DataFrame) -> pd.DataFrame:
    return of_any_tool(rows[rows["streams"] == 1])


def of_any_tool(rows: pd.DataFrame) -> pd.DataFrame:
    """Give rows as if one tool had measured them: the network and disks have none in common."""
    return rows.assign(tool="any") if "tool" in rows else rows


CLAIMS = (
    Claim(
        "usatlas2007.more_streams",
        "more streams, more throughput, but too many with large buffers crash",
        f"mean ratio of the most to the fewest streams, all else equal, where not both fill the path: {MORE}; and of "
        "the cells with the most streams and the largest buffers half or more fail, more often than others do",
        needs=(
            KNOWN_PATH,
            Need("streams", count=3, sweep="streams: [1, 2, 4, 8, 12]"),
            Need("streams", low=12, sweep="streams: [1, 2, 4, 8, 12]"),
            Need("tcp_buffer", count=2, sweep="tcp_buffer: [4 MB, 8 MB]"),
            Need("tcp_buffer", low=8e6, sweep="tcp_buffer: [4 MB, 8 MB]"),
        ),
        test=_more_streams,
    ),
    Claim(
        "usatlas2007.tuned_buffers",
        "tuning took some hosts from 5 to 100 MB/s",
        f"the largest ratio of a TCP buffer to one twenty times smaller or more, all else equal, is {_TUNED}",
        needs=(
            Need("tcp_buffer", count=2, sweep="tcp_buffer: [64 KiB, 16 MiB]"),
            Need("rtt", low=1, sweep="rtt: [20 ms, 80 ms]"),
            Need("bandwidth", low=0.8, sweep="bandwidth: 1 Gbit/s"),
        ),
        test=_tuned_buffers,
    ),
    Claim(
        "usatlas2007.disk_bound",
        "one-stream iperf 66 MB/s against 2 MB/s disk-to-disk",
        "mean ratio of disk-to-disk to network with one stream, all else but the tool equal: "
        f"{_DISK} (published: a thirtieth)",
        needs=(
            Need("layer", words=LAYERS, sweep=LAYERS_SWEEP),
            Need("streams", low=1, high=1, sweep="streams: 1"),
        ),
        test=ratio(
            "layer",
            _DISK,
            "throughput disk-to-disk over that of the network, one stream",
            values=("network", "disk_to_disk"),
            room=None,
            choose=_one_stream,
        ),
    ),
)
