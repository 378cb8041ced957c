"""Is the path what was asked for? Measure its RTT and bandwidth, and refuse it if not.

TCP needs seconds of slow start before it shows a bandwidth; UDP above the rate shows it in a tenth of one:
the bottleneck's queue stays busy, and what leaves the path is its rate.

Nothing of this may be taken for the path: a sender that wakes up late leaves the queue empty, and a look at a
counter that comes late counts what came meanwhile. So the queue is given room for AHEAD seconds of the rate while
its rate is looked at, and every look says whether it was calm: whether the queue was never empty, and nothing
was late by more than a share of the window. A path is refused for what was seen in calm looks alone, or when
there were too few of them in all of PATIENCE.

Which bytes: those that tbf counts, the length of every packet with its IP header, and with its Ethernet
header (14 bytes) where the link is a veth pair; TUN has none. Interface counters count the headers of a GSO
super-packet once and tbf once per segment, so the counters are converted (wire_bytes).
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpcsweep.linux.namespaces import Interface, socket_inside
from tpcsweep.paths import plan
from tpcsweep.paths.link import DIRECTIONS, Link, calibrate
from tpcsweep.paths.plan import ETHERNET, INTERFACE, Path, PathError
from tpcsweep.paths.rtt import Rtt, measure_rtt
from tpcsweep.rates import BYTES, GBIT

RTT_TOLERANCE = (0.02, 0.3)  # relative, and ms: the larger counts
BANDWIDTH_TOLERANCE = (-0.05, 0.03)
CALM_LOOKS = 3  # at what is out of tolerance, before it is refused
PATIENCE = 20.0  # s for these, and for a path of a busy machine to be as asked
WINDOW, LONGEST = 0.1, 0.8  # s: the first window, and what it is doubled to
LATE = 0.02  # of the window: what is later than that is not calm
SETTLE = 0.01  # s from the first packet's arrival to the window
OVERLOAD = 1.2
NAP = 0.001  # s between a sender's looks at the clock
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
    slow: bool = False
    """Whether a rate is below what was asked, and nothing else is wrong."""

    @property
    def bandwidth(self) -> float:
        """The smaller rate of both directions."""
        return min(self.near_to_far, self.far_to_near)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for provenance."""
        return asdict(self)


@dataclass(frozen=True)
class Rate:
    """What left a path in Gbit/s, and whether the machine was calm enough for it to be the path's own."""

    found: float
    calm: bool


def verify(path: Path, link: Link, *, strict: bool = True) -> Measured:
    """Hold a link that is up against the path asked for; takes 0.7 s at RTT 0.

    A queue_limit may keep the rate down by as much as it likes: there the rate is only not to be above.
    What is out of tolerance is measured again, in windows that grow, until it was so in CALM_LOOKS calm looks
    or PATIENCE is over. Then it is refused; but not, unless `strict`, where it is too slow and nothing else.
    Raises PathError with the figures asked for and found.
    """
    give_up = time.monotonic() + PATIENCE
    rtt = _rtt(link)
    rates = [measure_bandwidth(link, reverse=reverse) for reverse in (False, True)]
    attempts, calm, window = 1, 0, WINDOW
    while wrong := complaints(path, rtt, [rate.found for rate in rates]):
        calm += calm_rtt(path.rtt, rtt) and all(rate.calm for rate in rates)
        if calm == CALM_LOOKS or time.monotonic() > give_up:
            if not strict and only_slow(path, rtt, [rate.found for rate in rates]):
                break
            raise PathError(
                f"path from {link.near} to {link.far} (emulator {link.emulator}) is not what was asked for, "
                f"measured {attempts} times, {calm} of them on a calm machine: {'; '.join(wrong)}"
            )
        window = min(2 * window, LONGEST)
        if not rtt_fits(path.rtt, rtt.median):
            if link.line:
                calibrate(link)  # the machine may have been busy when the line's own cost was measured
            rtt = _rtt(link)
        for i, rate in enumerate(rates):
            if not bandwidth_fits(path, rate.found):
                rates[i] = measure_bandwidth(link, reverse=bool(i), window=window)
        attempts += 1
    return Measured(rtt, rates[0].found, rates[1].found, attempts, slow=bool(wrong))


def measure_bandwidth(link: Link, *, reverse: bool = False, window: float = WINDOW) -> Rate:
    """The rate at which bytes leave the path, near to far or the reverse.

    Offers 1.2 × the path's bandwidth as UDP to a socket that never reads, in GSO super-packets of at most
    0.5 ms each, and reads the receiving interface's counters over `window` seconds, from after the token
    bucket's first burst on. Returns when the path is empty again. Where random loss comes after the rate
    (delay line), the rate before it is given.
    """
    path = link.path
    ends = ((link.near, link.near_address), (link.far, link.far_address))
    (source, _), (target, address) = ends[::-1] if reverse else ends
    payload, segments = packets(path)
    room = plan.ahead(path)
    counters = Interface(target, INTERFACE)
    try:
        with (
            _roomy(link, room),
            socket_inside(target, socket.AF_INET, socket.SOCK_DGRAM) as sink,
            socket_inside(source, socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sink.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)  # super-packets are dropped whole, at less CPU
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            sink.bind((address, 0))
            buffer = min(2 * (plan.queue_bytes(path) + room), LARGEST_BUFFER)
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, buffer)
            sender.setblocking(False)
            sender.connect(sink.getsockname())
            sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, payload)
            seconds, found, calm, left = _overload(sender, counters, path, payload * segments, window)
            time.sleep(drain(path, left))
    finally:
        counters.close()
    header = HEADERS + (0 if link.emulator == "delayline" else ETHERNET)
    lost = path.loss if link.emulator == "delayline" else 0.0
    return Rate(wire_bytes(found, payload, header) * GBIT / seconds / (1 - lost), calm)


@contextlib.contextmanager
def _roomy(link: Link, room: int) -> Iterator[None]:
    """Room for some bytes more in the queues before the rate."""
    link.give_room(room)
    try:
        yield
    finally:
        link.give_room(0)


def _overload(
    sender: socket.socket, counters: Interface, path: Path, size: int, window: float
) -> tuple[float, dict[str, int], bool, float]:
    """Send above the rate, and look twice at what has arrived.

    Gives the seconds between the looks, what arrived in them, whether they were calm, and at most how many bytes
    are still in the queue.
    """
    data = bytes(size)
    full = plan.burst(path)  # the token bucket is full at first: empty it at once
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
        due = min(full + plan.ahead(path) + (now - begin) * offered, enough)
        while sent < due:
            try:
                sender.send(data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                    raise
                sent = int(due)  # the queue is full, which is what is wanted
                break
            sent += size
        asleep = time.monotonic()
        time.sleep(NAP)
        late = max(late, time.monotonic() - asleep - NAP)


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


def drain(path: Path, left: float) -> float:
    """Seconds until a path is empty that has so many bytes left in its queue."""
    return max(0.0, left) / (path.bandwidth * BYTES) + path.rtt / 2e3 + SETTLE


def allowed_rtt(asked: float) -> float:
    """What an RTT may be off by, both in ms."""
    return max(RTT_TOLERANCE[0] * asked, RTT_TOLERANCE[1])


def rtt_fits(asked: float, found: float) -> bool:
    """Whether an RTT in ms is as asked, within RTT_TOLERANCE."""
    return abs(found - asked) <= allowed_rtt(asked)


def calm_rtt(asked: float, found: Rtt) -> bool:
    """Whether half of the answers took no longer than the fastest one, within the tolerance: the path's own time."""
    return found.median - found.min <= allowed_rtt(asked)


def bandwidth_tolerance(path: Path) -> tuple[float, float]:
    """What a rate may be off by, as shares of the bandwidth: a queue_limit takes away what it takes."""
    low, high = BANDWIDTH_TOLERANCE
    return (low if path.queue_limit is None else -1.0), high


def bandwidth_fits(path: Path, found: float) -> bool:
    """Whether a rate in Gbit/s is as asked, within the tolerance."""
    low, high = bandwidth_tolerance(path)
    return low <= found / path.bandwidth - 1 <= high


def only_slow(path: Path, rtt: Rtt, rates: Sequence[float]) -> bool:
    """Whether nothing is out of tolerance but rates in Gbit/s that are too low."""
    _, high = bandwidth_tolerance(path)
    return rtt_fits(path.rtt, rtt.median) and all(rate / path.bandwidth - 1 <= high for rate in rates)


def complaints(path: Path, rtt: Rtt, rates: Sequence[float]) -> list[str]:
    """What is out of tolerance, with both figures; empty where the path is as asked."""
    wrong = []
    if not rtt_fits(path.rtt, rtt.median):
        wrong.append(
            f"rtt asked {path.rtt:g} ms, found {rtt.median:.3g} ms (median of {rtt.samples}, "
            f"{rtt.min:.3g} to {rtt.max:.3g}), allowed ±{allowed_rtt(path.rtt):.2g} ms"
        )
    low, high = bandwidth_tolerance(path)
    for direction, rate in zip(DIRECTIONS, rates, strict=True):
        if not bandwidth_fits(path, rate):
            wrong.append(
                f"bandwidth {direction} asked {path.bandwidth:g} Gbit/s, found {rate:.4g} Gbit/s, "
                f"allowed {low:+.0%} to {high:+.0%}"
            )
    return wrong
