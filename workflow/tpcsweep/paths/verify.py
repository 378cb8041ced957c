"""Is the path what was asked for? Measure its RTT and bandwidth, and refuse it if not.

TCP needs seconds of slow start before it shows a bandwidth; UDP above the rate shows it in a tenth of one:
the bottleneck's queue stays busy, and what leaves the path is its rate.

Which bytes: those that tbf counts, the length of every packet with its IP header, and with its Ethernet
header (14 bytes) where the link is a veth pair; TUN has none. Interface counters count the headers of a GSO
super-packet once and tbf once per segment, so the counters are converted (wire_bytes).
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpcsweep.namespaces import Interface, socket_inside
from tpcsweep.paths import plan
from tpcsweep.paths.link import DIRECTIONS, Link
from tpcsweep.paths.plan import ETHERNET, INTERFACE, Path, PathError
from tpcsweep.paths.rtt import Rtt, measure_rtt

RTT_TOLERANCE = (0.02, 0.3)  # relative, and ms: the larger counts
BANDWIDTH_TOLERANCE = (-0.05, 0.03)
ATTEMPTS = 3
WINDOW = 0.1  # s, doubled with every attempt
SETTLE = 0.01  # s from the first packet's arrival to the window
OVERLOAD = 1.2
HEADERS = 28  # IPv4 and UDP
UDP_SEGMENT, UDP_GRO = 103, 104  # linux/udp.h
MOST_SEGMENTS = 64  # UDP_MAX_SEGMENTS before Linux 6.9
LARGEST_DATAGRAM = 65507
SO_SNDBUFFORCE = 32  # asm-generic/socket.h
LARGEST_BUFFER = 2**30 - 1  # bytes; the kernel doubles it in an int


@dataclass(frozen=True)
class Measured:
    """A path as found. rtt in ms, bandwidth per direction in Gbit/s of the bytes that tbf counts."""

    rtt: Rtt
    near_to_far: float
    far_to_near: float
    attempts: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for provenance."""
        return asdict(self)


def verify(path: Path, link: Link) -> Measured:
    """Hold a link that is up against the path asked for; takes 0.6 s at RTT 0.

    A queue_limit may keep the rate down by as much as it likes: there the rate is only not to be above.
    On a shared machine one look may be disturbed: what is out of tolerance is measured up to twice more.
    Raises PathError with the figures asked for and found.
    """
    rtt = _rtt(link)
    rates = [measure_bandwidth(link, reverse=reverse) for reverse in (False, True)]
    attempts = 1
    while attempts < ATTEMPTS and complaints(path, rtt, rates):
        if not rtt_fits(path.rtt, rtt.median):
            rtt = _rtt(link)
        for i, rate in enumerate(rates):
            if not bandwidth_fits(path, rate):
                rates[i] = measure_bandwidth(link, reverse=bool(i), window=WINDOW * 2**attempts)
        attempts += 1
    wrong = complaints(path, rtt, rates)
    if wrong:
        raise PathError(
            f"path from {link.near} to {link.far} (emulator {link.emulator}) is not what was asked for, "
            f"measured {attempts} times: {'; '.join(wrong)}; is the machine busy with something else?"
        )
    return Measured(rtt, rates[0], rates[1], attempts)


def measure_bandwidth(link: Link, *, reverse: bool = False, window: float = WINDOW) -> float:
    """The rate in Gbit/s at which bytes leave the path, near to far or the reverse.

    Offers 1.2 × the path's bandwidth as UDP to a socket that never reads, in GSO super-packets of at most
    0.5 ms each, and reads the receiving interface's counters over `window` seconds, from after the token
    bucket's first burst on. Returns when the path is empty again. Where random loss comes after the rate
    (delay line), the rate before it is given.
    """
    path = link.path
    ends = ((link.near, link.near_address), (link.far, link.far_address))
    (source, _), (target, address) = ends[::-1] if reverse else ends
    payload, segments = packets(path)
    counters = Interface(target, INTERFACE)
    try:
        with (
            socket_inside(target, socket.AF_INET, socket.SOCK_DGRAM) as sink,
            socket_inside(source, socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sink.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)  # super-packets are dropped whole, at less CPU
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            sink.bind((address, 0))
            sender.setsockopt(
                socket.SOL_SOCKET, SO_SNDBUFFORCE, min(2 * plan.queue_bytes(path), LARGEST_BUFFER)
            )
            sender.setblocking(False)
            sender.connect(sink.getsockname())
            sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, payload)
            seconds, found = _overload(sender, counters, path, payload * segments, window)
    finally:
        counters.close()
    header = HEADERS + (0 if link.emulator == "delayline" else ETHERNET)
    lost = path.loss if link.emulator == "delayline" else 0.0
    time.sleep(drain(path))
    return wire_bytes(found, payload, header) * 8e-9 / seconds / (1 - lost)


def _overload(
    sender: socket.socket, counters: Interface, path: Path, size: int, window: float
) -> tuple[float, dict[str, int]]:
    """Send above the rate, and give the seconds and what arrived between two looks at the counters."""
    data = bytes(size)
    ahead = plan.burst(path) + plan.bytes_in(path, 2)  # the token bucket is full at first: empty it at once
    rate = path.bandwidth * 125e6 * OVERLOAD / (1 - path.loss)
    begin = time.monotonic()
    opens = begin + path.rtt / 2e3 + SETTLE
    sent = 0
    first: tuple[float, dict[str, int]] | None = None
    while True:
        now = time.monotonic()
        if first is None and now >= opens:
            first = time.monotonic(), counters.read()
        if first is not None and now >= first[0] + window:
            last = time.monotonic(), counters.read()
            return last[0] - first[0], {key: last[1][key] - first[1][key] for key in last[1]}
        due = ahead + (now - begin) * rate
        while sent < due:
            try:
                sender.send(data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                    raise
                sent = int(due)  # the queue is full, which is what is wanted
                break
            sent += size
        time.sleep(0.0003)


def _rtt(link: Link) -> Rtt:
    return measure_rtt(link.commands, link.near, link.far_address, link.path.mtu)


def packets(path: Path) -> tuple[int, int]:
    """UDP payload of a segment in bytes, and segments per super-packet: at most 0.5 ms of the rate."""
    payload = path.mtu - HEADERS
    fitting = min(plan.bytes_in(path, 0.5), LARGEST_DATAGRAM) // payload
    return payload, max(1, min(fitting, MOST_SEGMENTS))


def wire_bytes(found: dict[str, int], payload: int, header: int) -> float:
    """Bytes as tbf counts them from an interface's rx_bytes and rx_packets.

    Of n segments in one super-packet the interface counts one header, tbf n. Everything that arrives has
    segments of `payload` bytes, so their number follows.
    """
    carried = found["rx_bytes"] - found["rx_packets"] * header
    return carried * (1 + header / payload)


def drain(path: Path) -> float:
    """Seconds until a path with a full queue is empty."""
    return plan.queue_bytes(path) / (path.bandwidth * 125e6) + path.rtt / 2e3


def rtt_fits(asked: float, found: float) -> bool:
    """Whether an RTT in ms is as asked, within RTT_TOLERANCE."""
    return abs(found - asked) <= max(RTT_TOLERANCE[0] * asked, RTT_TOLERANCE[1])


def bandwidth_tolerance(path: Path) -> tuple[float, float]:
    """What a rate may be off by, as shares of the bandwidth: a queue_limit takes away what it takes."""
    low, high = BANDWIDTH_TOLERANCE
    return (low if path.queue_limit is None else -1.0), high


def bandwidth_fits(path: Path, found: float) -> bool:
    """Whether a rate in Gbit/s is as asked, within the tolerance."""
    low, high = bandwidth_tolerance(path)
    return low <= found / path.bandwidth - 1 <= high


def complaints(path: Path, rtt: Rtt, rates: Sequence[float]) -> list[str]:
    """What is out of tolerance, with both figures; empty where the path is as asked."""
    wrong = []
    if not rtt_fits(path.rtt, rtt.median):
        allowed = max(RTT_TOLERANCE[0] * path.rtt, RTT_TOLERANCE[1])
        wrong.append(
            f"rtt asked {path.rtt:g} ms, found {rtt.median:.3g} ms (median of {rtt.samples}, "
            f"{rtt.min:.3g} to {rtt.max:.3g}), allowed ±{allowed:.2g} ms"
        )
    low, high = bandwidth_tolerance(path)
    for direction, rate in zip(DIRECTIONS, rates, strict=True):
        if not bandwidth_fits(path, rate):
            wrong.append(
                f"bandwidth {direction} asked {path.bandwidth:g} Gbit/s, found {rate:.4g} Gbit/s, "
                f"allowed {low:+.0%} to {high:+.0%}"
            )
    return wrong
