"""gfal-copy, the tool of the published measurements: one process a transfer.

Each process presents the user's X.509 certificate to both ends, gets a macaroon from each, and sends COPY with
them (`application/macaroon-request`, then `TransferHeaderAuthorization`).
"""

from __future__ import annotations

from pathlib import Path

from tpcsweep.tools.base import Credentials, Program, Transfer, base_environment, package_versions

EXIT_CODES = {
    2: "no such file",
    5: "input/output error",
    13: "permission denied",
    17: "destination exists",
    112: "host is down",
}
"""gfal-copy ends with the errno of what went wrong."""


class GfalCopy(Program):
    """`gfal-copy --copy-mode pull|push`."""

    name = "gfal-copy"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """Credentials, and what keeps the client from burning the CPU that is being measured."""
        return {
            **base_environment(folder),
            "GFAL_PYTHONBIN": "/usr/bin/python3",
            "X509_USER_CERT": str(credentials.certificate),
            "X509_USER_KEY": str(credentials.key),
            "X509_CERT_DIR": str(credentials.authorities),
            # davix reads the whole system bundle for every session, about 0.25 CPU-s a transfer, unless there
            # is none.
            "SSL_CERT_FILE": str(credentials.authority),
            "SSL_CERT_DIR": "/nonexistent",
        }

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Without --copy-mode gfal-copy falls back to push, then to streaming through the client: never that."""
        streams = ["-n", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        mode = ["--copy-mode", transfer.copy_mode]
        return ["/usr/bin/gfal-copy", *mode, *streams, transfer.source, transfer.destination]

    def failure(self, returncode: int, output: str) -> str | None:
        """The last lines, without the progress line, and the exit code's name."""
        if returncode == 0:
            return None
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith("Copying")]
        meaning = EXIT_CODES.get(returncode, "see gfal-copy(1)")
        return f"exit code {returncode} ({meaning}): {' | '.join(lines[-2:]) or 'no message'}"

    def versions(self) -> dict[str, str]:
        """gfal2-util, gfal2 and davix."""
        return package_versions("gfal2-util-scripts", "libgfal2-2", "gfal2-plugin-http", "libdavix0v5")
