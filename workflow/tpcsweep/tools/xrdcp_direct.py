"""xrdcp without a third party: a process at the source sends a file to XRootD at the destination by the root protocol.

The source's XRootD takes no part: the file is read from its folder.
"""

from __future__ import annotations

from pathlib import Path

from tpcsweep.tools.base import Credentials, Transfer
from tpcsweep.tools.xrdcp import Xrdcp, root_url


class XrdcpDirect(Xrdcp):
    """`xrdcp FILE root://…`."""

    name = "xrdcp-direct"
    place = "source"
    copy_modes = ("push",)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """From the file itself."""
        ends = transfer.source_file, root_url(transfer.destination)
        # Beside these there is one for requests, which otherwise carries the data too.
        more = ["--streams", str(transfer.tcp_streams)] if transfer.tcp_streams > 1 else []
        return ["/usr/bin/xrdcp", "--nopbar", *more, *ends]
