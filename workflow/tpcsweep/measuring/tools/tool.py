# SPDX-License-Identifier: Apache-2.0
"""Interfaces of transfer tools: a command line for each transfer, or one process for all transfers.

Standard library only: the client imports this next to the measured transfers, where startup time matters, and the
system's Python reads it too.
"""

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tpcsweep.common import processes
from tpcsweep.common.installation import PACKAGE
from tpcsweep.deploying.xrootd.server_config import CHECKSUMS as CHECKSUMS

Place = Literal["client", "source", "destination"]
"""Place of a tool's processes: the client, or a side's only origin, with its network and CPU quota."""

Protocol = Literal["https", "root", "gridftp", "iperf3"]

OnMarker = Callable[[int], None]
"""Function that is called with the bytes of a transfer so far, at each performance marker."""

ANONYMOUS = "anonymous"  # name of a file in a credentials folder that marks servers without authorization
LONGEST = 300
"""Most characters of a failure, so that a pipe writes a line at once and threads do not mix lines."""
FILES = ("memory_to_memory", "memory_to_disk", "disk_to_disk")
HTTP_LAYERS = (*FILES, "mirage")
"""Layers of tools that never open a file themselves."""
READY = {"ready": True}


class Credentials:
    """Files of a deployment's credentials folder that a client uses."""

    def __init__(self, folder: Path, authorization: str = "usual", macaroon_hours: int = 1) -> None:
        """`credentials.create_credentials` fills the folder; `authorization` is the parameter's value."""
        self.folder = folder
        self.macaroon_hours = macaroon_hours
        """Validity to request for macaroons, which other sites see."""
        self.authorization = authorization
        self.needed = authorization != "none" and not (folder / ANONYMOUS).exists()
        """Whether the servers require credentials; none are sent to others."""
        self.authority = folder / "ca.pem"
        self.authorities = folder / "ca"
        """The authority's certificate under the hashed names that OpenSSL looks up."""
        self.certificate = folder / "user.pem"
        self.key = folder / "user.key"

    def token_file(self, end: str) -> Path | None:
        """Return the file of an end's bearer token ("source" or "destination"), or None to use a certificate."""
        file = self.folder / f"{end}.token"
        return file if self.needed and file.exists() else None

    def token(self, end: str) -> str | None:
        """Read the bearer token of an end now, because it may be renewed during a cell."""
        file = self.token_file(end)
        return file.read_text().strip() if file else None


@dataclass(frozen=True)
class Transfer:
    source: str  # its https URL, like that of the destination
    destination: str
    copy_mode: str  # `pull`: the destination fetches. `push`: the source sends.
    tcp_streams: int = 1  # connections inside the transfer
    source_file: str = ""  # path of the file on the source's origins, for tools that bypass XRootD
    destination_file: str = ""  # path of the file on the destination's origins, for tools that bypass XRootD
    stream: int = 0  # number of the cell's stream, from 0
    encryption: str = "usual"  # value of the parameter `encryption`
    checksum: str = "none"  # value of the parameter `checksum`
    scitag: int | None = None  # value of the parameter `scitag`

    @property
    def ends(self) -> tuple[str, str, str]:
        """URL that gets the COPY and opens the connections, header that names the other end, and its URL."""
        if self.copy_mode == "pull":
            return self.destination, "Source", self.source
        return self.source, "Destination", self.destination

    @property
    def roles(self) -> tuple[str, str]:
        """Sides of the end that gets the COPY and of the other end."""
        return ("destination", "source") if self.copy_mode == "pull" else ("source", "destination")

    @property
    def verifying(self) -> bool:
        """Whether checksums of source and destination are compared."""
        return self.checksum != "none"

    @property
    def asked(self) -> tuple[str, str]:
        """Side and URL of the server that gets the request: the active end, unless that is a local file."""
        first, second = zip(self.roles, self.ends[::2], strict=True)
        return second if first[1].startswith("file:") else first

    def url_for_mover(self, url: str) -> str:
        """Return the URL of an end as the program that moves the data uses it.

        The scheme of the accepting end decides about encryption; XRootD serves https and http on one port.
        """
        plain = self.encryption == "none" and url == self.ends[2]
        return url.replace("https://", "http://", 1) if plain else url


@dataclass(frozen=True)
class Service:
    """Server that a tool needs at an origin in addition to XRootD."""

    name: str
    port: int  # listening port, which shows that the server is ready
    command: list[str]


class Tool(ABC):
    """Program that transfers files.

    The defaults are those of a third-party copy by HTTP; tools override differing ones. All methods except `prepare`
    and `versions` are pure.
    """

    name: str
    order: int = 100
    """Place in lists of tools: lower ones come first, equal ones by name."""
    place: Place = "client"
    protocol: Protocol = "https"
    """Protocol to the servers. XRootD speaks https and root; other servers are `services`."""
    copy_modes: Sequence[str] = ("pull", "push")
    layers: Sequence[str] = FILES
    most_connections: tuple[int, str] | None = None
    """Most TCP connections inside a transfer, with the reason, or None for XRootD's HTTP limits."""
    encryptions: Sequence[str] = ("tls",)
    """Supported encryptions in addition to `usual`, which means the first of them."""
    authorizations: Sequence[str] = ("macaroons",)  # supported authorizations in addition to `usual`
    checksums: Sequence[str] = ()
    """Supported checksums in addition to `none`: the tool compares those of source and destination."""
    tags: bool = False  # whether its COPY carries a SciTag
    needs_tls: str | None = None
    """Reason why its data must be encrypted if servers require credentials, or None."""
    follows_in_clear = False
    """Whether it follows a redirection from https to http, and shows a token there."""
    own_release: bool = False
    """Whether its program may be of a release of XRootD that tpcsweep provides (`obtaining.obtain_client`)."""
    extra: str | None = None
    """Name in `common.extras.EXTRAS` that installs the tool, or None if set-up always installs it."""
    packages: Sequence[str] = ()  # Debian packages of the tool, by their names in any release

    @property
    def http_tpc(self) -> bool:
        """Whether its transfers are third-party copies by HTTP, which XRootD's monitoring reports."""
        return (self.place, self.protocol) == ("client", "https")

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """Return the most TCP connections of a transfer, and the reason for this limit."""
        if self.most_connections:
            return self.most_connections
        return (100, "XRootD's limit") if copy_mode == "pull" else (1, "multi-stream is pull only in XRootD")

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """Return the servers needed at an origin in addition to XRootD, for at most `streams` streams."""
        return ()

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """Return the whole environment of the tool's processes: no user's setting changes a measurement."""
        return processes.measured_environment(folder)

    def versions(self) -> dict[str, str]:
        return package_versions(*self.packages)


class Program(Tool):
    """Tool with one process for each transfer."""

    exit_codes: Mapping[int, str] = {}  # meanings of exit codes, for tools whose output does not explain them
    manual: str = ""  # manual page that explains other exit codes

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Prepare a cell once, before its first transfer; `folder` is the client's own.

        Raises RuntimeError if the tool cannot start, with its own message.
        """

    @abstractmethod
    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Return the command line of one transfer, without secrets."""

    def failure(self, returncode: int, output: str) -> str | None:
        """Return why a transfer failed, by exit code and output, or None if it succeeded."""
        if returncode == 0:
            return None
        meaning = self.exit_codes.get(returncode, f"see {self.manual}")
        shown = f" ({meaning})" if self.exit_codes else ""
        return f"exit code {returncode}{shown}: {self.failure_reason(output)}"

    def failure_reason(self, output: str) -> str:
        """Return the reason of a failure for people: the last line of the output."""
        return last_lines(output)


class Worker(Tool):
    """Tool with one process for all transfers of a cell, which exchanges lines of JSON with the client.

    The worker starts with READY. The client writes a transfer as `{"number": …}` with the fields of `Transfer`; the
    worker answers `{"number": …, "failure": null}`, or with the text of the failure, in any order, and before that with
    `{"number": …, "bytes": …}` for each performance marker, if it sees these. The worker exits at the end of its
    standard input or by a signal, even during transfers, so that it never outlives the client.
    """

    @abstractmethod
    def worker(self, credentials: Credentials) -> list[str]:
        """Return the command line of the process, without secrets."""

    def main_command(self, python: str, module: str, *arguments: str) -> list[str]:
        """Return the command line that runs `main(*arguments)` of a module in `tpcsweep.measuring.tools`."""
        call = f"import sys; from tpcsweep.measuring.tools import {module}; {module}.main(*sys.argv[1:])"
        return [python, "-P", "-c", call, *arguments]

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        return {**super().environment(credentials, folder), "PYTHONPATH": str(PACKAGE.parent)}


def transfer_line(number: int, transfer: Transfer) -> bytes:
    return _line({"number": number, **vars(transfer)})


def parse_transfer(line: bytes) -> tuple[int, Transfer]:
    fields = json.loads(line)
    return fields.pop("number"), Transfer(**fields)


class Answers:
    """A worker's lines on standard output; output of libraries is redirected to standard error."""

    def __init__(self) -> None:
        self._file = os.dup(1)
        os.dup2(2, 1)

    def ready(self) -> None:
        os.write(self._file, _line(READY))

    def marker(self, number: int, size: int) -> None:
        """Report the bytes of a transfer so far, by a performance marker. Any thread may call this."""
        os.write(self._file, _line({"number": number, "bytes": size}))

    def report_end(self, number: int, failure: str | None) -> None:
        """Report the end of a transfer. Any thread may call this."""
        os.write(self._file, _line({"number": number, "failure": failure and shortened(failure)}))


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def shortened(text: str) -> str:
    """Return a text of at most LONGEST characters: its beginning and its end, as many servers name the cause last."""
    half = LONGEST // 2 - 1
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"[:LONGEST]


def last_lines(output: str, count: int = 1) -> str:
    """Return the last non-empty lines of a program's output, joined and shortened for people."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return shortened(" | ".join(lines[-count:])) or "no message"


def first_line(command: list[str]) -> str:
    """Return the first line that a command prints, or why it cannot be run."""
    try:
        done = processes.run(command, timeout=20)
    except OSError as error:
        return f"not found: {error.strerror}"
    except subprocess.TimeoutExpired as error:
        return f"did not end within {error.timeout:.0f} s"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def package_versions(*packages: str) -> dict[str, str]:
    query = ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\n", *packages]
    try:
        lines = processes.run(query).stdout.splitlines()
    except OSError:
        return {}
    return {name: version for name, version in (line.split("\t") for line in lines) if version}
