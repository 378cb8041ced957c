# SPDX-License-Identifier: Apache-2.0
"""The network to a door: names, connections, and the certificate of its server."""

import contextlib
import datetime
import socket
import ssl
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult

from cryptography import x509

from tpcsweep.common.urls import PORTS, ROOT_PORT
from tpcsweep.testbeds.endpoints.local import LOCAL

CONNECT_SECONDS = 10.0


class Secured(NamedTuple):
    """A TLS connection that was accepted."""

    version: str
    ends: datetime.datetime
    """End of the server's certificate."""


def port(where: SplitResult) -> int:
    """Return the port of a URL. Raises LookupError for a local folder."""
    if where.scheme == "file":
        raise LookupError(LOCAL)
    return where.port or PORTS.get(where.scheme, ROOT_PORT)


def resolved(where: SplitResult) -> str:
    found = socket.getaddrinfo(where.hostname, port(where), type=socket.SOCK_STREAM)
    return ", ".join(dict.fromkeys(str(address[4][0]) for address in found))


def connected(where: SplitResult) -> str:
    """Return the shortest of three connection times, which is a round trip and the server's accept."""
    host, number = where.hostname, port(where)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        with contextlib.closing(socket.create_connection((host, number), CONNECT_SECONDS)):
            best = min(best, time.perf_counter() - began)
    return f"{1000 * best:.1f} ms"


def secured(where: SplitResult, authority: Path) -> Secured:
    """Verify the server's certificate and its name. Raises OSError, and LookupError for URLs without TLS."""
    if where.scheme != "https":
        raise LookupError("https:// only")
    host, tls = where.hostname or "", ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, port(where)), CONNECT_SECONDS) as plain,
        tls.wrap_socket(plain, server_hostname=host) as connection,
    ):
        certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
        return Secured(connection.version() or "", certificate.not_valid_after_utc)
