"""iperf3: what the network carries between memory and memory, without files, TLS or HTTP.

One process at the source for each stream, and one server at the destination, as a server runs one test at a time.
A test has no end of its own: a stream begins once in a cell, where other tools begin anew with each file. So
`file_size` and `source_content` mean nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.tools.base import Credentials, Place, Program, Service, Transfer, package_versions

FIRST_PORT = 5201
PROGRAM = "/usr/bin/iperf3"


class Iperf3(Program):
    """`iperf3 --client`, sending."""

    name = "iperf3"
    place = "source"
    protocol = "iperf3"
    copy_modes = ("push",)
    layers = ("network",)

    def connections(self, copy_mode: str) -> tuple[int, str]:
        """`--parallel` goes up to 128; more than 100 nothing can."""
        return 100, "what every tool can at most"

    def services(self, place: Place, address: str, streams: int) -> Sequence[Service]:
        """A server for each stream at the destination."""
        ports = range(FIRST_PORT, FIRST_PORT + streams) if place == "destination" else ()
        return [
            Service(f"iperf3-{port}", port, [PROGRAM, "--server", "--bind", address, "--port", str(port)])
            for port in ports
        ]

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Buffers are the kernel's, bounded by tcp_buffer: --window would end their growing, at net.core.wmem_max."""
        to = ["--client", str(urlsplit(transfer.destination).hostname)]
        port = ["--port", str(FIRST_PORT + transfer.stream)]
        return [PROGRAM, *to, *port, "--time", "0", "--parallel", str(transfer.tcp_streams)]

    def failure(self, returncode: int, output: str) -> str | None:
        """Its line that begins "iperf3: error"."""
        if returncode == 0:
            return None
        lines = [line for line in output.splitlines() if line.startswith("iperf3: ")]
        return f"exit code {returncode}: {lines[-1] if lines else output.strip()[-300:] or 'no message'}"

    def versions(self) -> dict[str, str]:
        """iperf3."""
        return package_versions("iperf3")
