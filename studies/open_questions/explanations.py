# SPDX-License-Identifier: Apache-2.0
"""Explanations of both questions: predictions, distinguishing observables, and observations.

All functions are pure. Predictions for the published set-up are arithmetic with the published figures: 120 ms, up to
500 streams, about 1 Gbit/s. For an experiment, they are ranges of the exponents of streams and of RTT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from arithmetic import RTT, Setup, Span, first
from tpcsweep.analysis.models.formulas import RANGE
from tpcsweep.common.numbers import plain, short
from tpcsweep.data.effects import Interval, Region
from tpcsweep.deploying.paths.network_path import queue_rate

FLAT = Region(-0.3, 0.3)
INVERSE = Region(-1.3, -0.7)
AS_STREAMS = Region(0.7, 1.3)
BETWEEN = Region(-1.3, 0.3)

RATE = 1e9  # bit/s, of question (1)
STREAMS = (10, 500)
PAGE = 4096

MEASURE = "snakemake -s studies/open_questions/Snakefile measured"


@dataclass(frozen=True)
class Explanation:
    """Possible cause of both open questions."""

    name: str
    title: str
    first: str  # prediction for question (1)
    second: str  # prediction for question (2)
    apart: str
    """Observable that distinguishes it, with the command."""
    streams: Region
    """Expected exponents of streams at the longest RTT, for experiments with it."""
    rtt: Region  # expected exponents of RTT


def _caps(*, offloads: bool) -> str:
    """Return the caps of the limit at 120 ms with MTU 9000 and 1500, as text."""
    caps = (Setup(RTT, mtu, offloads).cap(STREAMS[1]).low for mtu in (9000, 1500))
    return " or ".join(short(cap, 2) for cap in caps)


def _crossover(rtt: float) -> str:
    low, high = Setup(rtt).crossover
    return f"{low:.0f} to {high:.0f}"


def _window(streams: int) -> float:
    """Return the window in KiB with which so many streams reach the published rate."""
    return RATE * RTT / 1000 / 8 / streams / 1024


def explanations() -> tuple[Explanation, ...]:
    """Return all explanations, netem's limit first."""
    memory = RATE * RTT / 1000 / 8
    ranges = STREAMS[1] * RANGE * 8 / (2 * RTT / 1000) / 1e9
    few, many = STREAMS
    right = first()["about 1 Gbit/s"]
    return (
        Explanation(
            "queue_limit",
            "netem's limit of 1000 packets",
            f"yes in {right.sum()} of {len(right)} possible set-ups: {_caps(offloads=True)} Gbit/s with "
            f"MTU 9000 or 1500 and offloads, {_caps(offloads=False)} without, for one interface with the whole delay, "
            f"twice that with half of it on each side; the same from {_crossover(120)} streams on",
            "yes: flat where something else binds, 1/RTT where the limit does, and steeper in between at fixed "
            f"streams, as packets shrink to two segments: from {_crossover(10)} streams on at 10 ms, "
            f"{_crossover(60)} at 60 ms",
            "tc -s qdisc show dev IFACE: limit 1000, backlog near 1000p, drops that grow; gone with a larger limit",
            streams=FLAT,
            rtt=INVERSE,
        ),
        Explanation(
            "window",
            "window maxima (tcp_rmem, tcp_wmem, rmem_max)",
            f"no: goes with the streams; about 1 Gbit/s needs windows of {_window(few):.0f} KiB with {few} streams "
            f"and of {_window(many):.0f} KiB with {many}",
            "no: 1/RTT exactly",
            "ss -tin: rwnd_limited or sndbuf_limited most of the time; sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem",
            streams=AS_STREAMS,
            rtt=INVERSE,
        ),
        Explanation(
            "tcp_mem",
            "TCP memory pressure (tcp_mem, or a pod's memory limit)",
            f"yes, if all connections together may hold {memory / 2**20:.0f} MiB ({memory / PAGE:.0f} pages); the "
            "kernel's own tcp_mem is a share of the memory, of which the hosts had 2 TB",
            "no: 1/RTT where it binds",
            "nstat -az TcpExtTCPMemoryPressures TcpExtPruneCalled; /proc/net/sockstat; memory.events of a pod's cgroup",
            streams=FLAT,
            rtt=INVERSE,
        ),
        Explanation(
            "ranges",
            "serial ranges of 16 MiB",
            f"no: goes with the streams; {many} streams of one range every two RTTs make {ranges:.0f} Gbit/s; and a "
            "transfer with one connection, as published, asks for no ranges",
            "yes, between none and 1/RTT: a part of each range's time does not depend on RTT",
            "the source's XRootD log: one GET for every 16777216 bytes; another number of connections a transfer",
            streams=AS_STREAMS,
            rtt=BETWEEN,
        ),
        Explanation(
            "policer",
            "a hidden policer or shaper",
            "yes, of about 1 Gbit/s",
            "no, flat: what passes 1 Gbit/s at another RTT on the same hosts passes no such policer",
            "the same transfers at 0.1 ms; UDP at 2 Gbit/s (iperf3 -u -b 2G); tc -s filter show; the switch's counters",
            streams=FLAT,
            rtt=FLAT,
        ),
        Explanation(
            "loss",
            "random loss",
            "no: goes with the streams",
            "yes with cubic and little loss (RTT^-0.25, RFC 9438), else 1/RTT",
            "nstat: TcpRetransSegs over TcpOutSegs, and no queue that drops; ping -f -c 10000",
            streams=AS_STREAMS,
            rtt=BETWEEN,
        ),
    )


def table(seen: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each explanation: predictions, distinguishing observable, and observations."""
    return pd.DataFrame(
        {
            "explanation": explanation.title,
            "predicts (1): 1 Gbit/s whatever the streams": explanation.first,
            "predicts (2): no 1/RTT": explanation.second,
            "what tells it apart": explanation.apart,
            "seen": verdict(explanation, seen),
        }
        for explanation in explanations()
    )


def verdict(explanation: Explanation, seen: pd.DataFrame) -> str:
    """Describe the exponents of each source's experiments with an explanation's knob, and the agreement.

    Exponents with a limit are those of cells whose packets have their smallest size.
    """
    said = []
    for source, rows in seen[seen["explanation"] == explanation.name].groupby("source"):
        settled = rows[rows["settled"].astype(bool)]
        limited = limits(rows)
        parts = (
            [f"{limited['inside'].sum()} of {len(limited)} cells as by arithmetic"] if len(limited) else []
        )
        if len(settled):
            along_streams, along_rtt = corners(settled)
            parts.append(_compare(exponent(along_streams, "streams"), explanation.streams, "streams"))
            parts.append(_compare(exponent(along_rtt, "rtt"), explanation.rtt, "RTT"))
        prefix = "SIMULATED, " if rows["simulated"].any() else ""
        said.append(f"{prefix}{source}: {'; '.join(filter(None, parts)) or 'too few cells'}")
    return ". ".join(said) or f"not measured: {MEASURE}"


def _compare(seen: Span | None, expected: Region, axis: str) -> str:
    if seen is None:
        return ""
    middle = (seen.low + seen.high) / 2
    words = {True: "as expected", False: "not as expected", None: "across an end of what is expected"}
    decided = words[expected.decide(Interval(middle, seen.low, seen.high))]
    ends = f"{plain(expected.low)} to {plain(expected.high)}"
    return f"{axis} to the {middle:.2f} ± {seen.high - middle:.2f}, {decided} ({ends})"


def exponent(rows: pd.DataFrame, axis: str) -> Span | None:
    """Return the exponent e of throughput ~ axis^e between the axis' ends, within two standard errors.

    All other parameters of the rows are equal. Fewer than two values return None.
    """
    levels = rows.groupby(axis).agg(
        throughput=("throughput", "mean"),
        error=("error", lambda errors: np.sqrt((errors**2).sum()) / len(errors)),
    )
    if len(levels) < 2:
        return None
    ends = levels.iloc[[0, -1]]
    wide = math.log(ends.index[1] / ends.index[0])
    middle = math.log(ends["throughput"].iloc[1] / ends["throughput"].iloc[0]) / wide
    error = math.hypot(*(ends["error"] / ends["throughput"])) / wide
    return Span(middle - 2 * error, middle + 2 * error)


def corners(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows along streams at the longest RTT, and along RTT at the most streams.

    All rows have one source and explanation. The setting with the most rows is used.
    """

    def reach(group: pd.DataFrame) -> tuple[int, int]:
        return min(group["streams"].nunique(), 2) * min(group["rtt"].nunique(), 2), len(group)

    alike = ["limit", "mtu", "offloads", "bandwidth"]
    rows = max((group for _, group in rows.groupby(alike, dropna=False)), key=reach)
    return rows[rows["rtt"] == rows["rtt"].max()], rows[rows["streams"] == rows["streams"].max()]


def limits(seen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a packet limit, with the arithmetic.

    Returns:
        Also `inside`, whether both overlap within two standard errors, and `of_law`, throughput over limit × packet /
            delay with the observed packets.
    """
    rows = seen[np.isfinite(seen["limit"].astype(float))].copy()
    rows["inside"] = (rows["throughput"] + 2 * rows["error"] >= rows["least"]) & (
        rows["throughput"] - 2 * rows["error"] <= rows["most"]
    )
    packet = rows["packet"].astype(float)
    rows["of_law"] = rows["throughput"] / queue_rate(rows["limit"], packet, rows["delay"])
    names = ["source", "limit", "mtu", "offloads", "rtt", "delay", "streams"]
    shown = [*names, "throughput", "error", "least", "most", "inside", "packet", "of_law", "drops"]
    return rows.sort_values(names)[shown].reset_index(drop=True)
