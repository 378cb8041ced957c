"""davix-put: a process at the source sends a file to XRootD at the destination, with the user's X.509 certificate.

One PUT for each file, over TLS. The source's XRootD takes no part: the file is read from its folder.
"""

from __future__ import annotations

from pathlib import Path

from tpcsweep.tools.base import (
    Credentials,
    Place,
    Program,
    Transfer,
    base_environment,
    last_lines,
    package_versions,
)


class DavixPut(Program):
    """`davix-put FILE URL`."""

    name = "davix-put"
    place: Place = "source"
    copy_modes = ("push",)

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """One file is one request."""
        return 1, f"{self.name} moves a file with one request"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """As for gfal-copy, whose library this is: the whole system's bundle would be read for every session."""
        trust = {"SSL_CERT_FILE": str(credentials.authority), "SSL_CERT_DIR": "/nonexistent"}
        return {**base_environment(folder), **trust}

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """No second try: what fails is to be seen."""
        options = options_of(credentials)
        return ["/usr/bin/davix-put", *options, transfer.source_file, transfer.destination]

    def failure(self, returncode: int, output: str) -> str | None:
        """Its last line; the exit code says no more than that it failed."""
        if returncode == 0:
            return None
        return f"exit code {returncode}: {last_lines(output)}"

    def versions(self) -> dict[str, str]:
        """davix and its library."""
        return package_versions("davix", "libdavix0v5")


def options_of(credentials: Credentials) -> list[str]:
    """What every program of davix is given."""
    identity = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
    return [*identity, "--capath", str(credentials.authorities), "--retry", "0"]
