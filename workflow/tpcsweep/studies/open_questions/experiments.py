"""The experiments that a kernel with netem runs, in user-mode-linux: one knob each. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpcsweep.studies.open_questions.arithmetic import DEFAULT_LIMIT

AMPLE = 20_000
"""Packets that are more than this machine fills: no limit."""
LARGE = 8 * 2**20
"""Bytes of TCP buffers that bind nothing here."""
SMALL = 128 * 2**10
PLENTY = 100_000
"""Pages of memory for TCP that bind nothing here."""
SECONDS = 5
OMITTED = 3
"""Seconds before the measurement, for slow start and what follows its first losses."""


@dataclass(frozen=True)
class Experiment:
    """A path from a sender to a receiver, and TCP connections over it.

    rtt: ms, all of it in netem at the sender's interface, as the shortest tc command has it. limit: netem's, packets.
    mtu, tcp_buffer: bytes. tcp_pages: the last of net.ipv4.tcp_mem's three, in pages of 4 KiB. policer: Gbit/s above
    which packets are dropped on arrival; None: none. loss: fraction of packets.
    """

    explanation: str
    streams: int = 16
    rtt: float = 120.0
    limit: int = AMPLE
    mtu: int = 9000
    offloads: bool = True
    tcp_buffer: int = LARGE
    tcp_pages: int = PLENTY
    policer: float | None = None
    loss: float = 0.0


def corners(one: Experiment) -> tuple[Experiment, ...]:
    """The three experiments that show how throughput goes with streams and with RTT."""
    return tuple(
        replace(one, streams=streams, rtt=rtt) for streams, rtt in ((4, 120.0), (32, 120.0), (32, 30.0))
    )


NONE = Experiment("none")
DEFAULT = Experiment("queue_limit", limit=DEFAULT_LIMIT)
LIMITED = replace(DEFAULT, limit=200)
EXPERIMENTS = (
    *corners(NONE),
    *corners(LIMITED),
    *corners(Experiment("window", tcp_buffer=SMALL)),
    *corners(Experiment("tcp_mem", tcp_pages=1024)),
    *corners(Experiment("policer", policer=0.3)),
    # netem loses what it is handed: whole packets must be of the MTU, as on a path.
    *corners(Experiment("loss", loss=0.005, offloads=False)),
    # Question (1), with netem's own limit: throughput over streams, by MTU and with and without offloads.
    *(replace(DEFAULT, streams=streams) for streams in (4, 16, 64)),
    *(replace(DEFAULT, streams=streams, mtu=1500) for streams in (16, 64)),
    *(replace(DEFAULT, offloads=False, mtu=mtu) for mtu in (9000, 1500)),
    # Question (2): throughput over RTT at fixed streams, with a limit that binds from somewhere in between.
    *(replace(LIMITED, rtt=rtt) for rtt in (10.0, 20.0, 40.0, 60.0, 120.0)),
    *(replace(NONE, rtt=rtt) for rtt in (10.0, 60.0)),
)
