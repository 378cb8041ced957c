"""Files that arrive at the destination, and how many bytes ever did."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def add_source(folder: Path, size: int, content: str) -> str:
    """Make a source file of `size` bytes unless it is there; its name. Sparse files take no memory."""
    name = f"{content}.{size}"
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


class DestinationFiles:
    """Counts the bytes in the files of one folder, those included that have been removed since.

    Each file counts with the largest size it was seen with: a server that removes a partial file takes nothing back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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

    def remove(self, name: str) -> None:
        """Remove a file whose transfer has ended."""
        path = self._folder / name
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                self._see(name, path.stat().st_size)
                path.unlink()
            self._gone += self._sizes.pop(name, 0)

    def clear(self, keep: str = "") -> None:
        """Remove everything but the file `keep`, between cells."""
        for path in self._folder.iterdir():
            if path.name != keep:
                self.remove(path.name)

    def _see(self, name: str, size: int) -> None:
        self._sizes[name] = max(size, self._sizes.get(name, 0))
