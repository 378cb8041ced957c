# SPDX-License-Identifier: Apache-2.0
"""Published rows of terena2005, and the cases for ns-3 and this kernel. Every job imports it.

Bandwidths are in Gbit/s, RTTs in ms, MTUs in bytes, and times in s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

SHIPPED = Path(__file__).parents[2] / "examples" / "terena2005"
"""Measurements of the project, one file for each case."""

Kind = Literal["recovery", "loss", "mtu_fairness"]


@dataclass(frozen=True)
class Stream:
    """Published rate or utilisation of one Reno stream."""

    id: str
    path: str
    bandwidth: float
    rtt: float
    mtu: int
    published: float
    loss: float = 0.0


UTILISATIONS = (
    Stream("loss.lan", "LAN", 1, 0.04, 1500, 0.99, loss=1e-4),
    Stream("loss.wan", "WAN", 1, 120, 1500, 0.012, loss=1e-4),
)
"""Points of the graph of utilisation against loss."""

SHARES = (
    Stream("mtu_fairness.1500", "WAN", 1, 117, 1500, 0.050),
    Stream("mtu_fairness.9000", "WAN", 1, 117, 9000, 0.698),
)
"""Two streams that differ in their MTU on one path, in Gbit/s over 4000 s."""


@dataclass(frozen=True)
class Case:
    """One setting, repeated several times; length and repetitions do not distinguish cases."""

    name: str = field(compare=False)
    kind: Kind
    bandwidth: float  # of the bottleneck
    rtt: float  # without queueing
    seconds: float = field(compare=False)
    """Length of a repetition including `warm_up`; most time for a measured recovery."""
    control: str = "reno"  # congestion control by Linux's name
    loss: float = 0.0  # share of randomly lost packets
    mtus: tuple[int, ...] = (1500,)  # one for each flow
    warm_up: float = field(default=0.0, compare=False)  # time at the start that does not count
    repetitions: int = field(default=3, compare=False)
    parallel: int = field(default=1, compare=False)
    """Number of repetitions that share the path at a time; together they leave it nearly empty."""

    @property
    def bottleneck_mtu(self) -> int:
        """MTU of the path: that of the largest packets."""
        return max(self.mtus)


def _recovery(
    control: str, megabits: int, rtt: int, seconds: float, mtu: int = 1500, repetitions: int = 3
) -> Case:
    name = f"recovery_{control}_{megabits}M_{rtt}ms_{mtu}"
    return Case(
        name, "recovery", megabits / 1000, rtt, seconds, control, mtus=(mtu,), repetitions=repetitions
    )


def _loss(control: str, bandwidth: float, rtt: float, loss: float, seconds: float, **others: Any) -> Case:
    name = f"loss_{control}_{bandwidth * 1000:g}M_{rtt:g}ms_{loss:g}"
    others.setdefault("warm_up", seconds / 5)
    return Case(name, "loss", bandwidth, rtt, seconds, control, loss, **others)


SIMULATED = (
    # The only published row with a small enough window, in full; the others at a smaller rate and RTT.
    _recovery("reno", 10_000, 1, 0.5, repetitions=1),
    _recovery("reno", 100, 10, 0.7, repetitions=1),
    _recovery("reno", 100, 20, 2.4, repetitions=1),
    _recovery("reno", 100, 40, 9, repetitions=1),
    _recovery("reno", 1000, 10, 1.2, mtu=9000, repetitions=1),
    _recovery("cubic", 100, 40, 12, repetitions=1),
    # The published paths in full.
    *(_loss("reno", 1, 0.04, loss, 0.1) for loss in (1e-6, 1e-5, 1e-4)),
    _loss("reno", 1, 0.04, 1e-3, 0.4),
    _loss("reno", 1, 0.04, 1e-2, 1),
    _loss("reno", 1, 0.04, 1e-1, 4),
    _loss("reno", 1, 120, 1e-5, 25),
    _loss("reno", 1, 120, 1e-4, 80),
    _loss("reno", 1, 120, 1e-3, 60),
    _loss("reno", 1, 120, 1e-2, 60),
    _loss("reno", 1, 120, 1e-1, 60),
    _loss("cubic", 1, 120, 1e-4, 30),
    _loss("cubic", 1, 120, 1e-3, 60),
    _loss("cubic", 1, 120, 1e-2, 60),
    # Without random losses every repetition is the same.
    Case("mtu_fairness_100M_20ms", "mtu_fairness", 0.1, 20, 75, mtus=(1500, 9000), warm_up=15, repetitions=1),
)
"""Cases for ns-3, with the congestion controls that are correct there."""

MEASURED = (
    _recovery("reno", 100, 10, 3),
    _recovery("reno", 100, 20, 5),
    _recovery("reno", 100, 40, 15),
    _recovery("reno", 1000, 10, 3, mtu=9000),
    _recovery("cubic", 100, 40, 15),
    # 0.5 ms is the shortest RTT of a delay line; the published LAN has 0.04 ms.
    *(_loss("reno", 1, 0.5, loss, 2.5) for loss in (1e-4, 1e-3, 1e-2)),
    # Slow start far exceeds the window that losses of 0.01 % allow, which takes seconds to decrease.
    _loss("reno", 1, 120, 1e-4, 28, repetitions=16, parallel=16, warm_up=16),
    _loss("reno", 1, 120, 1e-3, 16, repetitions=16, parallel=16, warm_up=6),
    _loss("reno", 1, 120, 1e-2, 12, repetitions=16, parallel=16),
    _loss("cubic", 1, 120, 1e-4, 28, repetitions=16, parallel=16, warm_up=16),
    _loss("cubic", 1, 120, 1e-3, 16, repetitions=16, parallel=16, warm_up=6),
    _loss("cubic", 1, 120, 1e-2, 12, repetitions=16, parallel=16),
    # BBR's window does not depend on losses of this size, and fills the path, so the path is smaller.
    _loss("bbr", 0.1, 120, 1e-3, 7, warm_up=3),
    _loss("bbr", 0.1, 120, 1e-2, 7, warm_up=3),
    Case("mtu_fairness_100M_20ms", "mtu_fairness", 0.1, 20, 15, mtus=(1500, 9000), warm_up=3),
)
"""Cases for this kernel: each takes a few seconds, all together six minutes."""


def measured_in(folder: Path | str) -> list[Path]:
    """Return the files of cases that were measured on this machine, or the shipped ones."""
    return sorted(Path(folder).glob("*.json")) or sorted(SHIPPED.glob("*.json"))
