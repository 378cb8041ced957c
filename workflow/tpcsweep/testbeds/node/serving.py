# SPDX-License-Identifier: Apache-2.0
"""Servers from their start to the end of their copies, in namespaces and in pods: start, wait, probe, settle.

cmsd starts before xrootd, and redirectors start before origins: an xrootd without a cmsd, and a cmsd without a
redirector, retry only after ten seconds.
"""

import http.client
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tpcsweep.deploying.xrootd.server_config import EXPORT, READY_FILE, parts_of

POLL = 0.01
PROBE_SECONDS = 2.0  # time limit for the answer to a probe, s


class NotReadyError(Exception):
    """A server is not ready in time, or never will be."""


class ReadinessProbe(NamedTuple):
    """A condition that a server or a side must meet before use."""

    place: str  # name of the server, or its address and port
    awaited: str
    ready: Callable[[], bool]


def start_servers(
    servers: Sequence[Any], run: Callable[[Any, str], object], wait: Callable[[Any], object]
) -> None:
    """Start the `programs` of servers with `run`, in the order of their `role`.

    `wait` returns when a server's cmsd is ready for its xrootd.
    """
    for role in ("manager", "server"):
        chosen = [server for server in servers if server.role == role]
        for server in chosen:
            run(server, server.programs[0])
        for server in (server for server in chosen if "cmsd" in server.programs):
            wait(server)
            run(server, "xrootd")


def cmsd_probe(
    name: str, role: str, accepting: Callable[[], bool], logged_in: Callable[[], bool]
) -> ReadinessProbe:
    """Return the probe of a server's cmsd: a manager's accepts connections, and an origin's has logged in to it."""
    if role == "manager":
        return ReadinessProbe(name, "its cmsd to accept connections", accepting)
    return ReadinessProbe(name, "its cmsd", logged_in)


def wait_for(probe: ReadinessProbe, seconds: float, fault: Callable[[], str | None] = lambda: None) -> None:
    """Wait until a condition is met. Raises NotReadyError after some seconds, or as soon as there is a fault."""
    what = f"{probe.place}: waited for {probe.awaited}"
    give_up = time.monotonic() + seconds
    try:
        while not probe.ready():
            why = fault()
            if time.monotonic() > give_up:
                why = why or f"nothing after {seconds:.0f} s"
            if why:
                raise NotReadyError(f"{what}: {why}")
            time.sleep(POLL)
    except ssl.SSLCertVerificationError as error:
        raise NotReadyError(f"{what}: {error}") from None


def settle(
    unfinished: Callable[[], Mapping[str, int]],
    patience: float,
    give_up: Callable[[Mapping[str, int]], object],
    cut: Callable[[], object] = lambda: None,
) -> None:
    """Wait until servers have ended all copies that outlast their client.

    A server notices a closed client only at its next marker, up to 5 s later, and would load the next cell until then.

    Args:
        unfinished: Returns the number of unfinished connections and copies by server, without idle ones.
        patience: Seconds for at least one of them to end.
        give_up: Ends them if none has ended for so long, and gets the busy servers.
        cut: Ends connections, where a testbed may. A server that lacks CPU has unread requests: it is called until
            the server has processed them all.
    """
    least, until = math.inf, 0.0
    cut()
    while busy := unfinished():
        if (left := sum(busy.values())) < least:
            least, until = left, time.monotonic() + patience
        elif time.monotonic() > until:
            give_up(busy)
            return
        time.sleep(POLL)
        cut()


def accepts(plain: socket.socket, address: str, port: int) -> bool:
    """Return whether a connection to an address and port succeeds; closes the socket."""
    with plain:
        plain.settimeout(1)
        return plain.connect_ex((address, port)) == 0


def probes(
    redirector: str | None,
    origins: Iterable[str],
    get: Callable[[str], tuple[int, str]],
    empty: bool = False,
) -> Iterator[ReadinessProbe]:
    """Yield the probes of a side: each origin delivers, and the redirector redirects to every origin.

    Servers are given by address and port; `get` requests the ready file from them. `empty` servers have no files.
    """
    missing = set(origins)

    def delivers(place: str) -> Callable[[], bool]:
        return lambda: get(place)[0] == (http.client.NOT_FOUND if empty else http.client.OK)

    def complete() -> bool:
        missing.discard(get(redirector or "")[1])
        return not missing

    yield from [ReadinessProbe(origin, "an answer to GET", delivers(origin)) for origin in origins]
    if redirector:
        yield ReadinessProbe(redirector, "a redirection to each of its origins", complete)


def user_context(credentials: Path) -> ssl.SSLContext:
    """Return the TLS context of the deployment's user, from the folder of the deployment's credentials."""
    tls = ssl.create_default_context(cafile=str(credentials / "ca.pem"))
    tls.load_cert_chain(credentials / "user.pem", credentials / "user.key")
    return tls


def get(place: str, tls: ssl.SSLContext, plain: socket.socket) -> tuple[int, str]:
    """Get the ready file from an address and port over an unconnected socket, and close the socket.

    Returns the status, or 0 without an answer, and the address and port of a redirection. Raises
    SSLCertVerificationError for an invalid certificate, because waiting does not help.
    """
    plain.settimeout(PROBE_SECONDS)
    address, port = parts_of(place)
    connection = http.client.HTTPSConnection(address, port)
    try:
        plain.connect((address, port))
        connection.sock = tls.wrap_socket(plain, server_hostname=address)
        connection.request("GET", f"{EXPORT}/{READY_FILE}")
        answer = connection.getresponse()
        answer.read()  # closing with unread bytes resets the connection, which XRootD may then keep forever
        return answer.status, urlsplit(answer.getheader("Location", "")).netloc
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, http.client.HTTPException):
        return 0, ""  # not ready yet
    finally:
        connection.close()
        plain.close()
