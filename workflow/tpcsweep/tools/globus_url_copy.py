# SPDX-License-Identifier: Apache-2.0
"""globus-url-copy: third-party copies by GridFTP between a globus-gridftp-server at each origin.

Neither authentication nor encryption, as between the hosts of a test; so the servers hand out and take files to
whoever reaches them, which in a deployment's own network nobody else does. GridFTP User's Guide of the Grid
Community Toolkit: the source connects to the destination, with `-p` connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.tools.base import Credentials, Place, Program, Service, Transfer, last_lines

PORT = 2811


class GlobusUrlCopy(Program):
    """`globus-url-copy ftp://source ftp://destination`."""

    name = "globus-url-copy"
    extra = "globus"
    protocol = "gridftp"
    copy_modes = ("push",)
    encryptions = ("none",)
    authorizations = ("none",)
    most_connections = (100, "what every tool can at most")
    packages = ("globus-gass-copy-progs", "globus-gridftp-server-progs")

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """Give one server for every origin; it makes a process for each transfer."""
        where = ["-control-interface", address, "-data-interface", address, "-port", str(PORT)]
        program = ["/usr/sbin/globus-gridftp-server", "-no-detach", "-aa", "-anonymous-names-allowed", "*"]
        return [Service("gridftp", PORT, ["env", f"GLOBUS_HOSTNAME={address}", *program, *where])]

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        parallel = ["-p", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        source = f"ftp://{urlsplit(transfer.source).hostname}:{PORT}{transfer.source_file}"
        destination = f"ftp://{urlsplit(transfer.destination).hostname}:{PORT}{transfer.destination_file}"
        # Buffers are the kernel's, bounded by tcp_buffer: -tcp-bs would end their growing, at net.core.wmem_max.
        return ["/usr/bin/globus-url-copy", "-nodcau", *parallel, source, destination]

    def last_words(self, output: str) -> str:
        return last_lines(output, 2)  # the server's words are there
