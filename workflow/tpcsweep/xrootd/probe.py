# SPDX-License-Identifier: Apache-2.0
"""Ask a server for its ready file over HTTPS: whether it delivers, or whom it redirects to. Standard library only."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from tpcsweep.xrootd import servers as xrootd

SECONDS = 2.0


def context(credentials: Path) -> ssl.SSLContext:
    """Give the TLS context of the deployment's user, from the folder of the deployment's credentials."""
    tls = ssl.create_default_context(cafile=str(credentials / "ca.pem"))
    tls.load_cert_chain(credentials / "user.pem", credentials / "user.key")
    return tls


def get(place: str, tls: ssl.SSLContext, plain: socket.socket) -> tuple[int, str]:
    """Get the ready file from an address and port over an unconnected socket, which is closed.

    Returns:
        The status, or 0 without an answer, and address and port in the Location of a redirection.

    Raises:
        ssl.SSLCertVerificationError: for a wrong certificate, which waiting does not heal.
    """
    plain.settimeout(SECONDS)
    address, _, port = place.partition(":")
    connection = http.client.HTTPSConnection(address, int(port))
    try:
        plain.connect((address, int(port)))
        connection.sock = tls.wrap_socket(plain, server_hostname=address)
        connection.request("GET", f"{xrootd.EXPORT}/{xrootd.READY_FILE}")
        answer = connection.getresponse()
        return answer.status, urlsplit(answer.getheader("Location", "")).netloc
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, http.client.HTTPException):
        return 0, ""  # not yet
    finally:
        connection.close()
        plain.close()
