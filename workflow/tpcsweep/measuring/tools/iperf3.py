# SPDX-License-Identifier: Apache-2.0
"""iperf3: network throughput from memory to memory, without files, TLS or HTTP.

Each stream has one process at the source and one server at the destination, because a server runs one test at a time. A
test runs until it is stopped: a stream starts once in a cell, whereas other tools start again with each file. Therefore
`file_size` and `source_content` have no effect.
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.measuring.tools.tool import Credentials, Place, Program, Service, Transfer

FIRST_PORT = 5201
PROGRAM = "/usr/bin/iperf3"


class Iperf3(Program):
    """`iperf3 --client`, sending."""

    name = "iperf3"
    order = 9
    place = "source"
    protocol = "iperf3"
    copy_modes = ("push",)
    layers = ("network",)
    encryptions = ("none",)
    authorizations = ("none",)
    most_connections = (100, "what every tool can at most")
    packages = ("iperf3",)

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        ports = range(FIRST_PORT, FIRST_PORT + streams) if place == "destination" else ()
        server = [PROGRAM, "--server", "--bind", address, "--port"]
        return [Service(f"iperf3-{port}", port, [*server, str(port)]) for port in ports]

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        # The kernel sizes buffers, bounded by tcp_buffer; --window would fix them, at most at net.core.wmem_max.
        to = ["--client", str(urlsplit(transfer.destination).hostname)]
        port = ["--port", str(FIRST_PORT + transfer.stream)]
        return [PROGRAM, *to, *port, "--time", "0", "--parallel", str(transfer.tcp_streams)]

    def failure_reason(self, output: str) -> str:
        lines = [line for line in output.splitlines() if line.startswith("iperf3: ")]
        return lines[-1] if lines else output.strip()[-300:] or "no message"
