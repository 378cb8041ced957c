# SPDX-License-Identifier: Apache-2.0
"""Verify that a path has the requested RTT and bandwidth, and reject it otherwise.

docs/paths.md explains the method, and how effects of a busy machine are separated from the path.

Rates count the same bytes as tbf: the length of every packet with its IP header, and with its Ethernet header (14
bytes) on a veth pair; TUN has none.
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tpcsweep.common.numbers import BYTES, GBIT, between, plain, short
from tpcsweep.deploying.linux.namespaces import Interface, socket_inside
from tpcsweep.deploying.paths import network_path
from tpcsweep.deploying.paths.link import DIRECTIONS, Link, Rtt, calibrate_line
from tpcsweep.deploying.paths.network_path import ETHERNET, HEADERS, INTERFACE, NetworkPath, PathError

RTT_TOLERANCE = (0.02, 0.3)  # relative, and ms; the larger one counts
BANDWIDTH_TOLERANCE = (-0.05, 0.03)
CALM_LOOKS = 3  # calm measurements out of tolerance before the path is rejected
PATIENCE = 20.0  # s for these, and for a busy machine's path to come into tolerance
WINDOW, LONGEST = 0.1, 0.8  # s: the first window, and the longest after doublings
LATE = 0.02  # share of the window above which a measurement is too late to be calm
SETTLE = 0.01  # s from the first packet's arrival to the window
OVERLOAD = 1.2
NAP = 0.001  # s between a sender's looks at the clock
UDP_SEGMENT, UDP_GRO = 103, 104  # linux/udp.h
MOST_SEGMENTS = 64  # UDP_MAX_SEGMENTS before Linux 6.9
LARGEST_DATAGRAM = 65507
SO_SNDBUFFORCE = 32  # asm-generic/socket.h
LARGEST_BUFFER = 2**30 - 1  # bytes; the kernel doubles it in an int


@dataclass(frozen=True)
class Measured:
    """Measured path; rates are in Gbit/s of the bytes that tbf counts."""

    rtt: Rtt
    near_to_far: float
    far_to_near: float
    attempts: int
    slow: bool = False  # whether a rate is below the requested one, and nothing else is wrong

    @property
    def bandwidth(self) -> float:
        return min(self.near_to_far, self.far_to_near)


class Rate(NamedTuple):
    bandwidth: float  # Gbit/s
    calm: bool  # whether the machine was calm enough for the rate to be the path's own


def verify(path: NetworkPath, link: Link, *, strict: bool = True) -> Measured:
    """Compare a running link with the requested path. Raises PathError; takes 0.7 s at RTT 0.

    Values out of tolerance are measured again, in growing windows, until CALM_LOOKS calm measurements confirm them or
    PATIENCE is over. Then the path is rejected, unless it is only too slow and not `strict`. A queue_limit may reduce
    the rate arbitrarily, so then only a higher rate is wrong.
    """
    give_up = time.monotonic() + PATIENCE
    rtt = link.rtt()
    rates = [measure_bandwidth(link, reverse=reverse) for reverse in (False, True)]
    attempts, calm, window = 1, 0, WINDOW
    while wrong := complaints(path, rtt, [rate.bandwidth for rate in rates]):
        calm += calm_rtt(path.rtt, rtt) and all(rate.calm for rate in rates)
        if calm == CALM_LOOKS or time.monotonic() > give_up:
            _, high = bandwidth_tolerance(path)
            fast = [rate for rate in rates if rate.bandwidth / path.bandwidth - 1 > high]
            if not strict and rtt_fits(path.rtt, rtt.median) and not fast:
                break
            raise PathError(
                f"path from {link.near} to {link.far} (emulator {link.emulator}) differs from the requested one, "
                f"measured {attempts} times, {calm} of them on a calm machine: {'; '.join(wrong)}"
            )
        window = min(2 * window, LONGEST)
        if not rtt_fits(path.rtt, rtt.median):
            if link.line:
                calibrate_line(link)  # the machine may have been busy when the line's own cost was measured
            rtt = link.rtt()
        for i, rate in enumerate(rates):
            if not bandwidth_fits(path, rate.bandwidth):
                rates[i] = measure_bandwidth(link, reverse=bool(i), window=window)
        attempts += 1
    return Measured(rtt, rates[0].bandwidth, rates[1].bandwidth, attempts, slow=bool(wrong))


def measure_bandwidth(link: Link, *, reverse: bool = False, window: float = WINDOW) -> Rate:
    """Measure the rate at which bytes leave the path; return when the path is empty again.

    Sends 1.2 × the path's bandwidth as UDP to a socket that never reads, in GSO super-packets of at most 0.5 ms each.
    Reads the receiving interface's counters over a window in seconds, which starts after the token bucket's first
    burst. If random loss follows the rate (delay line), the result is the rate before the loss.
    """
    path = link.path
    source, target, address = link.near, link.far, link.far_address
    if reverse:
        source, target, address = link.far, link.near, link.near_address
    payload, segments = packets(path)
    room = network_path.sent_ahead(path)
    counters = Interface(target, INTERFACE)
    try:
        link.resize_queues(room)
        buffer = min(2 * (network_path.queue_bytes(path) + room), LARGEST_BUFFER)
        with socket_inside(target, socket.AF_INET, socket.SOCK_DGRAM) as sink:
            # super-packets are dropped whole, which needs less CPU
            sink.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            sink.bind((address, 0))
            with contextlib.closing(_Sender(source, buffer, sink.getsockname(), payload)) as sender:
                seconds, arrived, calm, left = _overload(sender, counters, path, payload * segments, window)
                time.sleep(max(0.0, left) / (path.bandwidth * BYTES) + path.rtt / 2e3 + SETTLE)
    finally:
        counters.close()
        link.resize_queues(0)
    header, lost = (HEADERS, path.loss) if link.emulator == "delayline" else (HEADERS + ETHERNET, 0.0)
    return Rate(wire_bytes(arrived, payload, header) * GBIT / seconds / (1 - lost), calm)


class _Sender:
    """Sender of datagrams with `payload` bytes from a namespace to an address, at most `buffer` bytes in flight.

    Root needs one socket. The kernel limits others' buffers (net.core.wmem_max), so they use several sockets.
    """

    def __init__(self, namespace: str, buffer: int, address: tuple[str, int], payload: int) -> None:
        self._sockets: list[socket.socket] = []
        left = 2 * buffer  # the kernel doubles it
        while left > 0:
            one = socket_inside(namespace, socket.AF_INET, socket.SOCK_DGRAM)
            self._sockets.append(one)
            try:
                one.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, buffer)
            except PermissionError:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            one.setblocking(False)
            one.connect(address)
            one.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, payload)
            left -= one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def send(self, data: bytes) -> None:
        """Send from a socket with room. Raises BlockingIOError if none has any."""
        for _ in self._sockets:
            try:
                self._sockets[0].send(data)
                return
            except BlockingIOError:
                self._sockets.append(self._sockets.pop(0))
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def _overload(
    sender: _Sender, counters: Interface, path: NetworkPath, size: int, window: float
) -> tuple[float, dict[str, int], bool, float]:
    """Send super-packets of `size` bytes above the rate, and read the counters of arrivals twice.

    Returns the seconds between the readings, the arrivals between them, whether the machine was calm, and the most
    bytes that may still be queued.
    """
    data = bytes(size)
    full = network_path.burst(path)  # the token bucket starts full; empty it at once
    rate = path.bandwidth * BYTES
    offered = rate * OVERLOAD / (1 - path.loss)
    begin = time.monotonic()
    opens = begin + path.rtt / 2e3 + SETTLE
    enough = full + offered * (opens - begin + window)
    sent, late, starved = 0, 0.0, False
    looks: list[tuple[float, dict[str, int]]] = []
    while True:
        now = time.monotonic()
        starved = starved or (0 < sent < full + rate * (now - begin))
        if now >= (looks[0][0] + window if looks else opens):
            looks.append((time.monotonic(), counters.read()))
            late = max(late, time.monotonic() - looks[-1][0])
        if len(looks) == 2:
            (first, before), (last, after) = looks
            calm = late <= LATE * window and (not starved or path.queue_limit is not None)
            left = sent - rate * (now - begin)
            return last - first, {key: after[key] - before[key] for key in after}, calm, left
        due = min(full + network_path.sent_ahead(path) + (now - begin) * offered, enough)
        while sent < due:
            try:
                sender.send(data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                    raise
                sent = int(due)  # a full queue is the purpose
                break
            sent += size
        asleep = time.monotonic()
        time.sleep(NAP)
        late = max(late, time.monotonic() - asleep - NAP)


def packets(path: NetworkPath) -> tuple[int, int]:
    """Return a segment's UDP payload in bytes, and the segments of a super-packet of at most 0.5 ms."""
    payload = path.mtu - HEADERS
    fitting = min(network_path.bytes_in(path, 0.5), LARGEST_DATAGRAM) // payload
    return payload, max(1, min(fitting, MOST_SEGMENTS))


def wire_bytes(arrived: dict[str, int], payload: int, header: int) -> float:
    """Return the bytes that tbf counts from an interface's rx_bytes and rx_packets.

    For n segments in one super-packet the interface counts one header, tbf counts n. All segments have `payload` bytes,
    which determines their number.
    """
    carried = arrived["rx_bytes"] - arrived["rx_packets"] * header
    return carried * (1 + header / payload)


def allowed_rtt(requested: float) -> float:
    return max(RTT_TOLERANCE[0] * requested, RTT_TOLERANCE[1])


def rtt_fits(requested: float, measured: float) -> bool:
    return abs(measured - requested) <= allowed_rtt(requested)


def calm_rtt(requested: float, measured: Rtt) -> bool:
    """Return whether half of the answers took as long as the fastest one, within the tolerance."""
    return measured.median - measured.min <= allowed_rtt(requested)


def bandwidth_tolerance(path: NetworkPath) -> tuple[float, float]:
    """Return the tolerance of a rate as shares of the bandwidth; a queue_limit may reduce it arbitrarily."""
    low, high = BANDWIDTH_TOLERANCE
    return (low if path.queue_limit is None else -1.0), high


def bandwidth_fits(path: NetworkPath, rate: float) -> bool:
    low, high = bandwidth_tolerance(path)
    return low <= rate / path.bandwidth - 1 <= high


def complaints(path: NetworkPath, rtt: Rtt, rates: Sequence[float]) -> list[str]:
    return rtt_problems(path.rtt, rtt) + [
        rate_problem(direction, path.bandwidth, rate, bandwidth_tolerance(path))
        for direction, rate in zip(DIRECTIONS, rates, strict=True)
        if not bandwidth_fits(path, rate)
    ]


def rtt_problems(requested: float, rtt: Rtt) -> list[str]:
    """Describe an RTT out of tolerance, in ms; empty if it is within."""
    if rtt_fits(requested, rtt.median):
        return []
    found = f"{short(rtt.median)} ms (median of {rtt.samples}, {between(rtt.min, rtt.max)})"
    return [f"rtt asked {plain(requested)} ms, found {found}, allowed ±{short(allowed_rtt(requested), 2)} ms"]


def rate_problem(direction: str, requested: float, rate: float, tolerance: tuple[float, float]) -> str:
    """Describe a rate out of tolerance, in Gbit/s."""
    low, high = tolerance
    found = f"found {short(rate, 4)} Gbit/s, allowed {low:+.0%} to {high:+.0%}"
    return f"bandwidth {direction} asked {plain(requested)} Gbit/s, {found}"
