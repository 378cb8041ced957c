# SPDX-License-Identifier: Apache-2.0
"""Source and destination files, and counters of arrived bytes with and without files."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tpcsweep.deploying.linux.namespaces import check_libc, libc
from tpcsweep.deploying.linux.sockets import SocketDiagnostics, tcp_info

_GET_FLAGS, _SET_FLAGS, _SYNC = 0x80086601, 0x40086602, 0x8
"""FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_SYNC_FL on 64-bit machines (linux/fs.h)."""
_HELD = 1 << 20  # size in bytes of the pieces of which one page each is kept
_MODIFY, _CREATE, _IGNORED, _ONESHOT = 0x2, 0x100, 0x8000, 0x80000000  # linux/inotify.h
_EVENT = struct.Struct("iIII")
_BLOCK = 1 << 16


def add_source(folder: Path, size: int, content: str, suffix: str = "") -> str:
    """Create a source file of `size` bytes if needed, and return its name. Sparse files need no memory."""
    name = f"{content}.{size}{suffix}"
    path = folder / name
    if not path.exists():
        with path.open("wb") as file:
            left = 0 if content == "sparse" else size
            while left:
                left -= file.write(os.urandom(min(left, 1 << 24)))
            file.truncate(size)
    return name


def reserve_memory(path: Path, size: int) -> None:
    """Reserve `size` bytes of memory in usable form until `path`, a file on tmpfs, is removed.

    A virtual machine's host provides memory page by page at the first write, and may take free blocks of 2 MiB back
    (free page reporting: drivers/virtio/virtio_balloon.c and mm/page_reporting.c of Linux); writing files to such
    memory is several times slower. Therefore this function writes `size` bytes and frees them again, except a page in
    each MiB, so that no free block is complete. The kernel uses small blocks first.
    """
    with path.open("wb+") as file:
        for _ in range(0, size, _HELD):
            file.write(bytes(_HELD))
        file.flush()
        with mmap.mmap(file.fileno(), 0) as pages:
            for start in range(0, len(pages), _HELD):
                pages.madvise(mmap.MADV_REMOVE, start + mmap.PAGESIZE, _HELD - mmap.PAGESIZE)


def drop_page_cache(folder: Path) -> None:
    """Drop a folder's files from the page cache, so that they are read from disk (posix_fadvise(2)).

    Pages that are not yet on disk stay in the cache.
    """
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_through(folder: Path) -> None:
    """Have each write to files that are later created in a folder reach the disk, as with O_SYNC.

    New files inherit the attribute S of chattr(1). Raises OSError if the file system lacks it.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = bytearray(8)
        fcntl.ioctl(directory, _GET_FLAGS, flags)
        value = int.from_bytes(flags[:4], sys.byteorder) | _SYNC
        fcntl.ioctl(directory, _SET_FLAGS, value.to_bytes(4, sys.byteorder) + bytes(4))
    finally:
        os.close(directory)


class Arrival(NamedTuple):
    """Bytes of a transfer that arrived in its file."""

    first_byte: float | None  # seconds of CLOCK_MONOTONIC, or None if not observed
    size: int  # bytes


class DestinationFiles:
    """Counter of the bytes in a folder's files, including removed ones.

    Each file counts with its largest observed size, so that a server that removes a partial file does not reduce the
    sum.
    """

    def __init__(self, folder: Path, first: FirstBytes | None = None) -> None:
        self._folder = folder
        self._first_bytes = first.times if first else {}
        self._sizes: dict[str, int] = {}
        self._gone = 0  # bytes of files that this object removed
        self._lock = threading.Lock()  # one thread counts while another removes

    def arrived(self) -> int:
        with self._lock, os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    self._see(entry.name, entry.stat().st_size)
            return self._gone + sum(self._sizes.values())

    def present(self) -> dict[str, Arrival]:
        """Return the arrivals in existing files, with their sizes at the last look."""
        with self._lock:
            return {name: self._arrival(name, size) for name, size in self._sizes.items()}

    def remove(self, name: str) -> Arrival:
        """Remove the file of an ended transfer, if it exists, and return its arrival."""
        path = self._folder / name
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                self._see(name, path.stat().st_size)
                path.unlink()
            arrival = self._arrival(name, self._sizes.pop(name, 0))
            self._gone += arrival.size
        self._first_bytes.pop(name, None)
        return arrival

    def clear(self, keep: str = "") -> None:
        for path in self._folder.iterdir():
            if path.name != keep:
                self.remove(path.name)

    def _arrival(self, name: str, size: int) -> Arrival:
        return Arrival(self._first_bytes.get(name), size)

    def _see(self, name: str, size: int) -> None:
        self._sizes[name] = max(size, self._sizes.get(name, 0))


class FirstBytes:
    """Times of the first byte of each new file in a folder, by inotify(7), until closed.

    A sampler that looks ten times a second sees a file up to a tenth of a second late, and a small one never. The
    kernel reports a file's creation and its first write immediately: two wake-ups for each file.
    """

    def __init__(self, folder: Path) -> None:
        """Start watching. Raises OSError if the kernel grants no more watches."""
        self._path = folder
        self._fd = check_libc(libc.inotify_init1(os.O_CLOEXEC), f"inotify {folder}")
        self._folder = self._watch(folder, _CREATE)
        self._names: dict[int, str] = {}  # files without a byte so far, by their watches
        self.times: dict[str, float] = {}  # CLOCK_MONOTONIC of the first byte, by file
        self._thread = threading.Thread(target=self._listen, name="first bytes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        libc.inotify_rm_watch(self._fd, self._folder)  # wakes the thread, which ends
        self._thread.join()

    def _watch(self, path: Path, mask: int) -> int:
        return check_libc(
            libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)), str(path)
        )

    def _listen(self) -> None:
        try:
            while True:
                for watch, mask, name in _events(os.read(self._fd, _BLOCK)):
                    if watch == self._folder and mask & _IGNORED:
                        return
                    if mask & _CREATE:
                        self._created(name)
                    else:  # the first write, or the removal of the file
                        known = self._names.pop(watch, None)
                        if known is not None and mask & _MODIFY:
                            self.times[known] = time.monotonic()
        finally:
            os.close(self._fd)

    def _created(self, name: str) -> None:
        path = self._path / name
        with contextlib.suppress(FileNotFoundError):  # already removed
            watch = self._watch(path, _MODIFY | _ONESHOT)
            if path.stat().st_size:  # it was written to before it was watched
                self.times.setdefault(name, time.monotonic())
            else:
                self._names[watch] = name


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size + length
        yield watch, mask, os.fsdecode(data[offset - length : offset].rstrip(b"\0"))


_received = tcp_info(["bytes_received"])


class ReceivedBytes:
    """Counter of the payload of TCP connections if there are no files, including ended connections.

    It counts bytes in order, without headers and duplicates (tcp_info.tcpi_bytes_received; RFC 4898,
    tcpEStatsAppHCThruOctetsReceived). It misses bytes after the last look at a connection, so connections must be much
    longer than the time between two looks.
    """

    def __init__(self, diagnostics: SocketDiagnostics, remotes: Collection[str]) -> None:
        """Count the connections from the addresses `remotes` that `diagnostics` sees."""
        self._diagnostics, self._remotes = diagnostics, frozenset(remotes)
        self._received: dict[int, int] = {}

    def arrived(self) -> int:
        """Return the bytes of payload that ever arrived. Raises OSError."""
        for connection in self._diagnostics.connections():
            if connection.remote in self._remotes:
                [self._received[connection.cookie]] = _received(connection)
        return sum(self._received.values())

    def present(self) -> dict[str, Arrival]:
        """Return nothing, because the bytes of single transfers are unknown."""
        return {}

    def remove(self, _name: str) -> Arrival:
        return Arrival(None, 0)

    def clear(self, keep: str = "") -> None:
        pass

    def close(self) -> None:
        self._diagnostics.close()


Arrivals: TypeAlias = DestinationFiles | ReceivedBytes
