"""RTT, MTU and rate between two pods, by TCP connections of their agents: no privilege is needed for them.

The kernel's own figures are read from the connection (tcp(7), struct tcp_info in linux/tcp.h): the handshake's RTT,
free of what a busy process adds, and the path MTU.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tpcsweep.linux.counters import CounterFile
from tpcsweep.linux.namespaces import parse_net_dev
from tpcsweep.paths.plan import ETHERNET
from tpcsweep.testbeds.kubernetes.pod.places import PROBE_PORT

_PMTU, _RTT = 60, 68
"""Offsets in struct tcp_info."""
_U32 = struct.Struct("=I")
_SEGMENT = struct.Struct("=16xI40xI")
"""Of struct tcp_info: snd_mss, pmtu."""
_UNDER_WAY = struct.Struct("=24xIIII")
"""unacked, sacked, lost, retrans (packets_out and what tcp_packets_in_flight takes off and adds, net/tcp.h)."""
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what has not been sent, and resets (socket(7))."""
LOOKS = (0.002, 0.01)
"""Seconds between looks at what is under way, at least and at most."""
SECONDS = 10.0
BLOCK = bytes(1 << 18)
SYSCTLS = ("tcp_rmem", "tcp_wmem", "tcp_no_metrics_save", "tcp_congestion_control")


def interface_to(address: str) -> str:
    """The interface by which an address is reached."""
    done = subprocess.run(
        ["ip", "-json", "route", "get", address], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)[0]["dev"])


def describe(address: str) -> dict[str, Any]:
    """The interface to an address, its MTU, and the sysctls that bound its connections."""
    interface = interface_to(address)
    folder = Path("/proc/sys/net/ipv4")
    found = {
        f"net.ipv4.{name}": " ".join((folder / name).read_text().split())
        for name in SYSCTLS
        if (folder / name).exists()
    }
    mtu = int(Path(f"/sys/class/net/{interface}/mtu").read_text())
    return {"interface": interface, "mtu": mtu, "sysctls": found}


def round_trips(address: str, count: int) -> tuple[list[float], int]:
    """RTT of `count` handshakes in ms, and the path MTU in bytes after a MiB has been sent."""
    found = []
    for _ in range(count):
        with _connected(address) as connection:
            found.append(_U32.unpack_from(_information(connection), _RTT)[0] / 1000)
            time.sleep(0.01)
    with _connected(address) as connection:
        for _ in range(4):
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # ends when the other end has read it all
        return found, _U32.unpack_from(_information(connection), _PMTU)[0]


def pour(address: str, connections: int, seconds: float) -> dict[str, Any]:
    """Keep a path full of what several connections send at once, and see how much of it is under way.

    `looks`: times in s of CLOCK_MONOTONIC, each with the segments under way of all connections; always before they
    are given more to send, so that one that had run out of it is seen so. `mss`, `header`: bytes of payload in a
    segment, and of all headers around it, with Ethernet's. What has not left when the time is over is dropped.
    """
    looks: list[tuple[float, int]] = []
    with contextlib.ExitStack() as undo, selectors.DefaultSelector() as writable:
        with ThreadPoolExecutor(connections) as pool:  # one after another they would take an RTT each
            opened = list(pool.map(lambda _: _connected(address), range(connections)))
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
                looks.append((now, sum(under_way(_information(one)) for one in opened)))
            for key, _ in ready:
                with contextlib.suppress(BlockingIOError):
                    key.data.send(BLOCK)
        mss, mtu = _SEGMENT.unpack_from(_information(opened[0]))
    return {"looks": looks, "mss": mss, "header": ETHERNET + mtu - mss}


def arriving(address: str, seconds: float) -> list[tuple[float, int, int]]:
    """What the interface to an address has received, in bytes and packets, with the times in s of CLOCK_MONOTONIC.

    A look that took long is left out: nobody knows when in it the counters were read.
    """
    interface = interface_to(address)
    found = []
    until = time.monotonic() + seconds
    with contextlib.closing(CounterFile("/proc/thread-self/net/dev")) as file:
        while (before := time.monotonic()) < until:
            counted = parse_net_dev(file.read().decode())[interface]
            after = time.monotonic()
            if after - before <= LOOKS[0]:
                found.append(((before + after) / 2, counted["rx_bytes"], counted["rx_packets"]))
            time.sleep(LOOKS[1])
    return found


def emptied(address: str, rtt: float, seconds: float) -> bool:
    """Wait until a handshake takes no longer than `rtt` ms again; whether one did within `seconds`."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with _connected(address) as connection:
            # 0 where the first packet was lost: nothing is known of that handshake.
            if 0 < _U32.unpack_from(_information(connection), _RTT)[0] <= rtt * 1000:
                return True
        time.sleep(LOOKS[1])
    return False


def under_way(information: bytes) -> int:
    """Segments of a connection that are sent and neither acknowledged nor lost, from its struct tcp_info. Pure."""
    unacknowledged, apart, lost, again = map(int, _UNDER_WAY.unpack_from(information))
    return unacknowledged - apart - lost + again


def _connected(address: str) -> socket.socket:
    return socket.create_connection((address, PROBE_PORT), timeout=SECONDS)


def _information(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
