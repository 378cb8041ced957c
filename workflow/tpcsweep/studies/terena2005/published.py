"""What terena2005 published, row by row. Bandwidths in Gbit/s, RTTs in ms, MTUs in bytes, times in s."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stream:
    """What one Reno stream was published to get."""

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
class Irreproducible:
    """What is not tried, and why."""

    id: str
    setting: str
    published: str
    why: str


_CONDITIONS = (
    "loss, MTU, queue and duration of the test were not published: fitting them to the four rates would be no "
    "reproduction"
)
_OWN_SIGHT = "the tuning and the loss of the path were not published"
_NO_FAST = "FAST is in no Linux kernel and not in ns-3; " + _CONDITIONS

IRREPRODUCIBLE = (
    Irreproducible("variants.reno", "Reno, 9.5 Gbit/s, 264 ms", "3.0 Gbit/s", _CONDITIONS),
    Irreproducible("variants.westwood", "Westwood+, 9.5 Gbit/s, 264 ms", "4.1 Gbit/s", _CONDITIONS),
    Irreproducible("variants.bic", "BIC, 9.5 Gbit/s, 264 ms", "5.0 Gbit/s", _CONDITIONS),
    Irreproducible("variants.fast", "FAST, 9.5 Gbit/s, 264 ms", "7.3 Gbit/s", _NO_FAST),
    Irreproducible("variants.1g_reno", "Reno, 1 Gbit/s, 180 ms", "19 %", _OWN_SIGHT),
    Irreproducible("variants.1g_tuned", "Reno, tuned, 1 Gbit/s, 180 ms", "27 %", _OWN_SIGHT),
    Irreproducible("variants.1g_fast", "FAST, 1 Gbit/s, 180 ms", "95 %", _NO_FAST),
    Irreproducible(
        "disk",
        "disk to disk where the network carries 7.5 Gbit/s",
        "500 to 536 MB/s",
        "it was a property of those servers' disks",
    ),
)
