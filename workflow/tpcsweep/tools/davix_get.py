"""davix-get: a process at the destination fetches a file from XRootD at the source, with the user's X.509 certificate.

One GET for each file, over TLS. The destination's XRootD takes no part: the file is written to its folder, where its
bytes are counted like those of any other tool.
"""

from __future__ import annotations

from pathlib import Path

from tpcsweep.tools.base import Credentials, Place, Transfer
from tpcsweep.tools.davix_put import DavixPut, options_of


class DavixGet(DavixPut):
    """`davix-get URL FILE`."""

    name = "davix-get"
    place: Place = "destination"
    copy_modes = ("pull",)

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """No second try: what fails is to be seen."""
        options = options_of(credentials)
        return ["/usr/bin/davix-get", *options, transfer.source, transfer.destination_file]
