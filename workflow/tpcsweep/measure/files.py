"""Files that arrive at the destination, and how many bytes ever did."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import sys
import threading
from pathlib import Path
from typing import NamedTuple, Protocol

from tpcsweep.measure.first_bytes import FirstBytes

_GET_FLAGS, _SET_FLAGS, _SYNC = 0x80086601, 0x40086602, 0x8
"""FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_SYNC_FL on 64-bit machines (linux/fs.h)."""
_HELD = 1 << 20
"""Bytes, of which one page is kept."""


class Arrival(NamedTuple):
    """What came of a transfer into its file."""

    first_byte: float | None
    """Seconds of CLOCK_MONOTONIC; None where nobody saw it."""
    size: int
    """Bytes."""


class Arrivals(Protocol):
    """What counts the payload that arrives at the destination."""

    def arrived(self) -> int:
        """Bytes of payload that ever arrived."""

    def present(self) -> dict[str, Arrival]:
        """What had arrived for transfers that have not ended, by the names of their files."""

    def remove(self, name: str, /) -> Arrival:
        """Remove the file of a transfer that has ended, where there is one; what had come into it."""

    def clear(self, keep: str = "", /) -> None:
        """Remove what arrived but for the file `keep`, between cells."""


def add_source(folder: Path, size: int, content: str, suffix: str = "") -> str:
    """Make a source file of `size` bytes unless it is there; its name. Sparse files take no memory."""
    name = f"{content}.{size}{suffix}"
    path = folder / name
    if not path.exists():
        with path.open("wb") as file:
            if content == "sparse":
                file.truncate(size)
            else:
                left = size
                while left:
                    left -= file.write(os.urandom(min(left, 1 << 24)))
    return name


def hold(path: Path, size: int) -> None:
    """Have `size` bytes of memory stay this machine's until the file `path`, on tmpfs, is removed, but free to be used.

    The host of a virtual machine gives it memory page by page as that is first written, and may take back what is free,
    in blocks of 2 MiB (free page reporting: drivers/virtio/virtio_balloon.c and mm/page_reporting.c of Linux): files
    that are written to such memory are several times as dear. So as much is written here and given back, all but a
    page in each MiB, which leaves no block whole. The kernel takes small blocks first.
    """
    with path.open("wb+") as file:
        for _ in range(0, size, _HELD):
            file.write(bytes(_HELD))
        file.flush()
        with mmap.mmap(file.fileno(), 0) as pages:
            for start in range(0, len(pages), _HELD):
                pages.madvise(mmap.MADV_REMOVE, start + mmap.PAGESIZE, _HELD - mmap.PAGESIZE)


def forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache, so that they are read from the disk (posix_fadvise(2)).

    Pages that are not yet on the disk stay.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            file = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def write_through(folder: Path) -> None:
    """Have every file made in a folder from now on be written to the disk with each write, as with O_SYNC.

    That is the attribute S of chattr(1), which new files take over. Raises OSError where the file system has none.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = bytearray(8)
        fcntl.ioctl(directory, _GET_FLAGS, flags)
        value = int.from_bytes(flags[:4], sys.byteorder) | _SYNC
        fcntl.ioctl(directory, _SET_FLAGS, value.to_bytes(4, sys.byteorder) + bytes(4))
    finally:
        os.close(directory)


class DestinationFiles:
    """Counts the bytes in the files of one folder, those included that have been removed since.

    Each file counts with the largest size it was seen with: a server that removes a partial file takes nothing back.
    """

    def __init__(self, folder: Path, first: FirstBytes | None = None) -> None:
        """Without `first` nothing is known of first bytes."""
        self._folder = folder
        self._first = first
        self._sizes: dict[str, int] = {}
        self._gone = 0
        """Bytes of files that were removed here."""
        self._lock = threading.Lock()  # one thread counts while another removes

    def arrived(self) -> int:
        """Bytes of payload that ever arrived."""
        with self._lock, os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    self._see(entry.name, entry.stat().st_size)
            return self._gone + sum(self._sizes.values())

    def present(self) -> dict[str, Arrival]:
        """The files that have not been removed, as large as they were when last looked at."""
        with self._lock:
            return {name: self._arrival(name, size) for name, size in self._sizes.items()}

    def remove(self, name: str) -> Arrival:
        """Remove a file whose transfer has ended; what had come into it."""
        path = self._folder / name
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                self._see(name, path.stat().st_size)
                path.unlink()
            arrival = self._arrival(name, self._sizes.pop(name, 0))
            self._gone += arrival.size
        if self._first:
            self._first.forget(name)
        return arrival

    def clear(self, keep: str = "") -> None:
        """Remove everything but the file `keep`, between cells."""
        for path in self._folder.iterdir():
            if path.name != keep:
                self.remove(path.name)

    def _arrival(self, name: str, size: int) -> Arrival:
        return Arrival(self._first.when(name) if self._first else None, size)

    def _see(self, name: str, size: int) -> None:
        self._sizes[name] = max(size, self._sizes.get(name, 0))
