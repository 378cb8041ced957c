# SPDX-License-Identifier: Apache-2.0
"""Locks of the kernel's on files and on the machine: they go with their holder, kill -9 included.

Standard library alone. Whoever may open a file may lock it, if he may only read it. So only those may open the file of
a lock who may write beside it, and so could get in the way anyhow.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

TABLE = Path("/proc/locks")
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group at the other end of a socket (unix(7), SO_PEERCRED)."""


class HeldError(Exception):
    """Another process holds a lock; the text says which, for people."""

    def __init__(self, said: str, pid: int | None) -> None:
        super().__init__(said or "another process")
        self.pid = pid


def take(path: Path, owner: str = "", waiting: Callable[[str], object] | None = None) -> int:
    """Take the lock on a file, which is made, until what is returned is closed.

    Args:
        path: The file.
        owner: What others are told of this process beside its pid.
        waiting: Told who holds it, if anybody does; that one is waited for then.

    Returns:
        A file descriptor, which programs that this process starts do not inherit.

    Raises:
        HeldError: if there is no `waiting`, and another process holds the lock.
    """
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note = os.pread(descriptor, 4096, 0).decode(errors="replace")
            held = _held(note, _holder(os.fstat(descriptor)))
            if waiting is None:
                raise held from None
            waiting(str(held))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, ", ".join(filter(None, (owner, f"pid {os.getpid()}"))).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def take_machine(name: str, waiting: Callable[[str], object] | None = None) -> int:
    """Take a lock that all users of a machine share, whatever files each sees, until what is returned is closed.

    It is an abstract socket (unix(7)), which whoever shares this process's network may bind, one at a time; any user
    can keep others from measuring anyhow, by measuring. Those who wait are connected to the holder, and hear its end.

    Args:
        name: The lock's.
        waiting: Told who holds it, if anybody does; that one is waited for then.

    Returns:
        A file descriptor, which programs that this process starts do not inherit.

    Raises:
        HeldError: if there is no `waiting`, and another process holds the lock.
    """
    while True:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0{name}")
            lock.listen(socket.SOMAXCONN)
            return lock.detach()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        finally:
            lock.close()
        with contextlib.suppress(ConnectionError), socket.socket(socket.AF_UNIX) as wait:
            wait.connect(f"\0{name}")
            pid, user, _ = _CREDENTIALS.unpack(
                wait.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            # One outside of this process's namespaces has no number here, and neither has its user.
            other = f"user {user}" if pid else "another user"
            whose = "this user" if user == os.geteuid() else other
            held = HeldError(f"a process of {whose}{f', pid {pid}' if pid else ''}", pid or None)
            if waiting is None:
                raise held
            waiting(str(held))
            wait.recv(1)  # nothing is ever sent


def holder(path: Path) -> int | None:
    """Give the process that holds the lock on a file; None where nobody does, or the kernel does not say."""
    try:
        return _holder(path.stat())
    except FileNotFoundError:
        return None


def _held(note: str, holder: int | None) -> HeldError:
    """Name the holder of a lock on a file, by what the file says and by what the kernel says, if that is known."""
    noted = re.search(r"\bpid (\d+)$", note)
    pid = int(noted[1]) if holder is None and noted else holder
    # What the file says is of whoever wrote there last, who need not be the one that holds the lock.
    said = note if noted and int(noted[1]) == pid else f"pid {pid}" if pid else ""
    return HeldError(said, pid)


def _opened(path: Path) -> int:
    """Open the file of a lock, for those alone who may write to its folder; a link may lead to what is precious."""
    writers = path.parent.stat().st_mode & 0o222
    mode = writers | writers << 1  # they may read it, too
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:  # an earlier version made it, or there is a umask
        with contextlib.suppress(PermissionError):  # who owns it must
            os.fchmod(descriptor, mode)
    return descriptor


def _holder(status: os.stat_result) -> int | None:
    """Give the process that holds the lock on the file of a status; None where the kernel does not say.

    Source: proc_locks(5). Processes of other PID namespaces are not listed, and some file systems have numbers there
    that stat(2) does not know.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in TABLE.read_text().splitlines():
        _number, kind, *rest = line.split()  # of those that wait "->" is the kind
        if kind == "FLOCK" and rest[3] == device:
            return int(rest[2])
    return None
