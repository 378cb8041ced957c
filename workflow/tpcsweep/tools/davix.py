# SPDX-License-Identifier: Apache-2.0
"""davix-put and davix-get: a process at one end moves a file to or from XRootD at the other by one HTTPS request.

They show the user's X.509 certificate. The XRootD at their own end takes no part: they read or write the file in
its folder, where its bytes are counted like those of any other tool.
"""

from __future__ import annotations

from pathlib import Path

from tpcsweep.tools.base import Credentials, Place, Program, Transfer


class DavixPut(Program):
    """`davix-put FILE URL`."""

    name = "davix-put"
    place: Place = "source"
    copy_modes = ("push",)
    most_connections = (1, "davix-put moves a file with one request")
    encryptions = ("tls", "none")
    authorizations = ("none",)
    needs_tls = "a certificate is shown by https alone"
    packages = ("davix", "libdavix0v5")

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        return super().environment(credentials, folder) | trust(credentials)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        shown = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
        identity = shown if credentials.needed else []
        # No second try: what fails is to be seen.
        options = [*identity, "--capath", str(credentials.authorities), "--retry", "0"]
        return [f"/usr/bin/{self.name}", *options, *self._ends(transfer)]

    def _ends(self, transfer: Transfer) -> tuple[str, str]:
        return transfer.source_file, transfer.told(transfer.destination)


class DavixGet(DavixPut):
    """`davix-get URL FILE`."""

    name = "davix-get"
    place: Place = "destination"
    copy_modes = ("pull",)
    most_connections = (1, "davix-get moves a file with one request")

    def _ends(self, transfer: Transfer) -> tuple[str, str]:
        return transfer.told(transfer.source), transfer.destination_file


def trust(credentials: Credentials) -> dict[str, str]:
    """Give the environment that keeps davix from reading the system's CA bundle, 0.25 CPU-s in every session."""
    return {"SSL_CERT_FILE": str(credentials.authority), "SSL_CERT_DIR": "/nonexistent"}
