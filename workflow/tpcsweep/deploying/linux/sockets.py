# SPDX-License-Identifier: Apache-2.0
"""TCP connections of a network namespace in the kernel's view, by NETLINK_SOCK_DIAG.

`ss -ti` shows the same, but needs a process each time, which is too much ten times a second during a measurement.
Source: Linux include/uapi/linux/inet_diag.h and tcp.h (struct tcp_info), sock_diag(7).
"""

import errno
import itertools
import os
import socket
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

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
_TCP_INFO = (
    ("B", "state ca_state retransmits probes backoff options window_scales connection_bits"),
    ("I", "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets"),
    ("I", "last_data_sent last_ack_sent last_data_recv last_ack_recv"),
    (
        "I",
        "pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans",
    ),
    ("Q", "pacing_rate max_pacing_rate bytes_acked bytes_received"),
    ("I", "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out"),
    ("Q", "delivery_rate busy_time rwnd_limited sndbuf_limited"),
    ("I", "delivered delivered_ce"),
    ("Q", "bytes_sent bytes_retrans"),
    ("I", "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash"),
)
"""Fields of struct tcp_info in their order, without tcpi_, by their types in the module struct."""
TCP_INFO_UNITS = {
    **dict.fromkeys(("rto", "ato", "rtt", "rttvar", "rcv_rtt", "min_rtt"), 1e-6),
    **dict.fromkeys(("busy_time", "rwnd_limited", "sndbuf_limited"), 1e-6),
    **dict.fromkeys(_TCP_INFO[2][1].split(), 1e-3),
}
"""Units of fields in s; other fields are bytes, bytes per second or numbers."""
TCP_INFO_UNKNOWN = 2**32 - 1
"""Value of a state that a connection does not know yet, such as min_rtt."""
_COOKIE = struct.Struct("=Q")
_PROTOCOL, _TCP = "system.sockprotoname", (b"TCP\0", b"TCPv6\0")
"""Attribute of every socket that names its protocol (net/socket.c), and its values for TCP."""
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Connection(NamedTuple):
    """Established connection."""

    cookie: int  # the kernel's identifier of the connection, never reused
    remote: str  # address of the other end; of IPv4 mapped into IPv6 that of IPv4
    info: bytes  # struct tcp_info, of which older kernels report fewer fields; see `tcp_info`


def tcp_info(fields: Sequence[str]) -> Callable[[Connection], tuple[int, ...]]:
    """Return a function that reads fields of a connection's struct tcp_info, as the kernel counts them.

    A field that the kernel lacks is 0: `busy_time` and those around it before 4.10, `bytes_sent` before 4.19.
    """
    wanted = struct.Struct("=" + "".join(f"{gap}x{kind}" for gap, kind in _layout(fields)))
    size, order = wanted.size, sorted(set(fields), key=_NAMES.index)
    places = [order.index(field) for field in fields]

    def read(connection: Connection) -> tuple[int, ...]:
        info = connection.info
        values = wanted.unpack_from(info if len(info) >= size else info.ljust(size, b"\0"))
        return tuple([values[place] for place in places])

    return read


def _layout(fields: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the type of each wanted field with the bytes between it and the one before."""
    gap = 0
    for kind, names in _TCP_INFO:
        for name in names.split():
            if name in fields:
                yield gap, kind
                gap = 0
            else:
                gap += struct.calcsize(kind)


_NAMES = [name for _, names in _TCP_INFO for name in names.split()]


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


def _connection(message: bytes) -> Connection:
    family = message[0]
    address = message[_ID_OFFSET + 20 : _ID_OFFSET + 36]
    if family == socket.AF_INET6 and address.startswith(_MAPPED):
        family, address = socket.AF_INET, address[12:]
    remote = socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])
    [cookie] = _COOKIE.unpack_from(message, _COOKIE_OFFSET)
    return Connection(cookie, remote, _info(message))


def _info(message: bytes) -> bytes:
    """Return a message's struct tcp_info, without generators and slices: 1000 calls a second."""
    offset, last = _MESSAGE_SIZE, len(message) - _ATTRIBUTE.size
    while offset <= last:
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        if kind == _INET_DIAG_INFO:
            return message[offset + _ATTRIBUTE.size : offset + length]
        offset += max(4, (length + 3) & ~3)
    return b""
