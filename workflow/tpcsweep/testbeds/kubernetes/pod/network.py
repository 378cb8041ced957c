"""RTT, MTU and rate between two pods, by TCP connections of their agents: no privilege is needed for them.

The kernel's own figures are read from the connection (tcp(7), struct tcp_info in linux/tcp.h): the handshake's RTT,
free of what a busy process adds, and the path MTU.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tpcsweep.namespaces import parse_net_dev
from tpcsweep.testbeds.kubernetes.pod.places import PROBE_PORT

_PMTU, _RTT = 60, 68
"""Offsets in struct tcp_info."""
_U32 = struct.Struct("=I")
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
        with socket.create_connection((address, PROBE_PORT), timeout=SECONDS) as connection:
            found.append(_U32.unpack_from(_information(connection), _RTT)[0] / 1000)
            time.sleep(0.01)
    with socket.create_connection((address, PROBE_PORT), timeout=SECONDS) as connection:
        for _ in range(4):
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # ends when the other end has read it all
        return found, _U32.unpack_from(_information(connection), _PMTU)[0]


def pour(address: str, connections: int, seconds: float) -> None:
    """Send as much as there is room for, over several connections at once."""
    ended = threading.Event()
    opened = [socket.create_connection((address, PROBE_PORT), timeout=SECONDS) for _ in range(connections)]
    threads = [threading.Thread(target=_pour, args=(connection, ended)) for connection in opened]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ended.set()
    for connection in opened:
        connection.close()
    for thread in threads:
        thread.join()


def arriving(address: str, warm_up: float, seconds: float) -> float:
    """Gbit/s that arrive by the interface to `address` in `seconds`, after `warm_up`."""
    interface = interface_to(address)
    time.sleep(warm_up)
    began, before = time.monotonic(), _received(interface)
    time.sleep(seconds)
    return (_received(interface) - before) * 8e-9 / (time.monotonic() - began)


def _pour(connection: socket.socket, ended: threading.Event) -> None:
    try:
        while not ended.is_set():
            connection.send(BLOCK)
    except OSError:
        pass  # closed


def _received(interface: str) -> int:
    return parse_net_dev(Path("/proc/net/dev").read_text())[interface]["rx_bytes"]


def _information(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
