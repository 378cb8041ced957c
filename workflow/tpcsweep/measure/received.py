"""Bytes that arrive without files: those that the kernel has received for the connections of a side."""

from __future__ import annotations

from collections.abc import Collection

from tpcsweep.linux.sockets import Connection, SocketDiagnostics
from tpcsweep.measure.files import Arrival


class ReceivedBytes:
    """Counts the payload of TCP connections, those included that have ended since.

    A connection's bytes are those in order, without headers and without what came twice (tcp_info.tcpi_bytes_received;
    RFC 4898, tcpEStatsAppHCThruOctetsReceived). What one receives after it was last seen is not counted, so this is
    for connections that are much longer than the time between two looks.
    """

    def __init__(self, diagnostics: SocketDiagnostics, remotes: Collection[str]) -> None:
        """Of the connections that `diagnostics` sees, those from the addresses `remotes` count."""
        self._diagnostics = diagnostics
        self._remotes = frozenset(remotes)
        self._received: dict[int, int] = {}

    def arrived(self) -> int:
        """Bytes of payload that ever arrived. Raises OSError."""
        self.see(self._diagnostics.connections())
        return sum(self._received.values())

    def see(self, connections: Collection[Connection]) -> None:
        """Take in what there is at a moment."""
        ours = (connection for connection in connections if connection.remote in self._remotes)
        self._received.update((connection.cookie, connection.received) for connection in ours)

    def present(self) -> dict[str, Arrival]:
        """There are no files: what a transfer has brought is not told apart."""
        return {}

    def remove(self, _name: str, /) -> Arrival:
        """There is no file to remove."""
        return Arrival(None, 0)

    def clear(self, _keep: str = "", /) -> None:
        """There are no files to remove."""

    def close(self) -> None:
        """Close the diagnostics socket."""
        self._diagnostics.close()
