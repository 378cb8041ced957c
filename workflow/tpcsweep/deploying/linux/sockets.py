# SPDX-License-Identifier: Apache-2.0
"""TCP connections of a network namespace in the kernel's view, by NETLINK_SOCK_DIAG.

`ss -ti` shows the same, but needs a process each time, which is too much ten times a second during a measurement.
Source: Linux include/uapi/linux/inet_diag.h and tcp.h (struct tcp_info), sock_diag(7).
"""

import errno
import itertools
import math
import os
import socket
import stat
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tpcsweep.deploying.linux.namespaces import libc

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_ESTABLISHED = 1 << 1
_LISTEN = 10
_UNFINISHED = _ESTABLISHED | 1 << 3 | 1 << 8
"""ESTABLISHED, SYN_RECV and CLOSE_WAIT (linux/tcp_states.h): a process must still accept, read or close."""

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ID_OFFSET, _COOKIE_OFFSET, _MESSAGE_SIZE = 4, 44, 72
_QUEUE_AND_INODE = struct.Struct("=56xI8xI")
"""Fields of struct inet_diag_msg: idiag_rqueue and idiag_inode.
For a listening socket, idiag_rqueue is the number of connections to accept."""
_ATTRIBUTE = struct.Struct("=HH")
_TCP_INFO = struct.Struct("=68xI8xI44xQ32xQQQ8xQQ")
"""Fields of struct tcp_info: rtt, snd_cwnd, bytes_received, busy_time, rwnd_limited, and the following.
sndbuf_limited, bytes_sent, bytes_retrans."""
_COOKIE = struct.Struct("=Q")
_PROTOCOL, _TCP = "system.sockprotoname", (b"TCP\0", b"TCPv6\0")
"""Attribute of every socket that names its protocol (net/socket.c), and its values for TCP."""
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Connection(NamedTuple):
    """Established connection. Counters start with it; a counter that kernels before 4.19 lack is 0."""

    cookie: int  # the kernel's identifier of the connection, never reused
    remote: str  # address of the other end; of IPv4 mapped into IPv6 that of IPv4
    rtt: float  # smoothed round-trip time, ms
    cwnd: int  # congestion window, segments
    received: int  # bytes of data received in order
    busy: float  # seconds with data to send or unacknowledged, including those of the next two fields
    rwnd_limited: float  # seconds in which the receiver's window limited sending
    sndbuf_limited: float  # seconds in which the send buffer limited sending
    sent: int  # bytes of data sent, including retransmissions
    resent: int  # retransmitted bytes of data


COUNTERS = ("busy", "rwnd_limited", "sndbuf_limited", "sent", "resent")
"""Growing fields of a connection, which `ConnectionTotals` sums up."""


class SocketDiagnostics:
    """Diagnostics socket for the namespace in which the thread created it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(1.0)
        self._requests = itertools.count(1)

    def connections(self) -> list[Connection]:
        """Return all established connections. Raises OSError."""
        return list(map(_connection, self._dump(_ESTABLISHED, 1 << (_INET_DIAG_INFO - 1))))

    def unfinished(self, port: int, server_sockets: Collection[int]) -> int:
        """Return the number of connections that the server at a local port must still accept, serve or close.

        The kernel no longer lists a reset connection, but its server can still read and execute requests that arrived
        before the reset. Such a connection is recognized by the socket that the server holds: `server_sockets` are its
        processes' sockets, as returned by `tcp_sockets`. A connection that waits to be accepted counts twice. Raises
        OSError if the kernel does not answer.
        """
        count, messages = 0, self._dump(_UNFINISHED | 1 << _LISTEN)
        for message in messages:
            if int.from_bytes(message[_ID_OFFSET : _ID_OFFSET + 2], "big") == port:
                count += _QUEUE_AND_INODE.unpack_from(message)[0] if message[1] == _LISTEN else 1
        return count + len(_unlisted(server_sockets, messages))

    def reset(self, server_sockets: Collection[int]) -> set[int]:
        """Return the sockets among `server_sockets` whose connections were reset. Raises OSError."""
        return _unlisted(server_sockets, self._dump(_UNFINISHED | 1 << _LISTEN))

    def _dump(self, states: int, extensions: int = 0) -> list[bytes]:
        """Return a struct inet_diag_msg with attributes for each connection in one of the states."""
        messages: list[bytes] = []
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, extensions, states)
            size, request = _HEADER.size + len(body), next(self._requests)
            self._socket.send(
                _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, request, 0) + body
            )
            messages += self._answers(request)
        return messages

    def _answers(self, request: int) -> Iterator[bytes]:
        """Receive the messages of a dump; the caller must consume all of them.

        Messages of an earlier dump, whose reading failed, are skipped.
        """
        while True:
            data = self._socket.recv(1 << 17)
            offset = 0
            while offset + _HEADER.size <= len(data):
                length, kind, _, answered, _ = _HEADER.unpack_from(data, offset)
                content = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if answered != request:
                    continue
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    code = -struct.unpack_from("=i", content)[0]
                    if code == errno.ENOENT:  # a kernel without this family has no such connections
                        return
                    raise OSError(code, f"sock_diag: {os.strerror(code)}")
                yield content

    def close(self) -> None:
        self._socket.close()


def _unlisted(server_sockets: Collection[int], messages: list[bytes]) -> set[int]:
    return set(server_sockets) - {_QUEUE_AND_INODE.unpack_from(message)[1] for message in messages}


def tcp_sockets(proc: str, pids: Iterable[int]) -> set[int]:
    """Return the inode numbers of TCP sockets that processes of a /proc (maybe another container's) hold.

    Processes that have ended, or are about to, hold nothing. Raises PermissionError for those of another user.
    """
    sockets: set[int] = set()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError), _as_owner(f"{proc}/{pid}"):
            try:
                sockets.update(_tcp_inodes(f"{proc}/{pid}/fd"))
            except PermissionError:
                # A process that ends gives up its memory, and with it its command line, before its files: from then on
                # root alone may look at them.
                if Path(f"{proc}/{pid}/cmdline").read_bytes():
                    raise
    return sockets


def _tcp_inodes(folder: str) -> Iterator[int]:
    for file in os.scandir(folder):
        with suppress(FileNotFoundError):
            found = file.stat()
            if stat.S_ISSOCK(found.st_mode) and os.getxattr(file.path, _PROTOCOL) in _TCP:
                yield found.st_ino


@contextmanager
def _as_owner(path: str) -> Iterator[None]:
    """Let this thread read as a path's owner; a container's root may not read others' processes."""
    owner = Path(path).stat()
    group, user = libc.setfsgid(owner.st_gid), libc.setfsuid(owner.st_uid)
    try:
        yield
    finally:
        libc.setfsuid(user)
        libc.setfsgid(group)


class ConnectionTotals:
    """Sums of counters over all connections ever seen, even if they come and go, and their current state.

    Changes of a connection after its last look are missed, that is at most one sampling interval.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
        self._last: dict[int, Connection] = {}  # connections by their cookies

    def update(self, connections: Sequence[Connection]) -> dict[str, Any]:
        """Record the current connections, and return the sums of COUNTERS so far and the current state.

        The state is the number of `connections`, and the means over them: `rtt_loaded` in ms and `cwnd` in segments,
        NaN without any.
        """
        now = {connection.cookie: connection for connection in connections}
        for cookie, connection in now.items():
            before = self._last.get(cookie)
            for name in COUNTERS:
                self._sums[name] += getattr(connection, name) - getattr(before, name, 0)
        self._last = now
        count = len(connections) or math.nan
        means = {
            "rtt_loaded": sum(c.rtt for c in connections) / count,
            "cwnd": sum(c.cwnd for c in connections) / count,
        }
        return {**self._sums, **means, "connections": len(connections)}


def _connection(message: bytes) -> Connection:
    family = message[0]
    address = message[_ID_OFFSET + 20 : _ID_OFFSET + 36]
    if family == socket.AF_INET6 and address.startswith(_MAPPED):
        family, address = socket.AF_INET, address[12:]
    remote = socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])
    info = _info(message).ljust(_TCP_INFO.size, b"\0")  # older kernels report fewer fields
    rtt, cwnd, received, *limited, sent, resent = _TCP_INFO.unpack_from(info)
    [cookie] = _COOKIE.unpack_from(message, _COOKIE_OFFSET)
    busy, rwnd, sndbuf = (microseconds / 1e6 for microseconds in limited)
    return Connection(cookie, remote, rtt / 1000, cwnd, received, busy, rwnd, sndbuf, sent, resent)


def _info(message: bytes) -> bytes:
    """Return a message's struct tcp_info, without generators and slices: 1000 calls a second."""
    offset, last = _MESSAGE_SIZE, len(message) - _ATTRIBUTE.size
    while offset <= last:
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        if kind == _INET_DIAG_INFO:
            return message[offset + _ATTRIBUTE.size : offset + length]
        offset += max(4, (length + 3) & ~3)
    return b""
