# SPDX-License-Identifier: Apache-2.0
"""What a tool is: a command line for one transfer, and the meaning of how it ended; or a process for all of them.

Standard library only: the client imports this beside the measured transfers, where every start counts. The system's
Python reads it too.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tpcsweep import processes

Place = Literal["client", "source", "destination"]
"""Where processes run: at the client, or at the one origin of a side, in its network and under its CPU quota."""

ANONYMOUS = "anonymous"
"""A file of this name in a folder of credentials means that servers ask for none."""
LONGEST = 300
"""Characters of a failure at most: a line that a pipe takes at once is never mixed with another thread's."""
READY = {"ready": True}
VALID_HOURS = 365 * 24
"""Validity of certificates and tokens, longer than any deployment: they are made for one, and deleted with it."""
PACKAGE = Path(__file__).resolve().parents[2]
"""The folder that `tpcsweep` is in: another Python than the client's own finds it by PYTHONPATH."""


class Credentials:
    """The files of a deployment's credentials folder that a client uses."""

    def __init__(self, folder: Path, authorization: str = "usual") -> None:
        """`xrootd.credentials.create_credentials` fills the folder; `authorization` is the parameter of that name."""
        self.folder = folder
        self.authorization = authorization
        self.needed = authorization != "none" and not (folder / ANONYMOUS).exists()
        """Whether the servers ask for credentials: others are not shown any."""
        self.authority = folder / "ca.pem"
        self.authorities = folder / "ca"
        """The authority's certificate under the hashed names that OpenSSL looks up."""
        self.certificate = folder / "user.pem"
        self.key = folder / "user.key"

    def token_file(self, end: str) -> Path | None:
        """Return the file of the bearer token for `source` or `destination`; None: the end gets a certificate."""
        file = self.folder / f"{end}.token"
        return file if self.needed and file.exists() else None

    def token(self, end: str) -> str | None:
        """Read the bearer token for an end now, as it may be renewed while a cell runs."""
        file = self.token_file(end)
        return file.read_text().strip() if file else None


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
    encryption: str = "usual"
    """How the data go, as the parameter has it."""

    @property
    def ends(self) -> tuple[str, str, str]:
        """The end that gets the COPY and opens the connections, the header that names the other end, and that end."""
        if self.copy_mode == "pull":
            return self.destination, "Source", self.source
        return self.source, "Destination", self.destination

    @property
    def roles(self) -> tuple[str, str]:
        """Give the sides of the end that gets the COPY and of the other one."""
        return ("destination", "source") if self.copy_mode == "pull" else ("source", "destination")

    def told(self, url: str) -> str:
        """Give the URL of an end as it is told to whoever moves the data.

        The scheme of the end to which the connections are opened decides: one port of XRootD speaks https and http.
        """
        plain = self.encryption == "none" and url == self.ends[2]
        return url.replace("https://", "http://", 1) if plain else url


@dataclass(frozen=True)
class Service:
    """A server that a tool needs at an origin beside XRootD."""

    name: str
    port: int
    """Where it listens: then it is ready."""
    command: list[str]


class Tool(ABC):
    """What moves files.

    The values and methods here are those of a third-party copy by HTTP; a tool overrides those that differ. All
    methods are pure but `prepare` and `versions`.
    """

    name: str
    place: Place = "client"
    protocol: Literal["https", "root", "gridftp", "iperf3"] = "https"
    """What it speaks to the servers. XRootD speaks https and root; other servers are `services`."""
    copy_modes: Sequence[str] = ("pull", "push")
    layers: Sequence[str] = ("memory_to_memory", "memory_to_disk", "disk_to_disk")
    most_connections: tuple[int, str] | None = None
    """The most TCP connections inside a transfer, and why not more; None: as XRootD has it for HTTP."""
    encryptions: Sequence[str] = ("tls",)
    """How its data can go, beside `usual`, which is the first of these."""
    authorizations: Sequence[str] = ("macaroons",)
    """By which its transfers can be let in, beside `usual`."""
    needs_tls: str | None = None
    """Why its data must be encrypted where servers ask for credentials; None: they need not be."""
    extra: str | None = None
    """The one of `extras.EXTRAS` that installs it; None: set-up always does."""
    packages: Sequence[str] = ()
    """The Debian packages that it consists of, by the names that they have in any release."""

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """Give the most TCP connections that a transfer can have, and why not more."""
        if self.most_connections:
            return self.most_connections
        return (100, "XRootD's limit") if copy_mode == "pull" else (1, "multi-stream is pull only in XRootD")

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """Give the servers that it needs beside XRootD at an origin of a side, for cells of at most so many streams."""
        return ()

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """Give the whole environment of the tool's processes.

        It has nothing of the caller's, so that no user's setting changes a measurement.
        """
        return processes.measured(folder)

    def versions(self) -> dict[str, str]:
        return package_versions(*self.packages)


class Program(Tool):
    """A tool that is a process for each transfer."""

    exit_codes: Mapping[int, str] = {}
    """What exit codes mean, for tools whose last words do not say it."""
    manual: str = ""
    """Where the meanings of other exit codes are explained."""

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Do once, before the first transfer of a cell, what need not be done for each; `folder` is the client's own.

        Raises:
            RuntimeError: if the tool cannot begin, in its own words.
        """

    @abstractmethod
    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Give the command line of one transfer, free of secrets."""

    def failure(self, returncode: int, output: str) -> str | None:
        """Say why a transfer failed, by the exit code and all output of its process; None if it ended well."""
        if returncode == 0:
            return None
        meaning = self.exit_codes.get(returncode, f"see {self.manual}")
        shown = f" ({meaning})" if self.exit_codes else ""
        return f"exit code {returncode}{shown}: {self.last_words(output)}"

    def last_words(self, output: str) -> str:
        """Give the reason of a failure for people: the last line of the output."""
        return last_lines(output)


class Worker(Tool):
    """A tool that is one process for all transfers of a cell; it and the client exchange lines of JSON.

    The worker begins with READY. The client writes a transfer as `{"number": …}` with the fields of `Transfer`; the
    worker answers `{"number": …, "failure": null}` or with the failure's text, in any order.

    The worker ends when its standard input does, or by a signal, whatever runs: so it never outlives the client.
    """

    @abstractmethod
    def worker(self, credentials: Credentials) -> list[str]:
        """Give the command line of the process, free of secrets."""


def worker_command(python: str, module: str, *arguments: str) -> list[str]:
    """Give the command line of a worker whose process runs `main(*arguments)` of a module in `tpcsweep.tools`."""
    call = f"import sys; from tpcsweep.tools import {module}; {module}.main(*sys.argv[1:])"
    return [python, "-P", "-c", call, *arguments]


def order(number: int, transfer: Transfer) -> bytes:
    return _line({"number": number, **vars(transfer)})


def ordered(line: bytes) -> tuple[int, Transfer]:
    """Read a line of `order`."""
    fields = json.loads(line)
    return fields.pop("number"), Transfer(**fields)


class Answers:
    """A worker's lines on its standard output; output of libraries goes to standard error instead."""

    def __init__(self) -> None:
        self._file = os.dup(1)
        os.dup2(2, 1)

    def ready(self) -> None:
        os.write(self._file, _line(READY))

    def ended(self, number: int, failure: str | None) -> None:
        """Say how a transfer ended. Any thread may call this."""
        os.write(self._file, _line({"number": number, "failure": failure and failure[:LONGEST]}))


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def last_lines(output: str, count: int = 1) -> str:
    """Give the last lines that are not empty of what a program said, joined and shortened for people."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-count:])[:300] or "no message"


def first_line(command: list[str]) -> str:
    """Give the first line that a command prints, or why it cannot be run."""
    try:
        done = processes.run(command, timeout=20)
    except OSError as error:
        return f"not found: {error.strerror}"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def package_versions(*packages: str) -> dict[str, str]:
    """Give the versions of Debian packages; those that are not installed are left out."""
    query = ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\n", *packages]
    try:
        lines = processes.run(query).stdout.splitlines()
    except OSError:
        return {}
    return {name: version for name, version in (line.split("\t") for line in lines) if version}
