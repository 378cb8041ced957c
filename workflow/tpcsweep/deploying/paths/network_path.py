# SPDX-License-Identifier: Apache-2.0
"""Parameters of a path, and the sizes, limits and tc commands that follow from them; pure functions."""

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from tpcsweep.common.numbers import GBIT_PER_MS

Emulator = Literal["none", "netem", "delayline"]

INTERFACE = "tpc-path"  # name of the path's interface in both routers

SUPER_PACKET = 1 << 16  # largest GSO packet; a tbf segments packets above its burst, which costs CPU
LARGEST_LIMIT = 2**32 - 1  # bytes, largest limit of tbf
LARGEST = 100.0  # Gbit/s
SMALLEST_BANDWIDTH = 0.001  # Gbit/s; below, one packet of 9000 bytes takes longer than 72 ms
LONGEST_RTT = 2000.0  # ms
LARGEST_LOSS = 0.15  # in each direction; with more, too few of the pings that measure the RTT return
LARGEST_MTU = 65521  # bytes, largest packet of a virtual link with its header
MOST_PACKETS = 2**32 - 1  # largest limit of netem
AHEAD = 100.0  # ms of the rate that wait in the queue during a measurement: their sender may be that late
MOST_AHEAD = 1 << 28  # bytes
HEADERS = 28  # bytes of the IPv4 header together with that of UDP or ICMP, which are equally long
SMALLEST_RTT: dict[Emulator, float] = {"none": 0.0, "netem": 0.1, "delayline": 0.5}
"""Smallest RTT above 0, in ms, that an emulator creates within the tolerance of `verify`."""
LARGEST_BANDWIDTH: dict[Emulator, float] = {"none": LARGEST, "netem": LARGEST, "delayline": 5.0}
"""Largest accepted bandwidth in Gbit/s.
The delay line's was measured by benchmarks/path.py on two cores, which it then nearly uses up. The others have no known
limit: `verify` rejects rates that a machine cannot carry."""
ETHERNET = 14  # bytes of the link-layer header; a virtual link has no preamble, gap or FCS


class PathError(RuntimeError):
    """A path cannot be created as requested, or differs from the request."""


@dataclass(frozen=True)
class NetworkPath:
    """Requested path, the same in both directions."""

    rtt: float  # round-trip time in ms, without queueing
    bandwidth: float  # Gbit/s of link-layer bytes in each direction; see verify.py
    loss: float = 0.0  # fraction of packets that is lost at random in each direction
    mtu: int = 1500  # bytes of the largest IP packet
    queue_limit: int | None = None
    """Most packets in flight in each direction, as netem's limit, or None without such a limit."""
    whole_rtt: float | None = None
    """RTT in ms of the longest path that includes this one, which sizes its queue; by default its own."""


def bytes_in(path: NetworkPath, milliseconds: float) -> int:
    return ceil(path.bandwidth * milliseconds * 125_000)


def bdp(path: NetworkPath) -> int:
    return bytes_in(path, path.rtt)


def burst(path: NetworkPath) -> int:
    """Return the token bucket's size in bytes: 1 ms of the rate, but at least two GSO super-packets.

    It must cover the jitter of the machine's timers and scheduling, or the rate falls short.
    """
    return max(bytes_in(path, 1), 2 * SUPER_PACKET)


def queue_bytes(path: NetworkPath) -> int:
    """Return the byte limit of the queue before the bottleneck: one BDP, the classic rule for one flow.

    The BDP is that of the whole path if this one is a part of another. The limit is at least 5 ms of the rate (jitter
    of a shared machine) and four GSO super-packets; a smaller queue would measure the bursts.
    """
    rtt = path.rtt if path.whole_rtt is None else path.whole_rtt
    return min(max(bytes_in(path, rtt), bytes_in(path, 5), 4 * SUPER_PACKET), LARGEST_LIMIT)


def netem_limit(path: NetworkPath, room: int = 0) -> int:
    """Return netem's explicit `limit` in packets: the requested one, or more than can ever be inside.

    netem's default of 1000 packets is a hidden cap (`queue_rate`). netem counts its own packets and, before Linux 6.13,
    those of its child too, hence twice the BDP and the queue, with `room` for additional bytes.
    """
    if path.queue_limit is not None:
        return path.queue_limit
    return ceil((2 * bdp(path) + queue_bytes(path) + room) / path.mtu) + 1000


def queue_rate(limit: int, packet: float, delay: float) -> float:
    """Return the Gbit/s through a queue by Little's law, by mean packet size in bytes and delay in ms."""
    return limit * packet * GBIT_PER_MS / delay


def describe_limit(path: NetworkPath) -> dict[str, Any]:
    """Return a queue_limit and the resulting caps as plain values for JSON; empty without a limit.

    One cap is for packets of the MTU, the other for the largest packets: super-packets, unless loss prevents them.
    """
    if path.queue_limit is None:
        return {}
    packets = {"packets_of_the_mtu": path.mtu, "largest_packets": path.mtu if path.loss else SUPER_PACKET}
    caps = {name: queue_rate(path.queue_limit, size, path.rtt / 2) for name, size in packets.items()}
    return {"queue_limit_packets": path.queue_limit, "queue_cap_gbit_per_s": caps}


def memory(path: NetworkPath) -> int:
    """Return the most bytes in the delay line per direction: one-way BDP, full queue, `sent_ahead`, 16 MiB."""
    return bdp(path) // 2 + queue_bytes(path) + sent_ahead(path) + (16 << 20)


def tick_ns(path: NetworkPath) -> int:
    """Return the ns between the delay line's looks at its packets: 2 % of the RTT, between 0.1 and 1 ms."""
    return round(min(max(0.02 * path.rtt, 0.1), 1.0) * 1e6)


def sent_ahead(path: NetworkPath) -> int:
    """Return the bytes sent ahead while the rate is measured; a queue_limit would drop more."""
    if path.queue_limit is not None:
        return bytes_in(path, 2)
    return min(bytes_in(path, AHEAD), MOST_AHEAD)


def wire_bytes(arrived: dict[str, int], payload: int, header: int) -> float:
    """Return the bytes that tbf counts from an interface's rx_bytes and rx_packets.

    For n segments in one super-packet the interface counts one header, tbf counts n. All segments have `payload` bytes,
    which determines their number.
    """
    carried = arrived["rx_bytes"] - arrived["rx_packets"] * header
    return carried * (1 + header / payload)


def rate_bit(path: NetworkPath) -> int:
    return round(path.bandwidth * 1e9)


def qdiscs(
    path: NetworkPath,
    emulator: Emulator,
    room: int = 0,
    do: Literal["add", "change"] = "add",
    interface: str = INTERFACE,
    parent: str = "root",
) -> list[str]:
    """Return the lines of `tc -batch -` for one direction: netem with tbf as its child, as in tc-netem(8).

    The queue before the rate has room for more bytes than `queue_bytes`.
    """
    device = f"qdisc {do} dev {interface}"
    limit = min(queue_bytes(path) + room, LARGEST_LIMIT)
    tbf = f"handle 10: tbf rate {rate_bit(path)}bit burst {burst(path)}b limit {limit}b"
    if emulator != "netem":
        return [f"{device} {parent} {tbf}"]
    loss = f" loss {path.loss * 100:.6g}%" if path.loss else ""
    netem = f"netem delay {path.rtt * 500:.0f}us{loss} limit {netem_limit(path, room)}"
    return [f"{device} {parent} handle 1: {netem}", f"{device} parent 1:1 {tbf}"]


def choose_emulator(path: NetworkPath, *, netem_works: bool) -> Emulator:
    """Return the emulator of a path: none at RTT 0 without loss, otherwise netem, or the delay line."""
    if path.rtt == 0 and path.loss == 0:
        return "none"
    return "netem" if netem_works else "delayline"


def segmentation_command(path: NetworkPath, emulator: Emulator, interface: str) -> list[str]:
    """Return the command that limits an origin's interface to packets of the MTU, or [] if unneeded.

    netem loses and counts packets as received: it would lose a GSO super-packet of 64 KiB as one. With random loss the
    origins must therefore not send any. The delay line handles this itself.
    """
    if emulator == "netem" and path.loss > 0:
        return ["ethtool", "-K", interface, "tso", "off", "gso", "off"]
    return []
