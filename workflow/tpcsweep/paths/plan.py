"""What is asked of a path, and what follows from it: sizes, limits and tc commands. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Any, Literal

from tpcsweep.rates import GBIT_PER_MS

Emulator = Literal["none", "netem", "delayline"]

INTERFACE = "tpc-path"
"""The name of the path's interface in both routers."""

KIB = 1024
SUPER_PACKET = 64 * KIB  # the largest GSO packet; a tbf segments what is larger than its burst, at a cost
LARGEST_LIMIT = 2**32 - 1  # bytes, what tbf's limit can say
LARGEST = 100.0  # Gbit/s
MOST_PACKETS = 2**32 - 1  # what netem's limit can say
AHEAD = (
    100.0  # ms of the rate that wait in the queue while it is looked at, so that their sender may be as late
)
MOST_AHEAD = 1 << 28  # bytes
ETHERNET = 14  # bytes of the link-layer header; no preamble, gap or FCS on a virtual link


class PathError(RuntimeError):
    """A path cannot be made as asked, or is not what was asked for."""


@dataclass(frozen=True)
class Path:
    """A path as asked for. The same in both directions.

    rtt: round-trip time in ms, without queueing. bandwidth: Gbit/s in each direction, link-layer bytes (see
    verify.py). loss: the fraction of packets lost at random in each direction. mtu: bytes of the IP packet.
    queue_limit: packets that may be under way in each direction, as netem's limit; None: as many as it takes.
    Raises PathError for figures that no emulator can make.
    """

    rtt: float
    bandwidth: float
    loss: float = 0.0
    mtu: int = 1500
    queue_limit: int | None = None

    def __post_init__(self) -> None:
        allowed = (
            ("rtt", self.rtt, 0, 2000, "ms"),
            ("bandwidth", self.bandwidth, 0.001, LARGEST, "Gbit/s"),
            ("loss", self.loss, 0, 0.15, "per direction"),
            ("mtu", self.mtu, 576, 65521, "bytes"),
            ("queue_limit", self.queue_limit, 1, MOST_PACKETS, "packets"),
        )
        for name, value, low, high, unit in allowed:
            if value is not None and not low <= value <= high:
                raise PathError(f"path: {name} is {value:g} {unit}; allowed is {low:g} to {high:g} {unit}")
        if self.queue_limit is not None and self.rtt == 0:
            raise PathError("path: queue_limit is for packets under way, of which there are none at rtt 0 ms")


def bytes_in(path: Path, milliseconds: float) -> int:
    """Bytes that the path's bandwidth carries in a time."""
    return ceil(path.bandwidth * milliseconds * 125_000)


def bdp(path: Path) -> int:
    """The bandwidth-delay product in bytes: bandwidth × RTT."""
    return bytes_in(path, path.rtt)


def burst(path: Path) -> int:
    """The token bucket's size in bytes: 1 ms of the rate, and never less than two GSO super-packets.

    What the machine's timers and scheduling jitter take away must fit in here, or the rate falls short.
    """
    return max(bytes_in(path, 1), 2 * SUPER_PACKET)


def queue_bytes(path: Path) -> int:
    """The byte limit of the queue before the bottleneck: one BDP, the classic rule for one flow.

    Never less than 5 ms of the rate (jitter of a shared machine) nor four GSO super-packets: a queue that
    holds no burst measures the burst.
    """
    return min(max(bdp(path), bytes_in(path, 5), 4 * SUPER_PACKET), LARGEST_LIMIT)


def netem_limit(path: Path, room: int = 0) -> int:
    """The explicit `limit` of netem in packets: the one asked for, else everything that can be inside it and more.

    netem's default of 1000 packets is a hidden cap (`queue_cap`). netem counts its own packets and, before
    Linux 6.13, those of its child too, hence twice the BDP and the queue as well. room: see tbf().
    """
    if path.queue_limit is not None:
        return path.queue_limit
    return ceil((2 * bdp(path) + queue_bytes(path) + room) / path.mtu) + 1000


def queue_cap(path: Path, packet: int) -> float:
    """The throughput in Gbit/s that a queue_limit leaves: limit × packet / one-way delay; inf without a limit.

    packet: mean bytes of a packet as the queue counts it, a GSO super-packet being one.
    """
    if path.queue_limit is None:
        return inf
    return held(path.queue_limit, packet, path.rtt / 2)


def held(limit: int, packet: float, delay: float) -> float:
    """The throughput in Gbit/s of a queue that holds each packet for a delay in ms, and no more of them than a limit.

    packet: their mean bytes. Little's law: no more than limit × packet / delay leave in a time.
    """
    return limit * packet * GBIT_PER_MS / delay


def describe_limit(path: Path) -> dict[str, Any]:
    """A queue_limit and the caps that follow from it, JSON-ready; empty without one.

    Of packets of the MTU, and of the largest that there are: super-packets, where no loss has them cut.
    """
    if path.queue_limit is None:
        return {}
    largest = path.mtu if path.loss else SUPER_PACKET
    caps = {"packets_of_the_mtu": queue_cap(path, path.mtu), "largest_packets": queue_cap(path, largest)}
    return {"queue_limit_packets": path.queue_limit, "queue_cap_gbit_per_s": caps}


def memory(path: Path) -> int:
    """Bytes per direction that the delay line may hold: a one-way BDP, a full queue with `ahead`, and 16 MiB."""
    return bdp(path) // 2 + queue_bytes(path) + ahead(path) + 16 * KIB * KIB


def tick_ns(path: Path) -> int:
    """What the delay line does at one time, in ns: 2 % of the RTT, between 0.1 and 1 ms."""
    return round(min(max(0.02 * path.rtt, 0.1), 1.0) * 1e6)


def ahead(path: Path) -> int:
    """Bytes sent ahead while the rate is looked at: AHEAD of it, or 2 ms where a queue_limit would drop them."""
    if path.queue_limit is not None:
        return bytes_in(path, 2)
    return min(bytes_in(path, AHEAD), MOST_AHEAD)


def rate_bit(path: Path) -> int:
    """The bandwidth in bit/s."""
    return round(path.bandwidth * 1e9)


def tbf(path: Path, room: int = 0) -> str:
    """The token bucket of the path as tc-tbf(8) takes it. room: bytes for which its queue has room besides."""
    limit = min(queue_bytes(path) + room, LARGEST_LIMIT)
    return f"tbf rate {rate_bit(path)}bit burst {burst(path)}b limit {limit}b"


def netem(path: Path, room: int = 0) -> str:
    """The delay and loss of one direction as tc-netem(8) takes them: half of the RTT."""
    loss = f" loss {path.loss * 100:.6g}%" if path.loss else ""
    return f"netem delay {path.rtt * 500:.0f}us{loss} limit {netem_limit(path, room)}"


def qdiscs(path: Path, emulator: Emulator, room: int = 0, do: Literal["add", "change"] = "add") -> list[str]:
    """Lines for `tc -batch -` in one router. netem first with tbf as its child, as in tc-netem(8)."""
    device = f"qdisc {do} dev {INTERFACE}"
    bucket = f"handle 10: {tbf(path, room)}"
    if emulator == "netem":
        return [f"{device} root handle 1: {netem(path, room)}", f"{device} parent 1:1 {bucket}"]
    return [f"{device} root {bucket}"]


def choose(path: Path, *, netem_works: bool) -> Emulator:
    """The emulator for a path: none needed at RTT 0 without loss, else netem, else the delay line."""
    if path.rtt == 0 and path.loss == 0:
        return "none"
    return "netem" if netem_works else "delayline"


def smallest_rtt(emulator: Emulator) -> float:
    """The smallest RTT > 0 in ms that an emulator makes within the tolerance that verify() holds it to."""
    return {"none": 0.0, "netem": 0.1, "delayline": 0.5}[emulator]


def largest_bandwidth(emulator: Emulator) -> float:
    """The largest bandwidth in Gbit/s that is accepted for a path.

    For the delay line what benchmarks/path.py found it to carry with two cores, which it then nearly fills.
    For none and netem no limit was found or, for netem, could be measured: what is accepted is the span of
    Path, and verify() refuses what a machine does not carry. docs/paths.md has the figures.
    """
    return {"none": LARGEST, "netem": LARGEST, "delayline": 5.0}[emulator]


def segmenting(path: Path, emulator: Emulator, interface: str) -> list[str]:
    """The command that must run where `interface`, of an origin, is, or [] where none is needed.

    netem loses and counts what it is handed: a GSO super-packet of 64 KiB would be lost as one. With random
    loss the origins must therefore send packets of the MTU. The delay line sees to it by itself.
    """
    if emulator == "netem" and path.loss > 0:
        return ["ethtool", "-K", interface, "tso", "off", "gso", "off"]
    return []
