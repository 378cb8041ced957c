"""The explanations: what each predicts for both questions, what would tell it apart, and what was seen. Pure.

What is predicted for the published set-up is arithmetic, with the figures that are published: 120 ms, up to 500
streams, about 1 Gbit/s. What is expected of an experiment is a range of exponents, of streams and of RTT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.claims.effects import Interval, Region
from tpcsweep.models.ranges import RANGE
from tpcsweep.paths.plan import held
from tpcsweep.studies.open_questions.arithmetic import Setup, Span
from tpcsweep.studies.open_questions.exponents import corners, exponent
from tpcsweep.studies.open_questions.predictions import first

FLAT = Region(-0.3, 0.3)
INVERSE = Region(-1.3, -0.7)
AS_STREAMS = Region(0.7, 1.3)
BETWEEN = Region(-1.3, 0.3)

RTT = 0.12
"""s, of question (1)."""
RATE = 1e9
"""bit/s, of question (1)."""
STREAMS = (10, 500)
PAGE = 4096

MEASURE = "snakemake open_questions_measured"


@dataclass(frozen=True)
class Explanation:
    """One of the things that may be behind both open questions."""

    name: str
    title: str
    first: str
    """What it predicts for question (1)."""
    second: str
    """What it predicts for question (2)."""
    apart: str
    """An observable that tells it apart, with the command."""
    streams: Region
    """Exponents of streams at the longest RTT that experiments with it are to have."""
    rtt: Region
    """Exponents of RTT."""


def _caps(*, offloads: bool) -> str:
    """What the limit leaves at 120 ms with packets of 9000 and of 1500 bytes, for people."""
    caps = (Setup(1000 * RTT, mtu, offloads).cap(STREAMS[1]).low for mtu in (9000, 1500))
    return " or ".join(f"{cap:.2g}" for cap in caps)


def _crossover(rtt: float) -> str:
    low, high = Setup(rtt).crossover
    return f"{low:.0f} to {high:.0f}"


def _window(streams: int) -> float:
    """KiB of a window that make the published rate of so many streams."""
    return RATE * RTT / 8 / streams / 1024


def explanations() -> tuple[Explanation, ...]:
    """All of them, netem's limit first."""
    memory = RATE * RTT / 8
    ranges = STREAMS[1] * RANGE * 8 / (2 * RTT) / 1e9
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


def table(seen: pd.DataFrame, found: Sequence[Explanation] | None = None) -> pd.DataFrame:
    """A row for each explanation: what it predicts, what tells it apart, what was seen; `seen`: see `observed.read`."""
    return pd.DataFrame(
        {
            "explanation": one.title,
            "predicts (1): 1 Gbit/s whatever the streams": one.first,
            "predicts (2): no 1/RTT": one.second,
            "what tells it apart": one.apart,
            "seen": verdict(one, seen),
        }
        for one in (found if found is not None else explanations())
    )


def verdict(one: Explanation, seen: pd.DataFrame) -> str:
    """What experiments with an explanation's knob showed, of each source: exponents, and whether as expected.

    With a limit only of cells whose packets are as small as they get; the others have no exponent of their own.
    """
    said = []
    for source, rows in seen[seen["explanation"] == one.name].groupby("source"):
        settled = rows[rows["settled"].astype(bool)]
        parts = [_inside(rows)]
        if len(settled):
            along_streams, along_rtt = corners(settled)
            parts.append(_compare(exponent(along_streams, "streams"), one.streams, "streams"))
            parts.append(_compare(exponent(along_rtt, "rtt"), one.rtt, "RTT"))
        prefix = "SIMULATED, " if rows["simulated"].any() else ""
        said.append(f"{prefix}{source}: {'; '.join(filter(None, parts)) or 'too few cells'}")
    return ". ".join(said) or f"not measured: {MEASURE}"


def _inside(rows: pd.DataFrame) -> str:
    """How many cells have what the arithmetic gives, of those for which there is arithmetic."""
    found = limits(rows)
    return f"{found['inside'].sum()} of {len(found)} cells as by arithmetic" if len(found) else ""


def _compare(found: Span | None, wanted: Region, axis: str) -> str:
    if found is None:
        return ""
    middle = (found.low + found.high) / 2
    decided = wanted.decide(Interval(middle, found.low, found.high))
    words = {True: "as expected", False: "not as expected", None: "across an end of what is expected"}[
        decided
    ]
    return (
        f"{axis} to the {middle:.2f} ± {found.high - middle:.2f}, {words} ({wanted.low:g} to {wanted.high:g})"
    )


def limits(seen: pd.DataFrame) -> pd.DataFrame:
    """The rows with a packet limit beside the arithmetic, and whether both overlap within two standard errors.

    of_law: throughput over limit × packet / delay with the packets that were seen, where they were.
    """
    rows = seen[np.isfinite(seen["limit"].astype(float))].copy()
    rows["inside"] = (rows["throughput"] + 2 * rows["error"] >= rows["least"]) & (
        rows["throughput"] - 2 * rows["error"] <= rows["most"]
    )
    packet = rows["packet"].astype(float)
    rows["of_law"] = rows["throughput"] / held(rows["limit"], packet, rows["delay"])
    names = ["source", "limit", "mtu", "offloads", "rtt", "delay", "streams"]
    shown = [*names, "throughput", "error", "least", "most", "inside", "packet", "of_law", "drops"]
    return rows.sort_values(names)[shown].reset_index(drop=True)
