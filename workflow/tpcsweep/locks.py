# SPDX-License-Identifier: Apache-2.0
"""Locks of the kernel's on files and on the machine: they go with their holder, kill -9 included.

Standard library alone. Anyone who may open a file may lock it, even for reading alone. So only users who may
write beside the file of a lock, and could get in the way anyhow, may open it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group at the other end of a socket (unix(7), SO_PEERCRED)."""


class HeldError(Exception):
    """Another process holds a lock; the text names it for people."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder or "another process")


def take(path: Path, owner: str = "", waiting: Callable[[str], object] | None = None) -> int:
    """Take the lock on a file, which is made, until what is returned is closed.

    Args:
        path: The file.
        owner: The name of this process for others, beside its pid.
        waiting: Told who holds the lock, if anybody does; then this waits for the holder.

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
            held = HeldError(os.pread(descriptor, 4096, 0).decode(errors="replace"))
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

    It is an abstract socket (unix(7)), which one process of those that share this network may bind at a time. Any user
    can keep others from measuring anyhow, by measuring. Waiting processes connect to the holder, and hear its end.
    `waiting`, the file descriptor and HeldError are those of `take`.
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
            held = HeldError(f"a process of {whose}{f', pid {pid}' if pid else ''}")
            if waiting is None:
                raise held
            waiting(str(held))
            wait.recv(1)  # nothing is ever sent


def holder(path: Path) -> int | None:
    """Return the process that holds the lock on a file; None where nobody does, or the kernel does not list it.

    Source: proc_locks(5). Processes of other PID namespaces are not listed, and some file systems have numbers there
    that stat(2) does not know.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        _number, kind, *rest = line.split()  # "->" is the kind of those that wait
        if kind == "FLOCK" and rest[3] == device:
            return int(rest[2])
    return None


def _opened(path: Path) -> int:
    """Open the file of a lock, for those alone who may write to its folder; a link may lead to what is precious."""
    writers = path.parent.stat().st_mode & 0o222
    mode = writers | writers << 1  # they may read it, too
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with contextlib.suppress(PermissionError):  # its owner sets the mode, which a umask restricts
        os.fchmod(descriptor, mode)
    return descriptor
