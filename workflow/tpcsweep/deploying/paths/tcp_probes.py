# SPDX-License-Identifier: Apache-2.0
"""An agent's part in the verification of a path: it sends data, and receives it from agents that know a word.

TCP connections measure RTT, MTU and rate, as they need no privilege. RTT of the handshake and path MTU are the kernel's
figures (tcp(7), struct tcp_info in linux/tcp.h).

The measuring job chooses the word, and agents get it over TLS. The port is open during the verification; a connection
with data that does not begin with the word is cut.
"""

import asyncio
import contextlib
import hmac
import selectors
import socket
import struct
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tpcsweep.deploying.linux.kernel_counters import CounterFile
from tpcsweep.deploying.linux.namespaces import interface_to, network_identity, parse_net_dev
from tpcsweep.deploying.paths import network_path

_PATH = struct.Struct("=16xI40xI4xI")  # fields of struct tcp_info: snd_mss, pmtu, rtt in µs
_UNDER_WAY = struct.Struct("=24xIIII")
"""unacked, sacked, lost, retrans (packets_out and the terms of tcp_packets_in_flight, net/tcp.h)."""
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops unsent data, and resets the connection (socket(7))."""
LOOKS = (0.002, 0.01)  # the fewest and the most seconds between looks at segments under way
SECONDS = 10.0
BLOCK = bytes(1 << 18)


class Probes:
    """The verbs of an agent that verify a path."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._word = b""
        self._server: asyncio.Server | None = None

    @property
    def verbs(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "open_probes": self._open,
            "close_probes": self._close,
            "arriving": lambda **asked: asyncio.to_thread(arriving, **asked),
            "emptied": lambda **asked: asyncio.to_thread(emptied, **asked),
            "round_trips": partial(self._send, round_trips),
            "pour": partial(self._send, pour),
        }

    async def _open(self, word: str) -> None:
        self._word = word.encode()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Swallower(self._word), None, self._port)

    async def _close(self) -> None:
        if self._server:
            self._server.close()

    async def _send(self, function: Callable[..., Any], **asked: Any) -> Any:
        return await asyncio.to_thread(function, word=self._word, **asked)


class Swallower(asyncio.BufferedProtocol):
    """The receiver of a probe: it reads with as little CPU as possible, and closes after the last byte."""

    _buffer = bytearray(1 << 18)  # one buffer for all connections, as its content is used at once
    _transport: asyncio.Transport

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._received: bytes | None = b""
        """The first bytes until they are compared with the word; None afterwards."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        if self._received is None:
            return
        self._received += self._buffer[:size]
        if len(self._received) >= len(self._word):  # as a whole: byte by byte it could be guessed
            known = hmac.compare_digest(self._received[: len(self._word)], self._word)
            self._received = None
            if not known:
                self._transport.abort()


def round_trips(address: str, port: int, count: int, word: bytes) -> tuple[list[float], int]:
    """Return RTTs of `count` handshakes in ms, and the path MTU in bytes after the word and a MiB."""
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
    """Keep a path full by several connections, each with the word first, and count segments under way.

    Returns:
        `looks`: times in s of CLOCK_MONOTONIC, each with the segments under way of all connections before more is
        sent, so that a connection without data counts as such. `mss` and `header`: bytes of payload in a segment, and
        of all headers around it, with Ethernet's.
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
    return {"looks": looks, "mss": mss, "header": network_path.ETHERNET + mtu - mss}


def arriving(address: str, seconds: float) -> dict[str, Any]:
    """Count bytes and packets that the interface to an address receives.

    Returns:
        `counts`: times in s of CLOCK_MONOTONIC, with bytes and packets, without looks that took long. `interface`:
        the interface's identity, as servers of a node may share it.
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
    return {"counts": counts, "interface": f"{network_identity()}/{interface}"}


def emptied(address: str, port: int, rtt: float, seconds: float) -> bool:
    """Wait until a handshake takes at most `rtt` ms again; return whether one did within `seconds`."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with _connected(address, port) as connection:
            *_, taken = _PATH.unpack_from(_information(connection))
        if 0 < taken <= rtt * 1000:  # 0 if the first packet was lost
            return True
        time.sleep(LOOKS[1])
    return False


def under_way(information: bytes) -> int:
    """Return the sent segments that are neither acknowledged nor lost, from a struct tcp_info. Pure."""
    unacknowledged, apart, lost, again = map(int, _UNDER_WAY.unpack_from(information))
    return unacknowledged - apart - lost + again


def _connected(address: str, port: int, word: bytes = b"") -> socket.socket:
    connection = socket.create_connection((address, port), timeout=SECONDS)
    connection.sendall(word)
    return connection


def _information(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
