"""When the first byte of each new file of a folder is written, by inotify(7).

A sampler that looks ten times a second sees a file up to a tenth of a second late, and one that is small never. The
kernel tells at once: of a file's making, and once of a first write to it; a file costs two wake-ups.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_MODIFY, _CREATE, _IGNORED, _ONESHOT = 0x2, 0x100, 0x8000, 0x80000000  # linux/inotify.h
_EVENT = struct.Struct("iIII")
_BLOCK = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


class FirstBytes:
    """Watches a folder until closed. Raises OSError where the kernel grants no more watches."""

    def __init__(self, folder: Path) -> None:
        self._path = folder
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC), folder)
        self._folder = self._watch(folder, _CREATE)
        self._names: dict[int, str] = {}
        """Files without a byte so far, by their watches."""
        self._times: dict[str, float] = {}
        self._thread = threading.Thread(target=self._listen, name="first bytes", daemon=True)
        self._thread.start()

    def when(self, name: str) -> float | None:
        """When a file got its first byte, CLOCK_MONOTONIC; None where that was not seen."""
        return self._times.get(name)

    def forget(self, name: str) -> None:
        """Drop what is known of a file that has been removed."""
        self._times.pop(name, None)

    def close(self) -> None:
        """End the watching."""
        _libc.inotify_rm_watch(self._fd, self._folder)  # the thread hears of it, and ends
        self._thread.join()

    def _watch(self, path: Path, mask: int) -> int:
        return _checked(_libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)), path)

    def _listen(self) -> None:
        try:
            while True:
                for watch, mask, name in _events(os.read(self._fd, _BLOCK)):
                    if watch == self._folder and mask & _IGNORED:
                        return
                    if mask & _CREATE:
                        self._created(name)
                    else:  # the first write, or that the file is gone
                        known = self._names.pop(watch, None)
                        if known is not None and mask & _MODIFY:
                            self._times[known] = time.monotonic()
        finally:
            os.close(self._fd)

    def _created(self, name: str) -> None:
        path = self._path / name
        try:
            watch = self._watch(path, _MODIFY | _ONESHOT)
            self._names[watch] = name
            if path.stat().st_size:  # it was written to before it was watched
                self._times.setdefault(name, time.monotonic())
        except FileNotFoundError:
            pass  # gone again


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Watch, mask and name of each event of one read."""
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
        yield watch, mask, os.fsdecode(name)
        offset += _EVENT.size + length


def _checked(answer: int, path: Path) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"inotify: {os.strerror(code)}", str(path))
    return int(answer)
