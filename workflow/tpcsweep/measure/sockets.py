"""TCP connections of a network namespace as the kernel sees them, by NETLINK_SOCK_DIAG.

`ss -ti` shows the same and costs a process a time; ten times a second beside a measurement that is too much.
Source: Linux include/uapi/linux/inet_diag.h and tcp.h (struct tcp_info), sock_diag(7).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_ESTABLISHED = 1 << 1

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ID_OFFSET, _MESSAGE_SIZE = 4, 72
_ATTRIBUTE = struct.Struct("=HH")
_RTT, _CWND, _TOTAL_RETRANS, _BYTES_RECEIVED = 68, 80, 100, 128
"""Offsets in struct tcp_info: eight bytes, then 32-bit fields, from 104 on 64-bit ones."""
_U32, _U64 = struct.Struct("=I"), struct.Struct("=Q")
_COOKIE_OFFSET = 44
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Connection(NamedTuple):
    """One established connection."""

    remote: str
    """IPv4 address of the other end."""
    rtt: float
    """Smoothed round-trip time, ms."""
    cwnd: int
    """Congestion window, segments."""
    retransmits: int
    """Segments retransmitted since the connection began."""
    received: int
    """Bytes of payload received in order since then."""
    cookie: int
    """The kernel's own name of the socket, never used again."""


class SocketDiagnostics:
    """A diagnostics socket; it sees the namespace that the thread was in when it was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        )
        self._socket.settimeout(1.0)

    def connections(self) -> list[Connection]:
        """All established connections, IPv4 and IPv4 mapped into IPv6. Raises OSError."""
        found: list[Connection] = []
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _ESTABLISHED)
            size = _HEADER.size + len(body)
            self._socket.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 0, 0) + body)
            done = False
            while not done:
                data = self._socket.recv(1 << 17)
                done = _parse(data, found)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _parse(data: bytes, found: list[Connection]) -> bool:
    """Add the connections of one datagram; True when the dump has ended."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, offset)
        if kind == _NLMSG_DONE:
            return True
        if kind == _NLMSG_ERROR:
            code = -struct.unpack_from("=i", data, offset + _HEADER.size)[0]
            if code == errno.ENOENT:  # a kernel without this family: nothing to see
                return True
            raise OSError(code, f"sock_diag: {os.strerror(code)}")
        connection = _connection(data[offset + _HEADER.size : offset + length])
        if connection:
            found.append(connection)
        offset += (length + 3) & ~3
    return False


def _connection(message: bytes) -> Connection | None:
    family = message[0]
    address = message[_ID_OFFSET + 20 : _ID_OFFSET + 36]
    if family == socket.AF_INET6:
        if not address.startswith(_MAPPED):
            return None
        address = address[12:]
    for kind, value in _attributes(message, _MESSAGE_SIZE):
        if kind == _INET_DIAG_INFO and len(value) >= _BYTES_RECEIVED + _U64.size:
            return Connection(
                socket.inet_ntoa(address[:4]),
                _U32.unpack_from(value, _RTT)[0] / 1000,
                _U32.unpack_from(value, _CWND)[0],
                _U32.unpack_from(value, _TOTAL_RETRANS)[0],
                _U64.unpack_from(value, _BYTES_RECEIVED)[0],
                _U64.unpack_from(message, _COOKIE_OFFSET)[0],
            )
    return None


def _attributes(message: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        yield kind, message[offset + _ATTRIBUTE.size : offset + length]
        offset += max(4, (length + 3) & ~3)
