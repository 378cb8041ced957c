"""Ask a server for its ready file over HTTPS: whether it delivers, or whom it redirects to. Standard library only."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

from tpcsweep.xrootd import servers as xrootd

SECONDS = 2.0


def context(credentials: Path) -> ssl.SSLContext:
    """TLS as the deployment's user."""
    made = ssl.create_default_context(cafile=str(credentials / "ca.pem"))
    made.load_cert_chain(credentials / "user.pem", credentials / "user.key")
    return made


def get(address: str, tls: ssl.SSLContext, plain: socket.socket) -> tuple[int, str]:
    """Status and host of the Location of a GET of the ready file over an unconnected socket; 0 without answer.

    Raises ssl.SSLCertVerificationError: waiting does not heal a wrong certificate.
    """
    plain.settimeout(SECONDS)
    connection = http.client.HTTPSConnection(address, xrootd.PORT)
    try:
        plain.connect((address, xrootd.PORT))
        connection.sock = tls.wrap_socket(plain, server_hostname=address)
        connection.request("GET", f"{xrootd.EXPORT}/{xrootd.READY_FILE}")
        answer = connection.getresponse()
        host = answer.getheader("Location", "").partition("://")[2].partition("/")[0].partition(":")[0]
        return answer.status, host
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, http.client.HTTPException):
        return 0, ""  # not yet
    finally:
        connection.close()
        plain.close()
