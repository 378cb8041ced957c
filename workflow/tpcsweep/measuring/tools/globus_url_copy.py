# SPDX-License-Identifier: Apache-2.0
"""globus-url-copy: third-party GridFTP copies between a globus-gridftp-server at each origin.

Copies have neither authentication nor encryption, so the servers serve anyone who reaches them, which in a deployment's
own network is nobody else. The source connects to the destination with `-p` connections (GridFTP User's Guide of the
Grid Community Toolkit).
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.measuring.tools.tool import Credentials, Place, Program, Service, Transfer, last_lines

PORT = 2811


class GlobusUrlCopy(Program):
    """`globus-url-copy ftp://source ftp://destination`."""

    name = "globus-url-copy"
    order = 8
    extra = "globus"
    protocol = "gridftp"
    copy_modes = ("push",)
    encryptions = ("none",)
    authorizations = ("none",)
    most_connections = (100, "what every tool can at most")
    packages = ("globus-gass-copy-progs", "globus-gridftp-server-progs")

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """Return one server for every origin; it starts a process for each transfer."""
        where = ["-control-interface", address, "-data-interface", address, "-port", str(PORT)]
        program = ["/usr/sbin/globus-gridftp-server", "-no-detach", "-aa", "-anonymous-names-allowed", "*"]
        return [Service("gridftp", PORT, ["env", f"GLOBUS_HOSTNAME={address}", *program, *where])]

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        parallel = ["-p", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        source = f"ftp://{urlsplit(transfer.source).hostname}:{PORT}{transfer.source_file}"
        destination = f"ftp://{urlsplit(transfer.destination).hostname}:{PORT}{transfer.destination_file}"
        # The kernel sizes buffers, bounded by tcp_buffer; -tcp-bs would fix them, at most at net.core.wmem_max.
        return ["/usr/bin/globus-url-copy", "-nodcau", *parallel, source, destination]

    def failure_reason(self, output: str) -> str:
        return last_lines(output, 2)  # they include the server's message
