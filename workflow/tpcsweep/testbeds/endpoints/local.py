# SPDX-License-Identifier: Apache-2.0
"""A local folder as one end of a pair, for tools that move a file between this machine and a server."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpcsweep.common.urls import NewFolder, OwnFile
from tpcsweep.testbeds.endpoints.doors import Body, DoorError, Doors, RefusedError

LOCAL = "a local folder"


def local_path(url: str) -> str:
    """Return the path of a file URL; other URLs remain as they are."""
    return url.removeprefix("file://")


@contextmanager
def _path(url: str) -> Iterator[Path]:
    """Yield the path of a URL; within the `with` errors of the file system become DoorErrors."""
    try:
        yield Path(local_path(url))
    except OSError as error:
        raise DoorError(f"{url}: {error.strerror or error}") from None


class LocalDoors(Doors):
    def server(self, url: str) -> str:  # noqa: ARG002, all folders are the same machine's
        return LOCAL

    def size(self, url: str) -> int | None:
        with _path(url) as path:
            return path.stat().st_size if path.exists() else None

    def entries(self, folder: str) -> list[str] | None:
        with _path(folder) as path:
            return [file.name for file in path.iterdir()] if path.is_dir() else None

    def _make(self, folder: NewFolder) -> None:
        try:
            with _path(folder.url) as path:
                path.mkdir()
        except DoorError as error:
            raise RefusedError(str(error)) from None

    def upload(self, file: OwnFile, content: Body, size: int) -> None:  # noqa: ARG002, the content tells its size
        with _path(file.url) as path, path.open("wb") as opened:
            opened.writelines(content())

    def download(self, url: str) -> bytes:
        with _path(url) as path:
            return path.read_bytes()

    def start(self, url: str, size: int) -> bytes:
        with _path(url) as path, path.open("rb") as file:
            return file.read(size)

    def checksum(self, url: str) -> str:
        return f"adler32={zlib.adler32(self.download(url)):08x}"

    def delete(self, file: OwnFile) -> bool:
        with _path(file.url) as path:
            if not path.exists():
                return False
            path.unlink()
            return True

    def names(self, folder: NewFolder) -> list[str] | None:
        return self.entries(folder.url)

    def _remove(self, folder: NewFolder) -> None:
        with _path(folder.url) as path:
            if path.exists():
                path.rmdir()
