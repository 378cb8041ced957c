# SPDX-License-Identifier: Apache-2.0
"""Requests to doors by the root protocol with xrdfs and xrdcp, which get names of credential files by environment."""

import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.common import processes
from tpcsweep.common.urls import NewFolder, OwnFile
from tpcsweep.measuring.tools.tool import Credentials, last_lines
from tpcsweep.measuring.tools.xrdcp import login_environment
from tpcsweep.testbeds.endpoints.doors import ANOTHER, PATIENCE, Body, DoorError, Doors, RefusedError

SLOWEST = 1 << 20  # smallest accepted rate of an upload or download, B/s
LIMITS = {
    f"XRD_{name}": f"{PATIENCE:.0f}"
    for name in ("REQUESTTIMEOUT", "STREAMTIMEOUT", "STREAMERRORWINDOW", "CONNECTIONWINDOW")
}
"""Settings of XRootD's client by environment, s."""
DENIED = re.compile(r"\[3010\]|permission denied|not authorized", re.IGNORECASE)
"""kXR_NotAuthorized, or its text."""
MISSING = re.compile(r"\[3011\]|no such file", re.IGNORECASE)  # kXR_NotFound, or its text


class RootDoors(Doors):
    def __init__(self, credentials: Credentials, role: str) -> None:
        home = processes.measured_environment(Path(tempfile.gettempdir()) / "nonexistent")
        self._environment = {**home, **login_environment(credentials, role), **LIMITS}

    def server(self, url: str) -> str:
        version = (self._asked(url, "query", "config", "version", whole=True) or "").strip()
        return f"XRootD {version}" if version.startswith("v") else version

    def size(self, url: str) -> int | None:
        found = self._asked(url, "stat")
        size = re.search(r"^Size:\s+(\d+)", found or "", re.MULTILINE)
        return int(size[1]) if size else None

    def entries(self, folder: str) -> list[str] | None:
        found = self._asked(folder, "ls")
        return None if found is None else [line.rpartition("/")[2] for line in found.splitlines()]

    def _make(self, folder: NewFolder) -> None:
        # Some servers answer mkdir for an existing folder as if they had created it.
        try:
            existing = self._asked(folder.url, "stat")
        except DoorError as error:
            raise RefusedError(str(error)) from None
        if existing is not None:
            other = "a new random name exists, so the server may answer for another folder"
            raise DoorError(f"stat {folder.url}: {other}. {ANOTHER}")
        try:
            made = self._asked(folder.url, "mkdir")
        except DoorError as error:
            raise (RefusedError(str(error)) if DENIED.search(str(error)) else error) from None
        if made is None:
            raise RefusedError(f"mkdir {folder.url}: no such folder above it")

    def upload(self, file: OwnFile, content: Body, size: int) -> None:
        self._copied(["-", file.url], file.url, content, size)

    def download(self, url: str) -> bytes:
        return self._copied([url, "-"], url)

    def start(self, url: str, size: int) -> bytes:
        return (self._asked(url, "tail", "-c", str(size)) or "").encode()  # the end: xrdcp reads whole files

    def checksum(self, url: str) -> str:
        try:
            return "=".join((self._asked(url, "query", "checksum") or "").split())
        except DoorError as error:
            raise LookupError(str(error)) from None

    def delete(self, file: OwnFile) -> bool:
        return self._asked(file.url, "rm") is not None

    def names(self, folder: NewFolder) -> list[str] | None:
        return self.entries(folder.url)

    def _remove(self, folder: NewFolder) -> None:
        self._asked(folder.url, "rmdir")

    def _asked(self, url: str, *request: str, whole: bool = False) -> str | None:
        """Run xrdfs; return its output, or None if the file is missing. `whole` requests name no path."""
        parts = urlsplit(url)
        path = [] if whole else [f"/{parts.path.strip('/')}"]
        command = ["xrdfs", f"{parts.scheme}://{parts.netloc}", *request, *path]
        code, output, errors = self._run(command, f"{' '.join(request)} {url}")
        if code and not MISSING.search(errors):
            raise DoorError(f"{' '.join(request)} {url}: {errors}")
        return None if code else output.decode(errors="replace")

    def _copied(self, ends: list[str], url: str, content: Body = lambda: (), size: int = 0) -> bytes:
        verb = "upload" if ends[0] == "-" else "download"
        code, output, errors = self._run(["xrdcp", "--nopbar", *ends], f"{verb} {url}", content, size)
        if code:
            raise DoorError(f"{verb} {url}: {errors}")
        return output

    def _run(
        self, command: list[str], request: str, content: Body = lambda: (), size: int = 0
    ) -> tuple[int, bytes, str]:
        """Return exit code, output and last line of errors. A process that takes too long is killed."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            process = processes.start(command, self._environment, start_new_session=True, **pipes)
        except OSError as error:
            fix = ". Fix: install the package xrootd-client" if isinstance(error, FileNotFoundError) else ""
            raise DoorError(f"{request}: {command[0]}: {error.strerror}{fix}") from None
        limit = PATIENCE + size / SLOWEST
        watchdog = threading.Timer(limit, process.kill)
        watchdog.start()
        try:
            for block in content():
                process.stdin.write(block)  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # xrdcp has ended, and its message tells why
        finally:
            output, errors = process.communicate()
            watchdog.cancel()
        why = last_lines(errors.decode(errors="replace").replace("\0", ""))
        if process.returncode < 0:
            ended = -process.returncode
            why = (
                f"no end within {limit:.0f} s" if ended == signal.SIGKILL else signal.strsignal(ended) or why
            )
        return process.returncode, output, why
