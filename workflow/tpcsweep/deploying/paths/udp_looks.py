# SPDX-License-Identifier: Apache-2.0
"""Look at a link between namespaces: RTT and MTU by ping, rates by datagrams above the link's own rate.

Only for links that tpcsweep made: datagrams crowd out other traffic, and the queue gets room for them meanwhile. Random
loss does not matter. docs/paths.md explains the method, and how effects of a busy machine are separated from the path.

Rates count the same bytes as tbf: the length of every packet with its IP header, and with its Ethernet header (14
bytes) on a veth pair; TUN has none.
"""

import contextlib
import errno
import os
import socket
import time
from functools import partial

from tpcsweep.common.numbers import BYTES, GBIT
from tpcsweep.deploying.linux.namespaces import Interface, socket_inside
from tpcsweep.deploying.paths import network_path
from tpcsweep.deploying.paths.link import Link, calibrate_line
from tpcsweep.deploying.paths.network_path import ETHERNET, HEADERS, INTERFACE, NetworkPath, wire_bytes
from tpcsweep.deploying.paths.verification import (
    FoundPath,
    FoundRate,
    calm_rtt,
    rtt_fits,
    too_fast,
    too_slow,
    verify,
)

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


def verify_link(path: NetworkPath, link: Link, *, strict: bool = True) -> FoundPath:
    """Compare a running link with the requested path, as `verify` does. Takes 0.7 s at RTT 0. Raises PathError."""
    place = f"path from {link.near} to {link.far} (emulator {link.emulator})"
    return verify(path, place, partial(look, path, link), strict=strict)


def look(path: NetworkPath, link: Link, before: FoundPath | None = None) -> FoundPath:
    """Measure a link, or again those figures of the look before that differ, in a window twice as long."""
    rtt, rates = (before.rtt, before.rates) if before else (None, (None, None))
    window = min(WINDOW * 2 ** (before.attempts if before else 0), LONGEST)
    if rtt is None or not rtt_fits(path.rtt, rtt):
        if rtt and link.line:
            calibrate_line(link)  # the machine may have been busy when the line's own cost was measured
        rtt = link.rtt()
    near_to_far, far_to_near = (
        rate if rate and _fits(path, rate) else measure_bandwidth(link, reverse=reverse, window=window)
        for reverse, rate in zip((False, True), rates, strict=True)
    )
    calm = all(rate.full or _fits(path, rate) for rate in (near_to_far, far_to_near))
    calm = calm and (rtt_fits(path.rtt, rtt) or calm_rtt(path.rtt, rtt))
    return FoundPath(rtt, path.mtu, near_to_far, far_to_near, calm)


def measure_bandwidth(link: Link, *, reverse: bool = False, window: float = WINDOW) -> FoundRate:
    """Measure the rate at which bytes leave the path, in a window; return when the path is empty again.

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
    rate = wire_bytes(arrived, payload, header) * GBIT / seconds / (1 - lost)
    return FoundRate(rate, known=True, windows=1, full=int(calm))


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


def _fits(path: NetworkPath, rate: FoundRate) -> bool:
    return not (too_fast(path, rate) or too_slow(path, rate))
