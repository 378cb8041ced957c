# SPDX-License-Identifier: Apache-2.0
"""Network namespaces as named by `ip netns`: run a function or open files inside one.

The kernel binds a descriptor when it is opened: a socket, or an open /proc/thread-self/net/dev, stays in its namespace
even if its owner moves to another one (network_namespaces(7)). Opening inside and using outside is therefore enough,
and no thread needs to stay in a namespace.
"""

import ctypes
import json
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tpcsweep.common import processes
from tpcsweep.deploying.linux.kernel_counters import CounterFile

CLONE_NEWNET = 0x40000000  # linux/sched.h
FOLDER = Path("/run/netns")
MAKER = ("unshare", "--net", "ip")
"""Prefix of the `ip` that creates namespaces.
Afterwards `ip` returns to its original namespace, which must belong to this user; an ordinary user, as root of a user
namespace, does not own the machine's."""

_COLUMNS = {"rx_bytes": 0, "rx_packets": 1, "rx_dropped": 3, "tx_bytes": 8, "tx_packets": 9, "tx_dropped": 11}
"""Columns of /proc/net/dev (proc(5))."""

libc = ctypes.CDLL(None, use_errno=True)

Made = TypeVar("Made")


def call_in_namespace(name: str, make: Callable[[], Made]) -> Made:
    """Call a function in a namespace, and return its result or raise its exception, or OSError.

    A separate thread enters the namespace (setns(2)) and ends there, because some users cannot return to the process's
    original namespace.
    """

    def call() -> Made:
        with (FOLDER / name).open("rb", 0) as space:
            check_libc(libc.setns(space.fileno(), CLONE_NEWNET), f"network namespace {name}")
        return make()

    with ThreadPoolExecutor(1, name) as thread:
        return thread.submit(call).result()


def namespace_command(name: str, command: Sequence[str]) -> list[str]:
    return ["nsenter", f"--net={FOLDER / name}", *command]


def socket_inside(name: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Return a socket that belongs to a namespace. Raises OSError."""
    return call_in_namespace(name, lambda: socket.socket(family, kind, protocol))


def listening(name: str) -> set[int]:
    """Return the TCP ports with an IPv4 listener in a namespace. Raises OSError."""
    lines = call_in_namespace(name, Path("/proc/thread-self/net/tcp").read_text).splitlines()[1:]
    # The local address and port are hexadecimal, and LISTEN is state 0A (proc(5)).
    return {int(row[1].rpartition(":")[2], 16) for row in map(str.split, lines) if row[3] == "0A"}


def interface_to(address: str) -> str:
    done = processes.run(["ip", "-json", "route", "get", address], check=True)
    return str(json.loads(done.stdout)[0]["dev"])


def boot_id() -> str:
    """Return a text that is unique to this machine since it was started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def network_identity() -> str:
    """Return a text that is unique to this network namespace; pods may share that of a node."""
    return f"{boot_id()}/{Path('/proc/self/ns/net').stat().st_ino}"


class Interface:
    """Byte and packet counters of one interface in one namespace: one read, about 20 µs."""

    def __init__(self, namespace: str, interface: str) -> None:
        self._namespace, self._interface = namespace, interface
        self._file = call_in_namespace(namespace, lambda: CounterFile("/proc/thread-self/net/dev"))
        self.close = self._file.close

    def read(self) -> dict[str, int]:
        """Return the counters of `parse_net_dev`. Raises OSError if the interface is gone."""
        counters = parse_net_dev(self._file.read().decode())
        if self._interface not in counters:
            found = ", ".join(sorted(counters))
            raise OSError(f"interface {self._interface} in {self._namespace} is gone; found {found}")
        return counters[self._interface]


def parse_net_dev(text: str) -> dict[str, dict[str, int]]:
    """Return rx_bytes, rx_packets, rx_dropped, tx_bytes … of each interface in the text of /proc/net/dev."""
    interfaces = {}
    for line in text.splitlines()[2:]:
        interface, _, rest = line.partition(":")
        counters = [int(field) for field in rest.split()]
        interfaces[interface.strip()] = {name: counters[column] for name, column in _COLUMNS.items()}
    return interfaces


def check_libc(answer: int, subject: str) -> int:
    """Return the result of a function of `libc`. Raises OSError about `subject` if it is negative."""
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), subject)
    return answer
