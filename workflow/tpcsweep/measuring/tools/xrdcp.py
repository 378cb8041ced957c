# SPDX-License-Identifier: Apache-2.0
"""xrdcp and xrdcp-direct: copies by the root protocol, one process for each transfer.

xrdcp makes third-party copies: the destination's XRootD starts an xrdcp for each transfer, which fetches the file from
the source's (`ofs.tpc` in `server_config`). It checks every 2.5 s whether the copy has ended, so a transfer takes a
multiple of that. xrdcp-direct runs at the source, and sends a file from the folder of the source's XRootD, which is not
involved.

The data are not encrypted, as is usual with this protocol; they use less CPU for each byte than tools that speak https.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.measuring.tools.tool import CHECKSUMS, Credentials, Program, Protocol, Transfer, first_line

ONE_TOO_MANY = (5, 6, 7)
"""Release before which xrdcp requested one connection too many from a destination (xrootd issue 2164)."""


class Xrdcp(Program):
    """`xrdcp --tpc only`."""

    name = "xrdcp"
    order = 6
    protocol: Protocol = "root"
    copy_modes: Sequence[str] = ("pull",)
    encryptions: Sequence[str] = ("none",)
    authorizations: Sequence[str] = ("none",)
    checksums: Sequence[str] = CHECKSUMS
    most_connections = (15, "the limit of xrdcp --streams")
    """Data connections; one more carries requests.
    Sources: xrdcp(1); XRootD configuration reference, ofs.tpc streams."""
    packages = ("xrootd-client", "libxrdcl3", "libxrdcl3t64")
    exit_codes: Mapping[int, str] = {
        50: "a mistake in the call, or a local error",
        51: "the connection failed",
        52: "the session failed",
        53: "the protocol failed, or authentication did",
        54: "the server refused",
    }
    """50 plus the hundreds of the status (XrdCl::Status::GetShellCode)."""
    manual = "xrdcp(1)"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        # No retry, because failures must be visible.
        own = {"XRD_CONNECTIONRETRY": "1", "XRD_LOGLEVEL": "Error"}
        return super().environment(credentials, folder) | login_environment(credentials, "source") | own

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        # `only`, because `first` falls back to streaming through the client.
        fewer = int(_release() < ONE_TOO_MANY)
        return self._command(["--tpc", "only"], transfer, _root_url(transfer.source), fewer)

    def _command(self, options: list[str], transfer: Transfer, source: str, fewer: int = 0) -> list[str]:
        # One more connection carries requests, and without streams also the data.
        streams = ["--streams", str(transfer.tcp_streams - fewer)] if transfer.tcp_streams > 1 else []
        checksum = ["--cksum", transfer.checksum] if transfer.verifying else []
        how = ["--nopbar", *options, *streams, *checksum]
        return ["/usr/bin/xrdcp", *how, source, _root_url(transfer.destination)]

    def failure_reason(self, output: str) -> str:
        return super().failure_reason(output.replace("\0", ""))  # a server's message ends with a zero byte


class XrdcpDirect(Xrdcp):
    """`xrdcp FILE root://…`."""

    name = "xrdcp-direct"
    order = 7
    place = "source"
    copy_modes = ("push",)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        return self._command([], transfer, transfer.source_file)


def login_environment(credentials: Credentials, end: str) -> dict[str, str]:
    """Return the environment that names the credential of an end, and restricts the client to protocols that use it."""
    trust = {"X509_CERT_DIR": str(credentials.authorities)}
    if token := credentials.token_file(end):
        return {**trust, "XrdSecPROTOCOL": "ztn", "BEARER_TOKEN_FILE": str(token)}
    if credentials.needed:
        return {**trust, "XrdSecPROTOCOL": "gsi,unix,host", "X509_USER_PROXY": str(credentials.key)}
    return {**trust, "XrdSecPROTOCOL": "unix,host"}


@functools.cache
def _release() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", first_line(["/usr/bin/xrdcp", "--version"]))[:3]))


def _root_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme if parts.scheme == 'roots' else 'root'}://{parts.netloc}//{parts.path.lstrip('/')}"
