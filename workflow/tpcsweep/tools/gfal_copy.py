# SPDX-License-Identifier: Apache-2.0
"""gfal-copy, the tool of the published measurements: one process a transfer.

Each process presents the user's X.509 certificate to both ends, gets a macaroon from each, and sends COPY with
them (`application/macaroon-request`, then `TransferHeaderAuthorization`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpcsweep.tools.base import Credentials, Program, Transfer
from tpcsweep.tools.davix import trust


class GfalCopy(Program):
    """`gfal-copy --copy-mode pull|push`."""

    name = "gfal-copy"
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")
    needs_tls = "gfal2 asks for macaroons by https alone"
    packages = ("gfal2-util-scripts", "libgfal2-2", "gfal2-plugin-http", "libdavix0v5")
    exit_codes: Mapping[int, str] = {
        2: "no such file",
        5: "input/output error",
        13: "permission denied",
        17: "destination exists",
        112: "host is down",
    }
    """It ends with the errno of what went wrong."""
    manual = "gfal-copy(1)"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        own = {"GFAL_PYTHONBIN": "/usr/bin/python3", "X509_CERT_DIR": str(credentials.authorities)}
        if credentials.needed:
            shown = {"X509_USER_CERT": str(credentials.certificate), "X509_USER_KEY": str(credentials.key)}
        else:
            # Without a token gfal2 asks that a certificate be delegated, which XRootD refuses: any will do.
            shown = {"BEARER_TOKEN": "none"}
        return super().environment(credentials, folder) | own | shown | trust(credentials)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        streams = ["-n", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        # Without --copy-mode it falls back to push, then to streaming through the client: never that.
        mode = ["--copy-mode", transfer.copy_mode]
        ends = transfer.told(transfer.source), transfer.told(transfer.destination)
        return ["/usr/bin/gfal-copy", *mode, *streams, *ends]

    def last_words(self, output: str) -> str:
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("Copying")]
        return " | ".join(lines[-2:]) or "no message"
