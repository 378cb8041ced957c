# SPDX-License-Identifier: Apache-2.0
"""Rules that several kinds of testbeds check. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tpcsweep.configuration.checks import Rule
from tpcsweep.configuration.units import CORES, COUNT, RATE, RTT, Dimension, show
from tpcsweep.xrootd.servers import MOST_ORIGINS

PORTS = 28_232
"""Ports of an address for connections that it opens: net.ipv4.ip_local_port_range is 32768 to 60999."""


def at_most(name: str, limit: float, unit: Dimension, source: str = "") -> Rule:
    """A parameter has an upper limit in its base unit, which None does not reach; `source` follows it in messages."""

    def allowed(value: float | None) -> str | None:
        return None if value is None or value <= limit else f"at most {show(limit, unit)}{source}"

    return Rule((name,), allowed)


def enough_cores(least: float, why: str) -> Rule:
    """Each origin has at least so many cores, where there is a quota; `why` follows in messages."""

    def allowed(cores: float | None, origins: int) -> str | None:
        fewest = round(least * origins, 6)
        if cores is None or cores >= fewest:
            return None
        return f"at least {show(fewest, CORES)}, as each origin has its part of them, and {why}"

    return Rule(("cores", "origins"), allowed)


def one_of(name: str, values: Collection[object], allowed: str) -> Rule:
    """A parameter has one of a few values; `allowed` says in words which, and why."""
    return Rule((name,), lambda value: None if value in values else allowed)


def emulated(smallest_rtt: float, largest_bandwidth: float) -> list[Rule]:
    """Give the rules of testbeds that make their paths, with the smallest RTT above 0 in ms.

    The largest bandwidth, in Gbit/s, is that of paths with an RTT or a loss.
    """

    def rtt(value: float) -> str | None:
        if 0 < value < smallest_rtt:
            return f"0, or at least {show(smallest_rtt, RTT)}, the smallest that a path here can make"
        return None

    def bandwidth(value: float, rtt: float, loss: float) -> str | None:
        if value > largest_bandwidth and (rtt or loss):
            return f"at most {show(largest_bandwidth, RATE)}, what is carried here with an rtt or a loss"
        return None

    def queue_limit(packets: int | None, rtt: float) -> str | None:
        none_under_way = packets is not None and rtt == 0
        return "null with rtt 0 ms: it bounds packets under way, and none are" if none_under_way else None

    return [
        Rule(("rtt",), rtt),
        Rule(("bandwidth", "rtt", "loss"), bandwidth),
        Rule(("queue_limit", "rtt"), queue_limit),
    ]


def served() -> list[Rule]:
    """Give the rules of testbeds that run servers."""

    def tcp_streams(count: int, streams: int, origins: int) -> str | None:
        most = PORTS * origins // streams
        if count <= most:
            return None
        return f"at most {most}: each origin has {PORTS} ports for the connections of all streams"

    return [
        at_most("origins", MOST_ORIGINS, COUNT, ", as many as one redirector can have"),
        Rule(("tcp_streams", "streams", "origins"), tcp_streams),
    ]
