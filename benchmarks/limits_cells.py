# SPDX-License-Identifier: Apache-2.0
"""Randomly drawn cells with known limits, for `benchmarks.limits_blind`.

`far` cells have a limit that allows at most two fifths of any other limit, `close` cells one that allows about 0.5 to
0.75 of the next one: by TCP's laws, by the shares of TCP buffers that the kernel uses, and by a measured throughput for
each core.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tpcsweep.common.numbers import BYTES, GBIT_PER_MS
from tpcsweep.deploying.linux import cgroups
from tpcsweep.deploying.linux.cgroups import Cgroup
from tpcsweep.deploying.paths.network_path import SUPER_PACKET
from tpcsweep.measuring import tcp
from tpcsweep.measuring.limits import ROUND_TRIPS
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.constructions import BLKIO, burning, disk, queue
from tests.support.sites import MIB, cell

KIB = 1 << 10
SPARE = 2.5
"""Least factor by which any other limit exceeds that of a far cell."""
NEAR = (0.5, 0.75)
"""What the limit of a close cell allows, over what the next one allows."""
PER_CORE = 5.0  # Gbit/s, docs/studies.md
FIRST_GUESS = {"src": 10.0, "dst": 2.5}  # Gbit/s for each core of a side, with which it is measured
MOST = 0.4  # Gbit/s that two CPUs can easily move, including the delay line
SLOWEST = 0.008
"""Least Gbit/s of a stream: servers write blocks of 1 MiB, of which a cell needs some."""
BUFFER_USED = (0.6, 0.75)  # share of a TCP buffer that the kernel uses
Arranged = Callable[[NetnsSite], AbstractContextManager[None]]


@dataclass(frozen=True)
class Built:
    """Cell with a known limit, and the temporary changes to its deployment."""

    limit: str
    parameters: Mapping[str, Any]
    arranged: Arranged = field(default=lambda _: contextlib.nullcontext())
    how: str = ""

    @property
    def text(self) -> str:
        return ", ".join(filter(None, (text(self.parameters), self.how)))


@dataclass(frozen=True)
class Group:
    """Cells of one deployment."""

    deployment: Mapping[str, Any]
    cells: Sequence[Built]
    causes: str = "far"


def text(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def quota(side: str, cores: float) -> Arranged:
    """Return a quota for `src`, `dst` or `client`, split equally over a side's origins."""

    @contextlib.contextmanager
    def arranged(site: NetnsSite) -> Iterator[None]:
        groups = groups_of(site, side)
        for group in groups:
            group.limit(cgroups.quota(cores / len(groups)))
        try:
            yield
        finally:
            for group in groups:
                group.limit(None)

    return arranged


def groups_of(site: NetnsSite, who: str) -> list[Cgroup]:
    """Return the cgroup of the client, or those of a side's origins."""
    return [site.groups[name] for name in (["client"] if who == "client" else site.sides[who].names)]


@dataclass
class Cores:
    """Quotas that allow a wanted throughput, by the throughput for each core, which is measured at first use."""

    wanted: Mapping[str, Any]
    measured_at: float  # Gbit/s
    _known: dict[str, float] = field(default_factory=dict)

    def allow(self, rates: Mapping[str, float]) -> Arranged:
        """Return quotas of sides that allow `rates` in Gbit/s."""

        @contextlib.contextmanager
        def arranged(site: NetnsSite) -> Iterator[None]:
            with contextlib.ExitStack() as limited:
                # All are measured before any is limited.
                quotas = [quota(side, rate / self._per_core(site, side)) for side, rate in rates.items()]
                for limit in quotas:
                    limited.enter_context(limit(site))
                yield

        return arranged

    def _per_core(self, site: NetnsSite, side: str) -> float:
        if side not in self._known:
            cores = self.measured_at / FIRST_GUESS[side]
            with quota(side, cores)(site):
                found = cell(site, Measurement(min_time=4.0, max_time=4.0), **self.wanted)
            self._known[side] = found["summary"]["throughput"] / cores
        return self._known[side]


def stopped(who: str, share: float, period: float) -> Arranged:
    """Stop the client or a side's origins for a share of each period: they wait, and use nothing."""

    @contextlib.contextmanager
    def arranged(site: NetnsSite) -> Iterator[None]:
        over = threading.Event()
        groups = groups_of(site, who)

        def tell(number: int) -> None:
            for pid in {pid for group in groups for pid in group.pids()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

        def stop() -> None:
            while not over.wait((1 - share) * period):
                tell(signal.SIGSTOP)
                over.wait(share * period)
                tell(signal.SIGCONT)

        stopping = threading.Thread(target=stop)
        stopping.start()
        try:
            yield
        finally:
            over.set()
            stopping.join()

    return arranged


class Draw(random.Random):
    """Source of drawn parameters."""

    def ratio(self, low: float, high: float) -> float:
        return float(f"{low * (high / low) ** self.random():.3g}")

    def near(self) -> float:
        return round(self.uniform(*NEAR), 2)

    def how(self) -> dict[str, Any]:
        return {"tool": self.choice(["curl", "native"]), "copy_mode": self.choice(["pull", "push"])}

    def large(self) -> dict[str, Any]:
        return {**self.how(), "file_size": self.choice([48, 96, 160, 256]) * MIB}


def lossy_rate(mtu: int, control: str, rtt: float, loss: float) -> float:
    """Return the Gbit/s of a connection under random loss."""
    rate = float(tcp.mathis(tcp.payload(mtu), rtt, loss))
    return max(rate, tcp.cubic(tcp.payload(mtu), rtt, loss)) if control == "cubic" else rate


def far(draw: Draw) -> Iterator[Group]:
    """Yield 22 cells."""
    mtu, origins = draw.choice([(1500, 1), (9000, 2), (1500, 2)])
    found = {"rtt": draw.ratio(1, 60), "bandwidth": draw.ratio(0.04, 0.15), "mtu": mtu, "origins": origins}
    found["congestion_control"] = draw.choice(["cubic", "reno"])
    # One stream fills the path for two seconds between its pauses; one of two origins is idle.
    size = int(2 * found["bandwidth"] * BYTES)
    pausing = {**draw.how(), "streams": 1, "file_size": size}
    filling = {**draw.large(), "streams": draw.randint(1, 8)}
    yield Group(found, [Built("bandwidth", filling), Built("bandwidth", pausing)])

    buffer = draw.choice([512 * KIB, 2 * MIB, 4 * MIB])
    rate = 2 * MOST
    while rate > MOST:
        rtt = draw.ratio(25, 160)
        rate = float(tcp.window_rate(BUFFER_USED[1] * buffer, rtt))
    most = min(4, int(MOST / rate))
    cells = [Built("window", {**draw.large(), "streams": draw.choice([1, most])}) for _ in range(2)]
    found = {"rtt": rtt, "bandwidth": SPARE * MOST, "tcp_buffer": buffer, "origins": draw.randint(1, 2)}
    yield Group(found, cells)

    mtu, rtt, bandwidth = draw.choice([1500, 9000]), draw.ratio(50, 200), draw.ratio(0.2, 0.8)
    cells = []
    while len(cells) < 2:
        size, streams = int(draw.ratio(32, 2048)) * KIB, draw.randint(1, 3)
        rounds = 4 + float(tcp.slow_start(size, tcp.first_window(mtu)))
        if rounds * rtt >= SPARE * size * streams * 8e-6 / bandwidth:
            cells.append(Built("between_files", {**draw.how(), "file_size": size, "streams": streams}))
    yield Group({"rtt": rtt, "bandwidth": bandwidth, "mtu": mtu}, cells)

    for mtu, control in ((1500, "reno"), (9000, "cubic")):
        rate = 1.0
        while not SLOWEST < rate < MOST / SPARE / 4:
            rtt, loss = draw.ratio(8, 90), draw.ratio(0.003, 0.03)
            rate = lossy_rate(mtu, control, rtt, loss)
        found = {"rtt": rtt, "bandwidth": 0.5, "loss": loss, "mtu": mtu, "congestion_control": control}
        yield Group(found, [Built("loss", {**draw.large(), "streams": draw.randint(1, 4)})])

    yield _short_queues(draw, draw.choice([1500, 9000]), "far")
    # Like netem's default on long paths: packets in flight of any size fill the limit (docs/paths.md).
    rtt = draw.ratio(30, 120)
    limit = int(0.5 / SPARE * rtt / 2 / GBIT_PER_MS / SUPER_PACKET)
    crowded = Built("path_queue", {**draw.large(), "streams": draw.randint(1, 2)})
    yield Group({"rtt": rtt, "bandwidth": 0.5, "queue_limit": limit}, [crowded])

    origins, mtu = draw.choice([(1, 1500), (2, 9000)])
    found = {"rtt": draw.ratio(1, 12), "bandwidth": 1.0, "origins": origins, "mtu": mtu}
    cells = list(_exhausted(draw)) + list(_stopped(draw))
    yield Group(found, draw.sample(cells, len(cells)))

    cells = [
        Built("machine", {**draw.large(), "streams": draw.randint(1, 2)}, burning, "busy loops on all CPUs")
        for _ in range(2)
    ]
    yield Group({"rtt": draw.ratio(0.5, 10), "bandwidth": draw.ratio(2, 5)}, cells)

    if BLKIO.is_dir():
        cells = [_disk(draw, int(draw.ratio(2e6, 15e6))) for _ in range(2)]
        yield Group({"rtt": draw.ratio(1, 20), "bandwidth": draw.ratio(0.4, 1)}, cells)


def _short_queues(draw: Draw, mtu: int, causes: str) -> Group:
    found = {"rtt": draw.ratio(10, 60), "bandwidth": draw.ratio(0.3, 0.9), "mtu": mtu}
    most, streams = 14, 3
    if causes == "close":
        # One Reno connection without a queue sends three quarters of the rate; here a window has 60 packets or more.
        found = {"rtt": draw.ratio(15, 30), "bandwidth": draw.ratio(0.3, 0.5), "mtu": mtu}
        found["congestion_control"] = "reno"
        most, streams = 8, 1
    cells = []
    for _ in range(2):
        packets = draw.randint(4, most)
        built = {**draw.large(), "streams": draw.randint(1, streams)}
        cells.append(Built("path_queue", built, queue(packets), f"queues of {packets} packets"))
    return Group(found, cells, causes)


def _exhausted(draw: Draw) -> Iterator[Built]:
    for side, limit in (("src", "cpu_source"), ("dst", "cpu_destination")):
        cores = draw.ratio(0.03, MOST / PER_CORE)
        built = {**draw.large(), "streams": draw.randint(1, 10)}
        yield Built(limit, built, quota(side, cores), f"{cores:g} cores for {side}")
    for tool, low, high in (("gfal-copy", 0.05, 0.2), ("curl", 0.01, 0.03)):
        cores = draw.ratio(low, high)
        built = {"tool": tool, "file_size": draw.randint(1, 8) * MIB, "streams": draw.randint(1, 6)}
        built["copy_mode"] = draw.choice(["pull", "push"])
        yield Built("client", built, quota("client", cores), f"{cores:g} cores for the client")


def _stopped(draw: Draw) -> Iterator[Built]:
    for who in ("client", "src", "dst"):
        share, period = round(draw.uniform(0.6, 0.9), 2), draw.ratio(0.3, 1.0)
        size = draw.randint(2, 16) if who == "client" else 128
        built = {"tool": "curl", "file_size": size * MIB, "streams": draw.randint(1, 3)}
        built["copy_mode"] = draw.choice(["pull", "push"])
        limit = "between_files" if who == "client" else "none_found"
        about = f"{who} stopped for {share:g} of each {period:g} s"
        yield Built(limit, built, stopped(who, share, period), about)


def _disk(draw: Draw, rate: int, limit: str = "disk") -> Built:
    built = {**draw.how(), "file_size": draw.choice([16, 48, 96]) * MIB, "streams": draw.randint(1, 4)}
    return Built(limit, built, disk(rate), f"a disk of {rate / 1e6:.2g} MB/s")


def close(draw: Draw) -> Iterator[Group]:
    """Yield 44 cells."""
    least, most = BUFFER_USED
    for buffer in (512 * KIB, MIB, 2 * MIB):
        # One connection is too slow for the path, some are not.
        rate = 2 * MOST
        while rate > MOST / 2:
            rtt = draw.ratio(20, 160)
            rate = float(tcp.window_rate(buffer, rtt))
        bandwidth = float(f"{most * rate / draw.near():.3g}")
        streams = next(n for n in range(2, 9) if bandwidth <= NEAR[1] * n * least * rate)
        one, some = {**draw.large(), "streams": 1}, {**draw.large(), "streams": streams}
        found = {"rtt": rtt, "bandwidth": bandwidth, "tcp_buffer": buffer}
        yield Group(found, [Built("window", one), Built("bandwidth", some)], "close")

    for mtu, control in ((1500, "reno"), (1500, "cubic"), (9000, "cubic")):
        rtt, loss, rate = _drawn_loss(draw, mtu, control)
        bandwidth = float(f"{rate / draw.near():.3g}")
        streams = next(n for n in range(2, 9) if bandwidth <= NEAR[1] * n * rate)
        one, some = {**draw.large(), "streams": 1}, {**draw.large(), "streams": streams}
        found = {"rtt": rtt, "bandwidth": bandwidth, "loss": loss, "mtu": mtu, "congestion_control": control}
        yield Group(found, [Built("loss", one), Built("bandwidth", some)], "close")

    for limit in ("loss", "window"):
        mtu, control = draw.choice([(1500, "reno"), (9000, "cubic")])
        rtt, loss, rate = _drawn_loss(draw, mtu, control)
        # Bytes of a buffer that lets the rate of the loss through.
        whole = rate * rtt / GBIT_PER_MS
        buffer = int(whole / least / draw.near() if limit == "loss" else whole * draw.near() / most)
        found = {"rtt": rtt, "bandwidth": float(f"{SPARE * rate * 2:.3g}"), "loss": loss, "mtu": mtu}
        found |= {"congestion_control": control, "tcp_buffer": buffer}
        cells = [Built(limit, {**draw.large(), "streams": streams}) for streams in (1, 2)]
        yield Group(found, cells, "close")

    for _ in range(2):
        yield _short_queues(draw, 9000, "close")
    for mtu in (1500, 9000, 1500):
        yield _near_quotas(draw, mtu)
    yield _unequal_quotas(draw)

    for mode in ("pull", "push"):
        rtt, bandwidth, mtu = draw.ratio(40, 120), draw.ratio(0.05, 0.2), draw.choice([1500, 9000])
        cells = []
        for limit in ("between_files", "bandwidth"):
            ratio = draw.near() ** (1 if limit == "between_files" else -1)
            pause = rtt * (ROUND_TRIPS[mode] + _rounds(bandwidth * rtt / GBIT_PER_MS, mtu))
            built = {"tool": "curl", "copy_mode": mode, "streams": 1}
            built["file_size"] = int(ratio * pause * bandwidth / GBIT_PER_MS)
            cells.append(Built(limit, built))
        yield Group({"rtt": rtt, "bandwidth": bandwidth, "mtu": mtu}, cells, "close")

    if BLKIO.is_dir():
        bandwidth = draw.ratio(0.04, 0.12)
        cells = [
            _disk(draw, int(bandwidth * BYTES * (draw.near() if limit == "disk" else 1 / draw.near())), limit)
            for limit in ("disk", "bandwidth", "disk", "bandwidth")
        ]
        yield Group({"rtt": draw.ratio(1, 20), "bandwidth": bandwidth}, cells, "close")


def _rounds(most: float, mtu: int) -> float:
    return float(tcp.growth_rounds(most, tcp.first_window(mtu)))


def _drawn_loss(draw: Draw, mtu: int, control: str) -> tuple[float, float, float]:
    """Return an RTT in ms, a loss, and the Gbit/s of a connection, which loses three packets a second or more."""
    while True:
        rtt, loss = draw.ratio(6, 40), draw.ratio(0.0005, 0.01)
        rate = lossy_rate(mtu, control, rtt, loss)
        if 0.01 < rate < MOST / 4 and rate * BYTES / mtu * loss >= 3:
            return rtt, loss, rate


def _near_quotas(draw: Draw, mtu: int) -> Group:
    """Return cells whose quotas allow less or more than the path: small ones, because few cores fill it."""
    bandwidth, common = draw.ratio(0.15, 0.5), {**draw.large(), "streams": draw.randint(1, 6)}
    found = {"rtt": draw.ratio(1, 12), "bandwidth": bandwidth, "mtu": mtu}
    cores, cells = Cores({**found, **common}, 0.4 * bandwidth), []
    for side, limit in (("src", "cpu_source"), ("dst", "cpu_destination")):
        for name, ratio in ((limit, draw.near()), ("bandwidth", round(1 / draw.near(), 2))):
            about = f"cores of {side} for {ratio:g} of the path"
            cells.append(Built(name, common, cores.allow({side: ratio * bandwidth}), about))
    return Group(found, cells, "close")


def _unequal_quotas(draw: Draw) -> Group:
    """Return cells in which both sides have quotas."""
    common = {**draw.large(), "streams": draw.randint(1, 6)}
    found = {"rtt": draw.ratio(1, 12), "bandwidth": 1.0}
    cores, cells = Cores({**found, **common}, 0.2), []
    for limit, one, other in (("cpu_source", "src", "dst"), ("cpu_destination", "dst", "src")):
        for rate in (draw.ratio(0.1, 0.2), draw.ratio(0.1, 0.2)):
            rates = {one: rate, other: float(f"{rate / draw.near():.3g}")}
            about = ", ".join(f"cores of {side} for {value:g} Gbit/s" for side, value in rates.items())
            cells.append(Built(limit, common, cores.allow(rates), about))
    return Group(found, cells, "close")
