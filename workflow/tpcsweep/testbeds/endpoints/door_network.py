# SPDX-License-Identifier: Apache-2.0
"""The network to a door: names, connections, and the certificate of its server."""

import datetime
import socket
import ssl
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult

from cryptography import x509

from tpcsweep.common.connecting import connect, tls_context
from tpcsweep.common.urls import PORTS, ROOT_PORT
from tpcsweep.testbeds.endpoints.local import LOCAL

CONNECT_SECONDS = 10.0


class Secured(NamedTuple):
    """A TLS connection that was accepted."""

    version: str
    ends: datetime.datetime
    """End of the server's certificate."""
    refused: str
    """Why Python 3.13 and later would refuse it, unless a program relaxes VERIFY_X509_STRICT; "" if they do not."""


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
    host, number = where.hostname or "", port(where)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        with connect(host, number, CONNECT_SECONDS):
            best = min(best, time.perf_counter() - began)
    return f"{1000 * best:.1f} ms"


def secured(where: SplitResult, authority: Path) -> Secured:
    """Verify the server's certificate and its name. Raises OSError, and LookupError for URLs without TLS."""
    if where.scheme != "https":
        raise LookupError("https:// only")
    host, tls = where.hostname or "", tls_context(authority)
    with (
        connect(host, port(where), CONNECT_SECONDS) as plain,
        tls.wrap_socket(plain, server_hostname=host) as connection,
    ):
        certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
        version = connection.version() or ""
    return Secured(version, certificate.not_valid_after_utc, _refused_strictly(host, port(where), authority))


def _refused_strictly(host: str, number: int, authority: Path) -> str:
    strict = ssl.create_default_context(cafile=str(authority))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with connect(host, number, CONNECT_SECONDS) as plain, strict.wrap_socket(plain, server_hostname=host):
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError:  # it has just answered, so that this is no fault of the certificate
        return ""
