# SPDX-License-Identifier: Apache-2.0
"""Connect two router namespaces by a path, measure its RTT, read its counters, and remove it."""

import contextlib
import hashlib
import json
import os
import re
import shlex
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tpcsweep.common import processes
from tpcsweep.common.processes import CommandError, Commands
from tpcsweep.deploying.linux.namespaces import Interface
from tpcsweep.deploying.paths import delayline, network_path
from tpcsweep.deploying.paths.network_path import HEADERS, INTERFACE, Emulator, NetworkPath, PathError

CALIBRATION = 500_000  # ns one way: an RTT of 1 ms, where ping's resolution is 10 µs
# ms; a larger base cost comes from a busy machine, not from the delay line, and is not subtracted
LARGEST_BASE = 1.0
DIRECTIONS = ("near_to_far", "far_to_near")
SEGMENTING = ("tcp-segmentation-offload", "generic-segmentation-offload", "tx-udp-segmentation")
OFFLOADS = (*SEGMENTING, "generic-receive-offload")
PINGS = 17
PING_INTERVAL = 0.01  # s
PING_PATIENCE = 3  # s without any answer; only a broken path takes that long


@dataclass(frozen=True)
class Rtt:
    """Round-trip times in ms. ping prints three digits, so the median's resolution is 1 % or better."""

    min: float
    median: float
    max: float
    samples: int


class Link(contextlib.ExitStack):
    """Running path between the interfaces tpc-path of the namespaces `near` and `far`, which remain when it closes."""

    def __init__(
        self,
        path: NetworkPath,
        emulator: Emulator,
        near: tuple[str, str],
        far: tuple[str, str],
        commands: Commands,
    ) -> None:
        super().__init__()
        self.path, self.emulator = path, emulator
        self.near, self.near_address = near[0], near[1].partition("/")[0]
        self.far, self.far_address = far[0], far[1].partition("/")[0]
        self.commands = commands
        self.line: delayline.DelayLine | None = None
        self.base_rtt = 0.0  # ms that the delay line itself costs, subtracted from the delay
        self._interfaces: list[Interface] = []

    def describe(self) -> dict[str, Any]:
        """Return the settings of the path, and the kernel's view of them, as plain values for JSON."""
        path = self.path
        description: dict[str, Any] = {
            "emulator": self.emulator,
            "kernel": os.uname().release,
            "interface": INTERFACE,
            "mtu_bytes": path.mtu,
            "bdp_bytes": network_path.bdp(path),
            "queue_bytes": network_path.queue_bytes(path),
            "burst_bytes": network_path.burst(path),
            "qdiscs": {},
            "offloads": {},
            **network_path.describe_limit(path),
        }
        for direction, namespace in self._ends():
            qdiscs = self.commands.run(["tc", "-n", namespace, "-j", "qdisc", "show", "dev", INTERFACE])
            description["qdiscs"][direction] = json.loads(qdiscs)
            features = self.commands.run(["ip", "netns", "exec", namespace, "ethtool", "-k", INTERFACE])
            description["offloads"][direction] = offloads(features)
        if self.emulator == "netem":
            description["netem_limit_packets"] = network_path.netem_limit(path)
        if self.line:
            description["delayline"] = {
                "source_sha256": hashlib.sha256(delayline.SOURCE.read_bytes()).hexdigest(),
                "flags": list(delayline.FLAGS),
                "scheduler": self.line.scheduler,
                "rate_bit_per_s": network_path.rate_bit(path),
                "delay_ns": self.line.delay,
                "tick_ns": network_path.tick_ns(path),
                "queue_bytes": self.line.queue,
                "base_rtt_ms": self.base_rtt,
                "memory_bytes": network_path.memory(path),
            }
        return description

    def counters(self) -> dict[str, int]:
        """Return counters of packets and bytes, summed over both directions; `drops` counts all losses."""
        one, other = self.directions().values()
        totals = {key: value + other[key] for key, value in one.items() if "late" not in key}
        return {"drops": totals["dropped_queue"] + totals["dropped_random"], **totals}

    def directions(self) -> dict[str, dict[str, int]]:
        """Return the counters of near_to_far and far_to_near since the start; super-packets count as one.

        - dropped_queue: packets that found a full queue.
        - dropped_random: packets lost at random. With netem on a path with loss this includes packets beyond its limit,
          because the kernel counts them together.
        - queued_bytes: bytes that currently wait for the rate.
        - delayed_bytes: bytes that are currently delayed; 0 with netem, which counts them in queued_bytes.
        - late_mean_us, late_max_us: lateness of packets that left the delay line.

        Takes 4 ms, or microseconds with the delay line. The commands are not logged, because samplers repeat them.
        Raises PathError if the path is gone.
        """
        if self.line is None:
            lossy = self.path.loss > 0
            return {name: qdisc_counters(_qdisc_statistics(end), lossy=lossy) for name, end in self._ends()}
        refused = [interface.read()["tx_dropped"] for interface in self._interfaces]
        now = time.monotonic_ns()
        both = zip(DIRECTIONS, self.line.statistics(), refused, strict=True)
        return {name: line_counters(seen, self.path, now, dropped) for name, seen, dropped in both}

    def rtt(self) -> Rtt:
        """Ping the far end for 0.2 s and about three RTTs. Raises PathError without an answer.

        Before these pings, three packets of the full MTU that must not be fragmented warm up ARP and verify the MTU;
        three, because one may be lost at random.
        """
        ping = ["ip", "netns", "exec", self.near, "ping", "-n", "-W", str(PING_PATIENCE)]
        full = ["-M", "do", "-s", str(self.path.mtu - HEADERS), "-c", "3", "-i", "0.002", self.far_address]
        try:
            self.commands.run([*ping, *full])
            answers = self.commands.run([*ping, "-c", str(PINGS), "-i", str(PING_INTERVAL), self.far_address])
        except CommandError as error:
            place = f"{self.far_address} from {self.near} with packets of {self.path.mtu} bytes"
            raise PathError(f"path: {place}: {error}") from error
        return parse_ping(answers)

    def resize_queues(self, room: int) -> None:
        """Let the queues before the rate hold `room` bytes more than plan.queue_bytes(), or fewer if negative."""
        if self.line:
            self.line.queue = network_path.queue_bytes(self.path) + room
            return
        for _, namespace in self._ends():
            changed = network_path.qdiscs(self.path, self.emulator, room, "change")
            self.commands.batch(["tc", "-n", namespace], changed)

    def fault(self) -> str | None:
        return None if self.line is None else self.line.fault()

    def _delete(self) -> None:
        with contextlib.suppress(CommandError):  # the namespace, and the veth pair with it, may be gone
            self.commands.run(["ip", "-n", self.near, "link", "delete", INTERFACE])

    def _ends(self) -> tuple[tuple[str, str], ...]:
        return tuple(zip(DIRECTIONS, (self.near, self.far), strict=True))


def connect(
    path: NetworkPath,
    near: tuple[str, str],
    far: tuple[str, str],
    commands: Commands,
    folder: Path,
    prefix: Sequence[str] = (),
) -> Link:
    """Connect two existing namespaces by a path; the returned link is up but not verified.

    `near` is the source's namespace and the address of its tpc-path, such as ("tpc-a", "10.88.0.1/30"); `far` that of
    the destination. `folder` and `prefix` are those of a `DelayLine`. Raises PathError or CommandError if the path
    cannot be created.
    """
    emulator = network_path.choose_emulator(
        path, netem_works=(path.rtt > 0 or path.loss > 0) and netem_works()
    )
    link = Link(path, emulator, near, far, commands)
    ends = (near, far)
    with contextlib.ExitStack() as undo:
        undo.push(link)
        if emulator == "delayline":
            link.line = delayline.DelayLine(path, CALIBRATION, near[0], far[0], commands, folder, prefix)
            link.callback(link.line.close)
        else:
            link.callback(link._delete)
            mtu = f"{INTERFACE} mtu {path.mtu}"
            pair = f"link add {mtu} type veth peer name {mtu} netns {far[0]}"
            commands.batch(["ip", "-n", near[0]], [pair])
        for namespace, address in ends:
            if Path("/proc/sys/net/ipv6").exists():  # IPv6's own traffic would be counted
                off = f"net.ipv6.conf.{INTERFACE}.disable_ipv6=1"
                commands.run(["ip", "netns", "exec", namespace, "sysctl", "-qw", off])
            if emulator != "delayline":  # which limits the rate itself
                commands.batch(["tc", "-n", namespace], network_path.qdiscs(path, emulator))
            queue = f"txqueuelen {delayline.DEVICE_QUEUE} " if link.line else ""
            up = f"link set dev {INTERFACE} mtu {path.mtu} {queue}up"
            commands.batch(["ip", "-n", namespace], [f"address add {address} dev {INTERFACE}", up])
        if link.line:
            for namespace, _ in ends:
                link._interfaces.append(Interface(namespace, INTERFACE))
                link.callback(link._interfaces[-1].close)
            calibrate_line(link)
        undo.pop_all()
    return link


def parse_ping(text: str) -> Rtt:
    times = [float(time) for time in re.findall(r"\btime=([\d.]+) ms", text)]
    if not times:
        raise PathError(f"path: ping printed no times: {text.strip()[-200:]}")
    return Rtt(min(times), statistics.median(times), max(times), len(times))


def calibrate_line(link: Link) -> None:
    """Measure the cost of the idle delay line, and set its delay to the rest of the requested RTT.

    The cost is two wake-ups of a thread, for any delay. A loaded line sleeps less and costs less, so the RTT under load
    can be shorter than requested by up to this amount (docs/paths.md).
    """
    assert link.line is not None
    link.line.delay = CALIBRATION
    link.base_rtt = min(max(0.0, link.rtt().median - 2 * CALIBRATION / 1e6), LARGEST_BASE)
    link.line.delay = max(0, round((link.path.rtt - link.base_rtt) * 500_000))


@cache
def netem_works() -> bool:
    """Return whether this kernel has sch_netem, by adding one in a temporary namespace.

    Raises PathError if that is impossible, for example because an ordinary user may create no namespaces.
    """
    unshare = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--net"]
    unshared = processes.run([*unshare, "true"])
    if unshared.returncode != 0:
        raise PathError(f"path: {shlex.join(unshare)}: {unshared.stderr.strip()}")
    add = [*unshare, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    return processes.run(add).returncode == 0


def offloads(features: str) -> dict[str, bool]:
    """Return the segmentation and receive offloads in the output of `ethtool -k`."""
    pairs = (line.strip().partition(": ") for line in features.splitlines())
    return {name: value.startswith("on") for name, _, value in pairs if name in OFFLOADS}


def qdisc_counters(qdiscs: list[dict[str, Any]], *, lossy: bool) -> dict[str, int]:
    """Return the counters of one direction from the output of `tc -s -j qdisc show`.

    netem's own count of drops includes those of its child, which are subtracted. It lost the rest at random if the path
    is lossy, otherwise because of its limit.
    """
    by_kind = {qdisc["kind"]: qdisc for qdisc in qdiscs}
    if "tbf" not in by_kind:
        raise PathError(f"path: no tbf on {INTERFACE}; found {', '.join(by_kind) or 'no qdisc'}")
    full = int(by_kind["tbf"]["drops"])
    root = by_kind.get("netem", by_kind["tbf"])
    own = int(root["drops"]) - full if "netem" in by_kind else 0
    return {
        "dropped_queue": full + (0 if lossy else own),
        "dropped_random": own if lossy else 0,
        "queued_bytes": int(root["backlog"]),
        "delayed_bytes": 0,
    }


def line_counters(seen: delayline.Direction, path: NetworkPath, now: int, refused: int) -> dict[str, int]:
    """Return the counters of one direction of the delay line, and of packets that the device `refused` before.

    Bytes that the bottleneck sends from `now`, time.monotonic_ns(), until it is free wait for the rate.
    """
    waiting = min(network_path.bytes_in(path, max(0, seen.busy - now) / 1e6), seen.held)
    return {
        "dropped_queue": seen.dropped + refused,
        "dropped_random": seen.lost,
        "queued_bytes": waiting,
        "delayed_bytes": seen.held - waiting,
        "late_mean_us": seen.late_sum // max(1, seen.packets) // 1000,
        "late_max_us": seen.late_max // 1000,
    }


def _qdisc_statistics(namespace: str) -> list[dict[str, Any]]:
    argv = ["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", INTERFACE]
    done = processes.run(argv)
    if done.returncode != 0:
        raise PathError(f"path: {INTERFACE} in {namespace} is gone: {done.stderr.strip()}")
    qdiscs: list[dict[str, Any]] = json.loads(done.stdout)
    return qdiscs
