# SPDX-License-Identifier: Apache-2.0
"""The client container: the client of every testbed, with the hub at the other end of its standard input and output."""

from __future__ import annotations

import asyncio
import os

from tpcsweep.client.__main__ import serve
from tpcsweep.testbeds.kubernetes.pod import contained
from tpcsweep.testbeds.kubernetes.pod.places import STATE


def main() -> None:
    """Run until the hub is gone."""
    contained.end_on_term()
    folder = contained.credentials()
    home = STATE / "client"
    home.mkdir(mode=0o700)
    # Two, since reading one makes it non-blocking, for both directions.
    for number, connection in enumerate(contained.taken(2)):
        with connection:
            os.dup2(connection.fileno(), number)
    asyncio.run(serve(folder, home))


if __name__ == "__main__":
    main()
