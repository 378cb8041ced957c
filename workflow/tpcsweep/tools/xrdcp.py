"""xrdcp: third-party copies by the root protocol, one process a transfer.

The destination's XRootD starts an xrdcp of its own for each transfer, which fetches the file from the source's
(`ofs.tpc` in `xrootd.servers`). The data are not encrypted, as is usual with this protocol: less CPU a byte than
with the tools that speak https.

xrdcp looks every 2.5 s whether the copy has ended: a transfer lasts a multiple of that, however short the copy was.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.tools.base import Credentials, Program, Transfer, base_environment, last_lines, package_versions

EXIT_CODES = {
    50: "a mistake in the call, or a local error",
    51: "the connection failed",
    52: "the session failed",
    53: "the protocol failed, or authentication did",
    54: "the server refused",
}
"""50 and the hundreds of the status (XrdCl::Status::GetShellCode)."""

MOST_CONNECTIONS = 15
"""XRootD configuration reference, ofs.tpc streams; xrdcp(1), --streams."""


class Xrdcp(Program):
    """`xrdcp --tpc only`."""

    name = "xrdcp"
    protocol = "root"
    copy_modes = ("pull",)

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """Connections for data, beside the one for requests."""
        return MOST_CONNECTIONS, "the limit of xrdcp --streams"

    def environment(self, credentials: Credentials, folder: Path) -> dict[str, str]:
        """No second try of what failed: it is to be seen."""
        return {**base_environment(folder), "XRD_CONNECTIONRETRY": "1", "XRD_LOGLEVEL": "Error"}

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """`only`: `first` falls back to streaming through the client."""
        ends = root_url(transfer.source), root_url(transfer.destination)
        # The destination takes one more than it is told, and one for requests beside these.
        more = ["--streams", str(transfer.tcp_streams - 1)] if transfer.tcp_streams > 1 else []
        return ["/usr/bin/xrdcp", "--nopbar", "--tpc", "only", *more, *ends]

    def failure(self, returncode: int, output: str) -> str | None:
        """Its last line and the meaning of the exit code."""
        if returncode == 0:
            return None
        # What a server said ends with a zero byte.
        meaning = EXIT_CODES.get(returncode, "see xrdcp(1)")
        return f"exit code {returncode} ({meaning}): {last_lines(output.replace(chr(0), ''))}"

    def versions(self) -> dict[str, str]:
        """The client and its library."""
        return package_versions("xrootd-client", "libxrdcl3")


def root_url(url: str) -> str:
    """The same file of the same server by the root protocol, which one port speaks beside https."""
    parts = urlsplit(url)
    return f"root://{parts.netloc}/{parts.path}"
