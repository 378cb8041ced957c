# SPDX-License-Identifier: Apache-2.0
"""Is the path between the pods what was asked for? Measured by their agents before any cell.

The rate is looked at with TCP, which pods may use without a privilege. Only what arrived while more was under way than
an empty path holds is held against a path, by Little's law: see docs/kubernetes.md.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.paths import PathError, Rtt
from tpcsweep.paths.verify import (
    BANDWIDTH_TOLERANCE,
    CALM_LOOKS,
    PATIENCE,
    allowed_rtt,
    calm_rtt,
    complaint_of_rate,
    complaints_of_rtt,
    wire_bytes,
)
from tpcsweep.testbeds.kubernetes.pod.places import beside
from tpcsweep.testbeds.kubernetes.session import Session
from tpcsweep.variables import BYTES, GBIT
from tpcsweep.xrootd.servers import Server

COUNT = 17
CONNECTIONS = (4, 32)
"""Of each source, at least and at most."""
WARM_UP = (0.3, 10)
"""Seconds, or RTTs where that is longer: slow start must be over."""
WINDOW = 0.1
"""Seconds."""
WINDOWS = 10
"""In a look."""
ENOUGH = 5
"""Windows in which the path was full, for its rate to be known."""
LOOKS = 3
"""Looks for so many windows, before the rate is unknown."""
LATE = 0.03
"""Seconds between two looks of an agent, at most: whether a path was full in between is not known."""
HELD_BACK = 2
"""Segments of a connection that a receiver may not have acknowledged though nothing follows (RFC 9293, 3.8.6.3)."""
WINDOW_SHARE = 0.5
"""Of a TCP buffer that is a window; the kernel counts its own bookkeeping too (ip-sysctl, tcp_adv_win_scale)."""
EMPTY_SECONDS = 5.0
"""A path that is not empty after so long is somebody else's too, and is looked at as it is."""
DIRECTIONS = ("source to destination", "destination to source")


Ends = tuple[Server, Server]
"""A source and a destination origin."""


class Flow(NamedTuple):
    """What both ends of a pair saw while its source filled the path; times in s of one clock, rising."""

    looks: Sequence[tuple[float, int]]
    """At the source: segments under way."""
    counts: Sequence[tuple[float, int, int]]
    """At the destination: bytes and packets received."""
    connections: int
    mss: int
    """Bytes of payload in a segment."""
    header: int
    """Bytes around it."""
    interface: str = ""
    """Where its destination receives: pairs that share it have the same counts. Empty: it shares it with none."""


class Window(NamedTuple):
    """A stretch of time: Gbit/s that arrived in it, and whether the path was full all the time."""

    rate: float
    full: bool


@dataclass(frozen=True)
class Rate:
    """What arrived in Gbit/s; the path's own where it is `known`, else the path has that or more."""

    found: float
    known: bool
    windows: int
    full: int
    """Windows in which the path was full."""


@dataclass(frozen=True)
class Measured:
    """A path as found: RTT in ms, path MTU in bytes, rates from source to destination and back."""

    rtt: Rtt
    mtu: int
    near_to_far: Rate
    far_to_near: Rate
    attempts: int
    slow: bool = False
    """Whether a rate is known to be below what was asked, and nothing else is wrong."""

    @property
    def rates(self) -> tuple[Rate, Rate]:
        return self.near_to_far, self.far_to_near

    @property
    def bandwidth(self) -> float | None:
        """The smaller rate of both directions in Gbit/s, as far as they are known; None where neither is."""
        return min((rate.found for rate in self.rates if rate.known), default=None)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "mtu"}


def verify(session: Session, wanted: DeploymentParameters, ends: list[Ends], *, strict: bool) -> Measured:
    """Measure the path and refuse it if it is not what was asked for, by CALM_LOOKS calm looks or after PATIENCE.

    A path that is too slow and nothing else is refused only where that is `strict`.

    Raises:
        PathError: What was asked and what was found.
        SessionError: Agents do not answer.
    """
    give_up = time.monotonic() + PATIENCE
    calm = 0
    with probed(session, ends):
        for attempt in itertools.count(1):
            measured = _measure(session, wanted, ends, attempt)
            wrong, slow = complaints(wanted, measured), shortfalls(wanted, measured)
            if not (wrong or slow):
                return measured
            calm += calm_rtt(wanted.rtt, measured.rtt)
            if calm == CALM_LOOKS or time.monotonic() > give_up:
                break
    if wrong or strict:
        raise PathError(
            f"the path is not what was asked for, measured {attempt} times, {calm} of them on calm "
            f"machines: {'; '.join(wrong + slow)}"
        )
    return replace(measured, slow=True)


@contextlib.contextmanager
def probed(session: Session, ends: list[Ends]) -> Iterator[None]:
    """Have origins look at each other's paths for the length of a `with`; before and after it nobody can load them.

    Where that ends by an error, the pods go with all that they have open.
    """
    names = [server.name for pair in ends for server in pair]
    session.tell(names, "open_probes", word=secrets.token_hex(16))
    yield
    session.tell(names, "close_probes")


def complaints(wanted: DeploymentParameters, measured: Measured) -> list[str]:
    """What no path may be, with both figures: of another RTT or MTU, or too fast; empty where it is none. Pure."""
    wrong = complaints_of_rtt(wanted.rtt, measured.rtt)
    if measured.mtu != wanted.mtu:
        wrong.append(f"mtu asked {wanted.mtu}, found {measured.mtu}")
    most = wanted.bandwidth * (1 + BANDWIDTH_TOLERANCE[1])
    return wrong + _off(wanted, measured, lambda rate: rate.found > most)


def shortfalls(wanted: DeploymentParameters, measured: Measured) -> list[str]:
    """Directions that are known to have less than was asked, with both figures. Pure.

    A queue_limit may keep the rate down by as much as it likes.
    """
    least = wanted.bandwidth * (1 + BANDWIDTH_TOLERANCE[0])
    if wanted.queue_limit is not None:
        return []
    return _off(wanted, measured, lambda rate: rate.known and rate.found < least)


def connections(wanted: DeploymentParameters, sources: int) -> int:
    """How many each source opens: enough for their windows to hold twice what the path does, by Little's law. Pure."""
    fewest, most = CONNECTIONS
    needed = 2 * _held(wanted) / sources / (WINDOW_SHARE * wanted.tcp_buffer)
    return max(fewest, min(most, math.ceil(needed)))


def fillable(wanted: DeploymentParameters, sources: int) -> bool:
    """Whether the windows of all these connections hold what the path does: else they bound the rate. Pure."""
    held = sources * connections(wanted, sources) * WINDOW_SHARE * wanted.tcp_buffer
    return held > _held(wanted)


def windows(flows: Sequence[Flow], rtt: float, warm_up: float) -> list[Window]:
    """The windows that all flows have in common. Pure.

    Args:
        flows: Of all pairs of origins at the same time.
        rtt: Of the empty path, ms.
        warm_up: Seconds at the start of the flows that no window may have.
    """
    every = [series for flow in flows for series in (flow.looks, flow.counts)]
    if not all(every):
        return []
    first = max(series[0][0] for series in every) + max(warm_up, rtt / 1000)
    last = min(series[-1][0] for series in every)
    # A rounding error must not cost the last one.
    number = max(0, math.floor((last - first) / WINDOW + 1e-6))
    shared: dict[str, list[Flow]] = {}
    for index, flow in enumerate(flows):
        shared.setdefault(flow.interface or str(index), []).append(flow)
    shares = [[_share(some, first + WINDOW * i, rtt) for some in shared.values()] for i in range(number)]
    return [Window(sum(share.rate for share in each), all(share.full for share in each)) for each in shares]


def rate_of(looked_at: Sequence[Window], asked: float) -> Rate:
    """What is known of the rate from the windows of a look or several. Pure.

    A path that was never full and brought what was asked, in Gbit/s, has it.
    """
    full = [window.rate for window in looked_at if window.full]
    enough = len(full) >= ENOUGH
    rates = full if enough else [window.rate for window in looked_at]
    median = statistics.median(rates) if rates else 0.0
    known = enough or median >= asked * (1 + BANDWIDTH_TOLERANCE[0])
    return Rate(median, known, len(looked_at), len(full))


def _share(flows: Sequence[Flow], begin: float, rtt: float) -> Window:
    """Gbit/s in a window of flows that share an interface, and whether the path was full.

    It was where more was under way at every look than an empty path holds of what arrived.
    """
    end = begin + WINDOW
    flow = flows[0]
    counts = np.array(flow.counts, float)
    received, packets = (
        np.diff(np.interp((begin, end), counts[:, 0], counts[:, column])).item() for column in (1, 2)
    )
    wire = wire_bytes({"rx_bytes": received, "rx_packets": packets}, flow.mss, flow.header)
    # What arrives in a window was under way up to an RTT before.
    seen = [_during(np.array(each.looks, float), begin - rtt / 1000, end) for each in flows]
    times = [*(each[:, 0] for each in seen), _during(counts, begin, end)[:, 0]]
    punctual = max(map(_gap, times)) <= LATE
    segments = sum(
        each[:, 1].min() - HELD_BACK * one.connections for each, one in zip(seen, flows, strict=True)
    )
    waiting = segments * (flow.mss + flow.header)
    empty = wire / WINDOW * (rtt + allowed_rtt(rtt)) / 1000
    return Window(wire * GBIT / WINDOW, bool(punctual and waiting > empty))


def _during(series: np.ndarray[Any, Any], begin: float, end: float) -> np.ndarray[Any, Any]:
    """The rows from the last one before `begin` to the first one after `end`; the first column has times."""
    times = series[:, 0]
    first = max(0, int(np.searchsorted(times, begin, side="right")) - 1)
    return series[first : int(np.searchsorted(times, end, side="left")) + 1]


def _gap(times: np.ndarray[Any, Any]) -> float:
    return float(np.diff(times).max(initial=0.0))


def _held(wanted: DeploymentParameters) -> float:
    """Bytes that the path asked for holds when it is full and nothing waits."""
    return wanted.bandwidth * BYTES * wanted.rtt / 1000


def _off(wanted: DeploymentParameters, measured: Measured, refused: Callable[[Rate], bool]) -> list[str]:
    """Directions whose rates are refused, with both figures."""
    return [
        complaint_of_rate(f"from {direction}", wanted.bandwidth, rate.found, BANDWIDTH_TOLERANCE)
        for direction, rate in zip(DIRECTIONS, measured.rates, strict=True)
        if refused(rate)
    ]


def _measure(session: Session, wanted: DeploymentParameters, ends: list[Ends], attempt: int) -> Measured:
    rtts: list[float] = []
    mtus = []
    for source, destination in ends:
        asked = {**_place(destination), "count": max(3, COUNT // len(ends))}
        [(rtts_of_pair, mtu)] = session.tell([source.name], "round_trips", **asked).values()
        rtts += rtts_of_pair
        mtus.append(mtu)
    rtt = Rtt(min(rtts), statistics.median(rtts), max(rtts), len(rtts))
    near_to_far = _rate(session, wanted, ends, rtt.median)
    far_to_near = _rate(session, wanted, [pair[::-1] for pair in ends], rtt.median)
    return Measured(rtt, min(mtus), near_to_far, far_to_near, attempt)


def _rate(session: Session, wanted: DeploymentParameters, ends: list[Ends], rtt: float) -> Rate:
    """Look at one direction until its rate is known, LOOKS times at most; the path is left empty."""
    looked_at: list[Window] = []
    for _ in range(LOOKS if fillable(wanted, len(ends)) else 1):
        looked_at += _look(session, wanted, ends, rtt)
        rate = rate_of(looked_at, wanted.bandwidth)
        if rate.known:
            break
    return rate


def _place(server: Server) -> dict[str, Any]:
    """Where the agent beside a server takes what others send."""
    return {"address": server.address, "port": beside(server.ports).probe}


def _look(session: Session, wanted: DeploymentParameters, ends: list[Ends], rtt: float) -> list[Window]:
    """All pairs at once, or each would find the whole path empty."""
    warm_up = max(WARM_UP[0], WARM_UP[1] * wanted.rtt / 1000)
    # Both ends begin when they hear of it, and the source when it is connected.
    seconds = warm_up + 2 * wanted.rtt / 1000 + (WINDOWS + 1) * WINDOW
    number = connections(wanted, len(ends))
    behind = session.ask("synchronise")

    def begin(agent: Server, verb: str, **arguments: object) -> Callable[[], Any]:
        arguments["seconds"] = seconds
        return session.start("tell", to=[agent.name], verb=verb, arguments=arguments)

    answers = [
        (
            begin(source, "pour", **_place(destination), connections=number),
            begin(destination, "arriving", address=source.address),
        )
        for source, destination in ends
    ]
    flows = []
    for (source, destination), both in zip(ends, answers, strict=True):
        [sent], [received] = (answer().values() for answer in both)
        flows.append(
            Flow(
                [(at + behind[source.name], segments) for at, segments in sent["looks"]],
                [(at + behind[destination.name], size, packets) for at, size, packets in received["counts"]],
                number,
                sent["mss"],
                sent["header"],
                received["interface"],
            )
        )
    empty = {"rtt": rtt + allowed_rtt(rtt), "seconds": EMPTY_SECONDS}
    for source, destination in ends:
        session.tell([source.name], "emptied", **_place(destination), **empty)
    return windows(flows, rtt, warm_up)
