# SPDX-License-Identifier: Apache-2.0
"""Requests to a door of an endpoint, for every protocol. Error texts contain no tokens."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress

from tpcsweep.common.urls import MadeFolder, NewFolder, OwnFile, is_own
from tpcsweep.testbeds.endpoints.fixes import explained

PATIENCE = 60.0  # timeout of a door that sends no byte, s
BLOCK = 1 << 20

Body = Callable[[], Iterable[bytes]]


class DoorError(Exception):
    """A failed request; the text names the method, the URL, the answer and the fix."""

    def __init__(self, text: str) -> None:
        super().__init__(explained(text))


ANOTHER = "Fix: use another URL of this folder in the testbed's urls"


class OtherFolderError(DoorError):
    """A server answered with another folder than the requested one."""


class RefusedError(DoorError):
    """A refused or unsent request, which has created nothing."""


class LeftError(DoorError):
    """An earlier folder that cannot be deleted, so that no other one is created."""

    final = True


class Doors(ABC):
    """Requests to the doors of one end, `source` or `destination`. They raise DoorError if they fail.

    Requests that write or delete accept only what `common.urls` builds in a folder that the server has created.
    """

    @abstractmethod
    def server(self, url: str) -> str:
        """Return the name of the server's software; "" if the server does not report it."""

    @abstractmethod
    def size(self, url: str) -> int | None:
        """Return the size of a file, None if it is missing, or -1 if the server does not report its size."""

    @abstractmethod
    def entries(self, folder: str) -> list[str] | None:
        """Return the names in a folder, None if it is missing."""

    def lists(self, folder: str) -> bool:
        """Return whether a folder can be listed, False if it is missing."""
        return self.entries(folder) is not None

    def other_runs(self, folder: str) -> list[str]:
        """Return the names of folders of tpcsweep's in a configured folder, of this and other machines."""
        return [name for name in self.entries(folder) or () if is_own(name)]

    @abstractmethod
    def download(self, url: str) -> bytes: ...

    @abstractmethod
    def start(self, url: str, size: int) -> bytes:
        """Return some of a file's bytes, at most `size`, without reading a large file as a whole."""

    @abstractmethod
    def checksum(self, url: str) -> str:
        """Return the server's checksum, such as adler32=0a1b2c3d. Raises LookupError if it has none."""

    def adler32(self, url: str) -> int:
        """Return the server's adler32 of a file. Raises LookupError if it has none."""
        reported = self.checksum(url)
        if not (found := re.search(r"adler32[=: ]([0-9a-f]{1,8})\b", reported, re.IGNORECASE)):
            raise LookupError(f"the server has no adler32, but {reported or 'none'}")
        return int(found[1], 16)

    def make_folder(self, folder: NewFolder) -> MadeFolder:
        """Create a folder, and return it. The server must report that it is new and empty.

        Raises RefusedError if the server has certainly created nothing, and DoorError for other failures.
        """
        self._make(folder)
        if found := self.names(folder):
            raise DoorError(f"{folder.url}: the new folder contains {found[0]!r} already. {ANOTHER}")
        return MadeFolder(folder.door, folder.name)

    @abstractmethod
    def _make(self, folder: NewFolder) -> None:
        """Create a folder. The request fails unless the server confirms that it created the folder."""

    @abstractmethod
    def upload(self, file: OwnFile, content: Body, size: int) -> None: ...

    @abstractmethod
    def delete(self, file: OwnFile) -> bool:
        """Delete a file; return whether it existed."""

    @abstractmethod
    def names(self, folder: NewFolder) -> list[str] | None:
        """List one of tpcsweep's folders, or return None if it is missing."""

    def require(self, folder: MadeFolder) -> None:
        """Raise DoorError unless a folder that another door of the same end created is seen at this one."""
        if self.names(folder) is None:
            other = "this folder is missing, although another door of the same end has created it"
            raise DoorError(f"{folder.url}: {other}. Fix: write urls that lead to one folder")

    @abstractmethod
    def _remove(self, folder: NewFolder) -> None:
        """Delete an empty folder if it exists."""

    def empty(self, folder: MadeFolder) -> int:
        """Delete all files in a folder; return their number."""
        try:
            return sum([self.delete(folder.file(name)) for name in self.names(folder) or ()])
        except ValueError as error:
            raise DoorError(f"{folder.url}: {error}. Fix: delete it, then run `tpcsweep reap`") from None

    def clear(self, folder: NewFolder) -> int:
        """Delete a folder with its files; return their number.

        A folder whose creation no server has confirmed is deleted only if it is listed under its name, and empty.
        """
        if isinstance(folder, MadeFolder):
            count = self.empty(folder)
            self._remove(folder)
            return count
        with suppress(OtherFolderError):
            if self.names(folder) == []:
                self._remove(folder)
        return 0
