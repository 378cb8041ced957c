# SPDX-License-Identifier: Apache-2.0
"""Rules for sweeps that several kinds of testbeds use. Pure."""

from collections.abc import Collection

from tpcsweep.configuration.checks import Rule
from tpcsweep.configuration.problems import suggest
from tpcsweep.configuration.units import CORES, COUNT, RATE, RTT, Dimension, show
from tpcsweep.xrootd.servers import MOST_ORIGINS

PORTS = 28_232  # ephemeral ports of an address: net.ipv4.ip_local_port_range is 32768 to 60999


def at_most(name: str, limit: float, unit: Dimension, source: str = "") -> Rule:
    """Limit a parameter in its base unit; None is allowed. Messages end with `source`."""

    def allowed(value: float | None) -> str | None:
        return None if value is None or value <= limit else f"at most {show(limit, unit)}{source}"

    return Rule((name,), allowed)


def enough_cores(least: float, why: str) -> Rule:
    """Require a minimum of cores for each origin with a quota. Messages end with the reason `why`."""

    def allowed(cores: float | None, origins: int) -> str | None:
        fewest = round(least * origins, 6)
        if cores is None or cores >= fewest:
            return None
        return f"at least {show(fewest, CORES)}, as each origin gets an equal share, and {why}"

    return Rule(("cores", "origins"), allowed)


def one_of(name: str, values: Collection[object], allowed: str) -> Rule:
    """Restrict a parameter to a few values; `allowed` describes them and the reason."""
    return Rule((name,), lambda value: None if value in values else allowed)


def known(name: str, words: Collection[str], source: str = "") -> Rule:
    """Restrict a parameter to some words, and name the most similar one. Messages end with `source`."""
    return Rule((name,), lambda word: None if word in words else f"{suggest(word, words)}{source}")


def emulated(smallest_rtt: float, largest_bandwidth: float) -> list[Rule]:
    """Return the rules of testbeds that emulate paths, for an RTT above 0, ms, and with an RTT or a loss, Gbit/s."""

    def rtt(value: float) -> str | None:
        if 0 < value < smallest_rtt:
            return f"0, or at least {show(smallest_rtt, RTT)}, the smallest that a path here can make"
        return None

    def bandwidth(value: float, rtt: float, loss: float) -> str | None:
        if value > largest_bandwidth and (rtt or loss):
            return (
                f"at most {show(largest_bandwidth, RATE)}, the largest with an rtt or a loss on this machine"
            )
        return None

    def queue_limit(packets: int | None, rtt: float) -> str | None:
        none_under_way = packets is not None and rtt == 0
        return "null with rtt 0 ms, where no packets are under way" if none_under_way else None

    return [
        Rule(("rtt",), rtt),
        Rule(("bandwidth", "rtt", "loss"), bandwidth),
        Rule(("queue_limit", "rtt"), queue_limit),
    ]


def served() -> list[Rule]:
    """Return the rules of testbeds that run servers."""

    def tcp_streams(count: int, streams: int, origins: int) -> str | None:
        most = PORTS * origins // streams
        if count <= most:
            return None
        return f"at most {most}: each origin has {PORTS} ports for the connections of all streams"

    return [
        at_most("origins", MOST_ORIGINS, COUNT, ", as many as one redirector can have"),
        Rule(("tcp_streams", "streams", "origins"), tcp_streams),
    ]
