# SPDX-License-Identifier: Apache-2.0
"""Kernel locks on files and on the machine, released at the end of their holder, even by kill -9.

Standard library only. Anyone who can open a file, even for reading, can lock it. Therefore a lock's file can be opened
only by users who can write to its folder, and could interfere anyway.
"""

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


class LockedError(Exception):
    """Another process holds a lock; the text names it for people."""


def lock_file(path: Path, owner: str = "", waiting: Callable[[str], object] | None = None) -> int:
    """Lock a file, which is created if missing, until the returned descriptor is closed.

    Child programs do not inherit the descriptor. Other processes see the name `owner` in addition to the pid, and
    `waiting` is called with the current holder, before waiting for it. Raises LockedError if another process holds the
    lock, and `waiting` is None.
    """
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = LockedError(os.pread(descriptor, 4096, 0).decode(errors="replace") or "another process")
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


def lock_machine(name: str, waiting: Callable[[str], object] | None = None) -> int:
    """Take a lock shared by all users of a machine, until the returned descriptor is closed.

    The lock is an abstract socket (unix(7)), independent of visible files, which one process at a time can bind among
    all processes in this network. Any user can block others by it, but could do so by measuring too. Waiting processes
    connect to the holder, and notice its end. `waiting`, the descriptor and LockedError are those of `lock_file`.
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
            peer = wait.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, user, _ = _CREDENTIALS.unpack(peer)
            # A process outside of this process's namespaces has no number here, and neither has its user.
            other = f"user {user}" if pid else "another user"
            whose = "this user" if user == os.geteuid() else other
            held = LockedError(f"a process of {whose}{f', pid {pid}' if pid else ''}")
            if waiting is None:
                raise held
            waiting(str(held))
            wait.recv(1)  # nothing is ever sent


def lock_holder(path: Path) -> int | None:
    """Return the process that holds the lock on a file, or None if nobody does or the kernel hides it.

    Source: proc_locks(5). It does not list processes of other PID namespaces, and on some file systems its numbers
    differ from those of stat(2).
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        _number, kind, *rest = line.split()  # "->" is the kind of waiting processes
        if kind == "FLOCK" and rest[3] == device:
            return int(rest[2])
    return None


def _opened(path: Path) -> int:
    """Open a lock's file for all who may write to its folder; refuse links, which may lead elsewhere."""
    writers = path.parent.stat().st_mode & 0o222
    mode = writers | writers << 1  # they may read it, too
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with contextlib.suppress(PermissionError):  # only its owner can set the mode, which the umask restricts
        os.fchmod(descriptor, mode)
    return descriptor
