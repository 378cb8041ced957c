# SPDX-License-Identifier: Apache-2.0
"""Compare a path with the requested one, look by look, and refuse another.

Two methods look at paths. `udp_looks` sends datagrams above the rate of a link that tpcsweep made, between namespaces.
`tcp_rates` and `tcp_probes` need no privilege and disturb no other traffic: they fill paths between pods, which may be
networks of other users. docs/decisions/delay-line.md says why there are two.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from tpcsweep.common.numbers import between, plain, short
from tpcsweep.deploying.paths.link import Rtt
from tpcsweep.deploying.paths.network_path import PathError

RTT_TOLERANCE = (0.02, 0.3)  # relative, and ms; the larger one counts
BANDWIDTH_TOLERANCE = (-0.05, 0.03)
CALM_LOOKS = 3  # calm looks at a path out of tolerance before it is rejected
PATIENCE = 20.0  # s for these, and for a busy machine's path to come into tolerance
DIRECTIONS = ("source to destination", "destination to source")


class RequestedPath(Protocol):
    """A path as configured: RTT in ms, bandwidth in Gbit/s, MTU in bytes, queue_limit in packets."""

    @property
    def rtt(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...
    @property
    def mtu(self) -> int: ...
    @property
    def queue_limit(self) -> int | None: ...


@dataclass(frozen=True)
class FoundRate:
    """Gbit/s that arrived: the path's own rate if it is `known`, otherwise a lower limit of that."""

    found: float
    known: bool
    windows: int
    full: int
    """Windows in which the path was full all the time, and nothing on the machine hid that."""


@dataclass(frozen=True)
class FoundPath:
    """A path as measured: RTT in ms, path MTU in bytes, rates from source (near) to destination (far) and back."""

    rtt: Rtt
    mtu: int
    near_to_far: FoundRate
    far_to_near: FoundRate
    calm: bool  # whether a difference is the path's own, and not that of a busy machine
    attempts: int = 1
    slow: bool = False  # whether a rate is known to be below the requested one, and nothing else is wrong

    @property
    def rates(self) -> tuple[FoundRate, FoundRate]:
        return self.near_to_far, self.far_to_near

    @property
    def bandwidth(self) -> float | None:
        """The smaller known rate of both directions in Gbit/s, or None if neither is known."""
        return min((rate.found for rate in self.rates if rate.known), default=None)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "mtu"}


Look = Callable[[FoundPath | None], FoundPath]
"""Function that measures a path; it may keep those figures of the look before that were as asked."""


def verify(wanted: RequestedPath, place: str, look: Look, *, strict: bool) -> FoundPath:
    """Look at a path until it is as asked, or until CALM_LOOKS calm looks or PATIENCE show that it is not.

    A path that is only too slow is refused if `strict`, and otherwise returned as `slow`. `place` begins the message.
    Raises PathError.
    """
    give_up = time.monotonic() + PATIENCE
    calm, before = 0, None
    for attempt in itertools.count(1):
        measured = before = replace(look(before), attempts=attempt)
        wrong, slow = differences(wanted, measured), shortfalls(wanted, measured)
        if not (wrong or slow):
            return measured
        calm += measured.calm
        if calm == CALM_LOOKS or time.monotonic() > give_up:
            break
    if wrong or strict:
        raise PathError(
            f"{place} differs from the requested one, measured {attempt} times, {calm} of them on a calm machine: "
            f"{'; '.join(wrong + slow)}"
        )
    return replace(measured, slow=True)


def differences(wanted: RequestedPath, measured: FoundPath) -> list[str]:
    """Describe how a path differs from the one asked for in RTT or MTU, or by being too fast."""
    wrong = []
    if not rtt_fits(wanted.rtt, measured.rtt):
        rtt, allowed = measured.rtt, short(allowed_rtt(wanted.rtt), 2)
        found = f"{short(rtt.median)} ms (median of {rtt.samples}, {between(rtt.min, rtt.max)})"
        wrong.append(f"rtt asked {plain(wanted.rtt)} ms, found {found}, allowed ±{allowed} ms")
    if measured.mtu != wanted.mtu:
        wrong.append(f"mtu asked {wanted.mtu}, found {measured.mtu}")
    return wrong + _directions(wanted, measured, too_fast)


def shortfalls(wanted: RequestedPath, measured: FoundPath) -> list[str]:
    """Describe the directions that are known to be slower than asked."""
    return _directions(wanted, measured, too_slow)


def allowed_rtt(requested: float) -> float:
    return max(RTT_TOLERANCE[0] * requested, RTT_TOLERANCE[1])


def rtt_fits(requested: float, measured: Rtt) -> bool:
    return abs(measured.median - requested) <= allowed_rtt(requested)


def calm_rtt(requested: float, measured: Rtt) -> bool:
    """Return whether half of the answers took as long as the fastest one, within the tolerance."""
    return measured.median - measured.min <= allowed_rtt(requested)


def bandwidth_tolerance(wanted: RequestedPath) -> tuple[float, float]:
    """Return the tolerance of a rate as shares of the bandwidth; a queue_limit may reduce it arbitrarily."""
    low, high = BANDWIDTH_TOLERANCE
    return (low if wanted.queue_limit is None else -1.0), high


def too_fast(wanted: RequestedPath, rate: FoundRate) -> bool:
    return rate.found > (1 + bandwidth_tolerance(wanted)[1]) * wanted.bandwidth


def too_slow(wanted: RequestedPath, rate: FoundRate) -> bool:
    return rate.known and rate.found < (1 + bandwidth_tolerance(wanted)[0]) * wanted.bandwidth


def _directions(
    wanted: RequestedPath, measured: FoundPath, refused: Callable[[RequestedPath, FoundRate], bool]
) -> list[str]:
    asked = f"{plain(wanted.bandwidth)} Gbit/s"
    low, high = bandwidth_tolerance(wanted)
    return [
        f"bandwidth from {direction} asked {asked}, found {short(rate.found, 4)} Gbit/s, "
        f"allowed {low:+.0%} to {high:+.0%}"
        for direction, rate in zip(DIRECTIONS, measured.rates, strict=True)
        if refused(wanted, rate)
    ]
