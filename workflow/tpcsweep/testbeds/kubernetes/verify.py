"""Is the path between the pods what was asked for? Measured by their agents before any cell.

RTT and MTU are held to what was asked. The rate is measured with TCP for half a second and recorded: a real path must
not be flooded to find its bandwidth, and pods may not have the CPU to fill it. More than was asked is refused, as the
path is then another.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from tpcsweep.parameters import DeploymentParameters
from tpcsweep.paths import PathError, Rtt
from tpcsweep.paths.verify import (
    BANDWIDTH_TOLERANCE,
    CALM_LOOKS,
    PATIENCE,
    allowed_rtt,
    calm_rtt,
    rtt_fits,
)
from tpcsweep.testbeds.kubernetes.session import Session
from tpcsweep.xrootd import Server

COUNT = 17
CONNECTIONS = 4
WARM_UP = (0.3, 10)
"""Seconds, or RTTs where that is longer: slow start must be over."""
SECONDS = 0.5


class Ends(NamedTuple):
    """A source and a destination origin."""

    source: Server
    destination: Server


@dataclass(frozen=True)
class Measured:
    """A path as found: RTT in ms, path MTU in bytes, rates in Gbit/s from source to destination and back."""

    rtt: Rtt
    mtu: int
    near_to_far: float
    far_to_near: float
    attempts: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for provenance."""
        return {
            "rtt": self.rtt.to_dict(),
            "near_to_far": self.near_to_far,
            "far_to_near": self.far_to_near,
            "attempts": self.attempts,
        }


def verify(session: Session, wanted: DeploymentParameters, ends: list[Ends]) -> Measured:
    """Measure the path and refuse it if it is not what was asked for, by CALM_LOOKS calm looks or after PATIENCE.

    Raises PathError, SessionError.
    """
    give_up = time.monotonic() + PATIENCE
    attempts, calm = 1, 0
    while wrong := complaints(wanted, measured := _measure(session, wanted, ends, attempts)):
        calm += calm_rtt(wanted.rtt, measured.rtt)
        if calm == CALM_LOOKS or time.monotonic() > give_up:
            raise PathError(
                f"the path is not what was asked for, measured {attempts} times, {calm} of them on calm "
                f"machines: {'; '.join(wrong)}"
            )
        attempts += 1
    return measured


def complaints(wanted: DeploymentParameters, found: Measured) -> list[str]:
    """What is out of tolerance, with both figures; empty where the path is as asked. Pure."""
    wrong = []
    if not rtt_fits(wanted.rtt, found.rtt.median):
        wrong.append(
            f"rtt asked {wanted.rtt:g} ms, found {found.rtt.median:.3g} ms (median of {found.rtt.samples}, "
            f"{found.rtt.min:.3g} to {found.rtt.max:.3g}), allowed ±{allowed_rtt(wanted.rtt):.2g} ms"
        )
    if found.mtu != wanted.mtu:
        wrong.append(f"mtu asked {wanted.mtu}, found {found.mtu}")
    most = wanted.bandwidth * (1 + BANDWIDTH_TOLERANCE[1])
    for direction, rate in (
        ("source to destination", found.near_to_far),
        ("destination to source", found.far_to_near),
    ):
        if rate > most:
            wrong.append(
                f"bandwidth from {direction} asked {wanted.bandwidth:g} Gbit/s, found {rate:.4g} Gbit/s"
            )
    return wrong


def _measure(session: Session, wanted: DeploymentParameters, ends: list[Ends], attempt: int) -> Measured:
    times: list[float] = []
    mtus = []
    for source, destination in ends:
        [(found, mtu)] = session.tell(
            [source.name], "round_trips", address=destination.address, count=max(3, COUNT // len(ends))
        ).values()
        times += found
        mtus.append(mtu)
    near_to_far = _rate(session, wanted, ends)
    far_to_near = _rate(session, wanted, [Ends(*reversed(pair)) for pair in ends])
    return Measured(
        Rtt(min(times), statistics.median(times), max(times), len(times)),
        min(mtus),
        near_to_far,
        far_to_near,
        attempt,
    )


def _rate(session: Session, wanted: DeploymentParameters, ends: list[Ends]) -> float:
    """All pairs at once, or each would find the whole path empty."""
    warm_up = max(WARM_UP[0], WARM_UP[1] * wanted.rtt / 1000)
    pour = {"connections": CONNECTIONS, "seconds": warm_up + 2 * SECONDS}
    look = {"warm_up": warm_up, "seconds": SECONDS}
    answers = []
    for here, there in ends:
        session.start("tell", to=[here.name], verb="pour", arguments={"address": there.address, **pour})
        arriving = {"address": here.address, **look}
        answers.append(session.start("tell", to=[there.name], verb="arriving", arguments=arriving))
    return sum(float(rate) for answer in answers for rate in answer().values())
