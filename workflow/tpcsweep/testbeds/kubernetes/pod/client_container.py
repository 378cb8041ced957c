# SPDX-License-Identifier: Apache-2.0
"""The client container: the client of every testbed, whose standard input and output lead to the hub."""

import asyncio
import os

from tpcsweep.measuring.client.__main__ import serve
from tpcsweep.testbeds.kubernetes.pod import server_container
from tpcsweep.testbeds.kubernetes.pod.pod_files import STATE


def main() -> None:
    server_container.end_on_term()
    folder = server_container.credentials()
    home = STATE / "client"
    home.mkdir(mode=0o700)
    # Two connections, as a read makes one non-blocking in both directions.
    for number, connection in enumerate(server_container.taken(2)):
        with connection:
            os.dup2(connection.fileno(), number)
    asyncio.run(serve(folder, home))


if __name__ == "__main__":
    main()
