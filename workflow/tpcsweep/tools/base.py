"""What a tool is: a command line for one transfer, and the meaning of how it ended; or a process for all of them.

Standard library only: the client imports this beside the measured transfers, where every start counts.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Place = Literal["client", "source", "destination"]
"""Where processes run: at the client, or at the one origin of a side, in its network and under its CPU quota."""


@dataclass(frozen=True)
class Credentials:
    """The files of a deployment's credentials folder that a client uses."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the deployment's authority."""
        return self.folder / "ca.pem"

    @property
    def authorities(self) -> Path:
        """The same as a folder of hashed names."""
        return self.folder / "ca"

    @property
    def certificate(self) -> Path:
        """The user's certificate."""
        return self.folder / "user.pem"

    @property
    def key(self) -> Path:
        """The user's key."""
        return self.folder / "user.key"


@dataclass(frozen=True)
class Transfer:
    """One file to be copied."""

    source: str
    """Its https URL, like that of the destination."""
    destination: str
    copy_mode: str
    """`pull`: the destination fetches. `push`: the source sends."""
    tcp_streams: int = 1
    """Connections inside the transfer."""
    source_file: str = ""
    """The file's path on the source's origins, for tools that do not ask XRootD for it."""
    destination_file: str = ""
    """The same on the destination's."""
    stream: int = 0
    """Which of the cell's streams it is of, from 0."""


@dataclass(frozen=True)
class Service:
    """A server that a tool needs at an origin beside XRootD."""

    name: str
    port: int
    """Where it listens: then it is ready."""
    command: list[str]


class Tool(ABC):
    """What moves files. Methods are pure but for `prepare` and `versions`.

    What has a value here is that of a third-party copy by HTTP; a tool says what of it is different.
    """

    name: str
    place: Place = "client"
    protocol: Literal["https", "root", "gridftp", "iperf3"] = "https"
    """What it speaks to the servers. XRootD speaks https and root; other servers are `services`."""
    copy_modes: Sequence[str] = ("pull", "push")
    layers: Sequence[str] = ("memory_to_memory", "memory_to_disk", "disk_to_disk")
    extra: str | None = None
    """The one of `extras.EXTRAS` that it comes with, where set-up leaves it out until it is asked for."""

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """The most TCP connections that a transfer can have, and why not more."""
        return (100, "XRootD's limit") if copy_mode == "pull" else (1, "multi-stream is pull only in XRootD")

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """The servers that it needs at an origin of a side, at this address, for cells of so many streams."""
        return ()

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """The whole environment of the tool's processes."""
        return base_environment(folder)

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Names and versions of the software that the tool consists of."""


class Program(Tool):
    """A tool that is a process for each transfer."""

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Do once for a cell what need not be done for each transfer; `folder` is private to the client.

        Raises RuntimeError where the tool cannot begin, with its own words.
        """

    @abstractmethod
    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """The command line of one transfer, free of secrets."""

    @abstractmethod
    def failure(self, returncode: int, output: str) -> str | None:
        """Why a transfer failed, in the tool's own words; None where it ended well."""


class Worker(Tool):
    """A tool that is one process for all transfers of a cell; it speaks with the client as `tools/lines.py` has it."""

    @abstractmethod
    def worker(self, credentials: Credentials) -> list[str]:
        """The command line of the process, free of secrets."""


def last_lines(output: str, count: int = 1) -> str:
    """The last lines of what a program said, for people; what there is where it said nothing."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-count:])[:300] or "no message"


def base_environment(folder: Path) -> dict[str, str]:
    """What every tool gets: nothing of the caller's, so that no user's setting changes a measurement."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}


def first_line(command: list[str]) -> str:
    """The first line that a command prints, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        return f"not found: {error.strerror}"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def package_versions(*packages: str) -> dict[str, str]:
    """Versions of Debian packages; what is not installed as a package is left out."""
    query = ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\n", *packages]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        return {}
    return {name: version for name, version in (line.split("\t") for line in lines) if version}
