# SPDX-License-Identifier: Apache-2.0
"""The network between pods: what it is like, and an emulated path on top of it.

RTT, MTU and rate are looked at by TCP connections, for which no privilege is needed: RTT of the handshake and path MTU
are the kernel's own figures (tcp(7), struct tcp_info in linux/tcp.h).

An emulated path delays, limits and drops what goes to the other side alone, which needs NET_ADMIN:

    htb ── directly: everything else
        └─ class 4, chosen by the other side's addresses: netem (half of the RTT, loss) ── tbf (rate)

Both sides do it for what they send, so that together they make the path; each origin gets its share of the rate.
Sources: tc-htb(8), tc-u32(8), tc-netem(8), tc-tbf(8).
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpcsweep.linux.counters import CounterFile
from tpcsweep.linux.namespaces import parse_net_dev
from tpcsweep.paths import plan

_PATH = struct.Struct("=16xI40xI4xI")
"""Of struct tcp_info: snd_mss, pmtu, rtt in µs."""
_UNDER_WAY = struct.Struct("=24xIIII")
"""unacked, sacked, lost, retrans (packets_out and what tcp_packets_in_flight takes off and adds, net/tcp.h)."""
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what has not been sent, and resets (socket(7))."""
LOOKS = (0.002, 0.01)
"""Seconds between looks at what is under way, at least and at most."""
SECONDS = 10.0
BLOCK = bytes(1 << 18)
SYSCTLS = ("tcp_rmem", "tcp_wmem", "tcp_no_metrics_save", "tcp_congestion_control")
PASS = f"rate 200gbit burst 1m cburst 1m quantum {plan.SUPER_PACKET}"
"""More than any path may have: a class that lets everything through."""
_emulated: list[str] = []
"""The interface with an emulated path, where there is one."""


def interface_to(address: str) -> str:
    """The interface by which an address is reached."""
    done = subprocess.run(
        ["ip", "-json", "route", "get", address], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)[0]["dev"])


def identity() -> str:
    """What tells this network from all others: pods may share that of a node."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/net').stat().st_ino}"


def describe(addresses: Iterable[str]) -> dict[str, Any]:
    """This network, its interfaces to these addresses, and the sysctls that bound its connections."""
    interfaces = sorted(set(map(interface_to, addresses)))
    files = [Path("/proc/sys/net/ipv4", name) for name in SYSCTLS]
    sysctls = {f"net.ipv4.{file.name}": " ".join(file.read_text().split()) for file in files if file.exists()}
    return {"network": identity(), "interfaces": interfaces, "sysctls": sysctls}


def own(address: str) -> None:
    """Refuse an address that this network does not have. Raises RuntimeError."""
    with socket.socket() as bound:
        try:
            bound.bind((address, 0))
        except OSError as error:
            raise RuntimeError(f"{address} is no address of this node: {error.strerror}") from None


def round_trips(address: str, port: int, count: int, word: bytes) -> tuple[list[float], int]:
    """RTT of `count` handshakes in ms, and the path MTU in bytes after the word and a MiB have been sent."""
    rtts = []
    for _ in range(count):
        with _connected(address, port) as connection:
            *_, rtt = _PATH.unpack_from(_information(connection))
            rtts.append(rtt / 1000)
            time.sleep(0.01)
    with _connected(address, port, word) as connection:
        for _ in range(4):
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # ends when the other end has read it all
        _, mtu, _ = _PATH.unpack_from(_information(connection))
        return rtts, mtu


def pour(address: str, port: int, connections: int, seconds: float, word: bytes) -> dict[str, Any]:
    """Keep a path full of what several connections send at once, each the word first, and see how much is under way.

    What has not left when the time is over is dropped.

    Returns:
        `looks`: times in s of CLOCK_MONOTONIC, each with the segments under way of all connections; always before
        they are given more to send, so that one that had run out of it is seen so. `mss` and `header`: bytes of
        payload in a segment, and of all headers around it, with Ethernet's.
    """
    looks: list[tuple[float, int]] = []
    with contextlib.ExitStack() as undo, selectors.DefaultSelector() as writable:
        with ThreadPoolExecutor(connections) as pool:  # one after another they would take an RTT each
            opened = list(pool.map(lambda _: _connected(address, port, word), range(connections)))
        for connection in opened:
            undo.enter_context(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            connection.setblocking(False)
            writable.register(connection, selectors.EVENT_WRITE, connection)
        until = time.monotonic() + seconds
        while True:
            ready = writable.select(LOOKS[1])
            if (now := time.monotonic()) >= until:
                break
            if not looks or now - looks[-1][0] >= LOOKS[0]:
                looks.append((now, sum(under_way(_information(connection)) for connection in opened)))
            for key, _ in ready:
                with contextlib.suppress(BlockingIOError):
                    key.data.send(BLOCK)
        mss, mtu, _ = _PATH.unpack_from(_information(opened[0]))
    return {"looks": looks, "mss": mss, "header": plan.ETHERNET + mtu - mss}


def arriving(address: str, seconds: float) -> dict[str, Any]:
    """What the interface to an address receives.

    Returns:
        `counts`: times in s of CLOCK_MONOTONIC, with bytes and packets. A look that took long is left out: nobody knows
        when in it the counters were read. `interface`: what tells it from others, which servers of a node may share.
    """
    interface = interface_to(address)
    counts = []
    until = time.monotonic() + seconds
    with contextlib.closing(CounterFile("/proc/thread-self/net/dev")) as file:
        while (before := time.monotonic()) < until:
            counted = parse_net_dev(file.read().decode())[interface]
            after = time.monotonic()
            if after - before <= LOOKS[0]:
                counts.append(((before + after) / 2, counted["rx_bytes"], counted["rx_packets"]))
            time.sleep(LOOKS[1])
    return {"counts": counts, "interface": f"{identity()}/{interface}"}


def emptied(address: str, port: int, rtt: float, seconds: float) -> bool:
    """Wait until a handshake takes no longer than `rtt` ms again; whether one did within `seconds`."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with _connected(address, port) as connection:
            *_, taken = _PATH.unpack_from(_information(connection))
        if 0 < taken <= rtt * 1000:  # 0 where the first packet was lost: nothing is known of that handshake
            return True
        time.sleep(LOOKS[1])
    return False


def under_way(information: bytes) -> int:
    """Segments of a connection that are sent and neither acknowledged nor lost, from its struct tcp_info. Pure."""
    unacknowledged, apart, lost, again = map(int, _UNDER_WAY.unpack_from(information))
    return unacknowledged - apart - lost + again


def commands(interface: str, path: plan.Path, peers: list[str]) -> list[str]:
    """Lines for `tc -batch -`. Pure."""
    device = f"dev {interface}"
    lines = [
        f"qdisc replace {device} root handle 1: htb default 0",
        f"class add {device} parent 1: classid 1:4 htb {PASS}",
    ]
    parent = "1:4"
    if path.rtt or path.loss:
        lines.append(f"qdisc add {device} parent {parent} handle 40: {plan.netem(path)}")
        parent = "40:1"
    lines.append(f"qdisc add {device} parent {parent} handle 41: {plan.tbf(path)}")
    return lines + [
        f"filter add {device} parent 1: protocol ip prio 1 u32 match ip dst {peer}/32 flowid 1:4"
        for peer in peers
    ]


def share(path: plan.Path, origins: int) -> plan.Path:
    """The part of a path that each origin makes: it has a rate and a queue of its own. Pure."""
    limit = None if path.queue_limit is None else max(1, path.queue_limit // origins)
    return replace(path, bandwidth=path.bandwidth / origins, queue_limit=limit)


def emulate(peers: list[str], **asked: Any) -> list[str]:
    """Put an emulated path, with the fields of `plan.Path`, before the addresses of the other side; what tc was given.

    Raises RuntimeError with tc's words, as where the kernel has no sch_netem.
    """
    path = plan.Path(**asked)
    interface = interface_to(peers[0])
    lines = commands(interface, path, peers)
    done = subprocess.run(
        ["tc", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        needs = "; netem needs the kernel module sch_netem on the node" if path.rtt or path.loss else ""
        raise RuntimeError(f"tc: {done.stderr.strip()}{needs}")
    if command := plan.segmenting(path, "netem", interface):
        subprocess.run(command, capture_output=True, check=True)
    _emulated[:] = [interface]
    return lines


def drops() -> tuple[int | None, int | None]:
    """Packets that the emulated path dropped, and those of them that found its queue full; None without one."""
    if not _emulated:
        return None, None
    show = ["tc", "-s", "-j", "qdisc", "show", "dev", _emulated[0]]
    qdiscs = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    return counted({qdisc["handle"]: int(qdisc["drops"]) for qdisc in qdiscs})


def counted(drops: Mapping[str, int]) -> tuple[int, int]:
    """All drops and those of the queue, from the drops of each qdisc by its handle. Pure."""
    # netem's own count holds what its child refused.
    return drops.get("40:", drops["41:"]), drops["41:"]


def _connected(address: str, port: int, word: bytes = b"") -> socket.socket:
    connection = socket.create_connection((address, port), timeout=SECONDS)
    connection.sendall(word)
    return connection


def _information(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
