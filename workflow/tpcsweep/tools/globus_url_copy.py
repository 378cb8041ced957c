"""globus-url-copy: third-party copies by GridFTP between a globus-gridftp-server at each origin.

Neither authentication nor encryption, as between the hosts of a test; so the servers hand out and take files to
whoever reaches them, which in a deployment's own network nobody else does. GridFTP User's Guide of the Grid
Community Toolkit: the source connects to the destination, with `-p` connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.tools.base import Credentials, Place, Program, Service, Transfer, last_lines, package_versions

PORT = 2811


class GlobusUrlCopy(Program):
    """`globus-url-copy ftp://source ftp://destination`."""

    name = "globus-url-copy"
    extra = "globus"
    protocol = "gridftp"
    copy_modes = ("push",)

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """Mode E has any number; more than 100 nothing can."""
        return 100, "what every tool can at most"

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """One server at every origin, which makes a process for each transfer."""
        where = ["-control-interface", address, "-data-interface", address, "-port", str(PORT)]
        allowed = ["-aa", "-anonymous-names-allowed", "*"]
        return [
            Service(
                "gridftp",
                PORT,
                [
                    "env",
                    f"GLOBUS_HOSTNAME={address}",
                    "/usr/sbin/globus-gridftp-server",
                    "-no-detach",
                    *allowed,
                    *where,
                ],
            )
        ]

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Buffers are the kernel's, bounded by tcp_buffer: -tcp-bs would end their growing, at net.core.wmem_max."""
        parallel = ["-p", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        ends = (
            f"ftp://{urlsplit(url).hostname}:{PORT}{file}"
            for url, file in (
                (transfer.source, transfer.source_file),
                (transfer.destination, transfer.destination_file),
            )
        )
        return ["/usr/bin/globus-url-copy", "-nodcau", *parallel, *ends]

    def failure(self, returncode: int, output: str) -> str | None:
        """Its last lines, which have the server's words."""
        if returncode == 0:
            return None
        return f"exit code {returncode}: {last_lines(output, 2)}"

    def versions(self) -> dict[str, str]:
        """Client and server."""
        return package_versions("globus-gass-copy-progs", "globus-gridftp-server-progs")
