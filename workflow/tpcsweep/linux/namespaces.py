"""Linux network namespaces as `ip netns` names them: enter one for a moment, or open something inside one.

What a descriptor shows is fixed when it is opened: a socket, or an open /proc/thread-self/net/dev, stays in
the namespace it was opened in wherever its owner goes afterwards (network_namespaces(7)). So opening inside
and using outside is enough, and no thread needs to stay in a namespace.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000  # linux/sched.h
FOLDER = Path("/run/netns")

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(OSError):
    """A network namespace is missing or may not be entered."""


@contextmanager
def entered(name: str) -> Iterator[None]:
    """Move the calling thread into the namespace `name`, and back afterwards (setns(2)).

    Only this thread moves. Raises NamespaceError where the namespace does not exist or may not be entered.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            target = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NamespaceError(
                f"network namespace {name!r}: no {FOLDER / name}; make it first with `ip netns add {name}`"
            ) from None
        try:
            _setns(target, name)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _setns(home, "the one this thread came from")
    finally:
        os.close(home)


def open_inside(name: str, file: str) -> int:
    """A read-only descriptor of `file` as seen in the namespace, such as /proc/thread-self/net/dev.

    The caller closes it. Raises NamespaceError, and OSError where the file cannot be opened.
    """
    with entered(name):
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC)


def socket_inside(name: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A socket that belongs to the namespace. Raises NamespaceError, and OSError as socket(2) does."""
    with entered(name):
        return socket.socket(family, kind, protocol)


class Interface:
    """The byte and packet counters of one interface in one namespace: one read, about 20 µs."""

    def __init__(self, namespace: str, interface: str) -> None:
        self._interface = interface
        self._where = f"{interface} in {namespace}"
        self._file = open_inside(namespace, "/proc/thread-self/net/dev")

    def read(self) -> dict[str, int]:
        """Keys: rx_bytes, rx_packets, rx_dropped, tx_bytes, tx_packets, tx_dropped (proc(5), net/dev).

        Raises NamespaceError where the interface is gone.
        """
        counters = parse_net_dev(os.pread(self._file, 1 << 16, 0).decode())
        if self._interface not in counters:
            raise NamespaceError(f"interface {self._where} is gone; found {', '.join(sorted(counters))}")
        return counters[self._interface]

    def close(self) -> None:
        """Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def parse_net_dev(text: str) -> dict[str, dict[str, int]]:
    """The text of /proc/net/dev as interface → counters."""
    found = {}
    for line in text.splitlines()[2:]:
        interface, _, rest = line.partition(":")
        f = [int(field) for field in rest.split()]
        found[interface.strip()] = {
            "rx_bytes": f[0],
            "rx_packets": f[1],
            "rx_dropped": f[3],
            "tx_bytes": f[8],
            "tx_packets": f[9],
            "tx_dropped": f[11],
        }
    return found


def listening(text: str) -> set[int]:
    """Ports that something listens on, from the text of /proc/net/tcp (proc(5): address:port in hex, state 0A)."""
    rows = (line.split() for line in text.splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def _setns(descriptor: int, name: str) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise NamespaceError(
            code, f"network namespace {name!r}: setns: {os.strerror(code)}; this needs root (CAP_SYS_ADMIN)"
        )
