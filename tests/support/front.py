# SPDX-License-Identifier: Apache-2.0
"""A small HTTPS server in front of a storage's door: it refuses the first requests, then redirects to the door."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


@dataclass
class Front:
    """What it answers, and what it was asked."""

    door: str
    """The beginning of the URL to which it redirects."""
    refusals: int = 0
    """So many requests are refused before the others are redirected."""
    only: str = ""
    """The method whose requests are refused; "": all."""
    status: int = 503
    retry_after: str = ""
    asked: list[str] = field(default_factory=list)
    """The methods of the requests."""
    refused: list[float] = field(default_factory=list)
    """The times of its refusals, s since the epoch."""
    url: str = ""
    """Its own URL."""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.command)
        if "Expect" not in handler.headers:
            handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        refused = self.refusals > 0 and self.only in ("", handler.command)
        if refused:
            self.refusals -= 1
            self.refused.append(time.time())
        handler.send_response(self.status if refused else 307)
        if refused and self.retry_after:
            handler.send_header("Retry-After", self.retry_after)
        if not refused:
            # As redirectors of XRootD do it: clients may not show a header to another host.
            shown = quote(handler.headers.get("Authorization", ""))
            handler.send_header("Location", f"{self.door}{handler.path}?authz={shown}")
        handler.send_header("Content-Length", "0")
        handler.send_header("Connection", "close")
        handler.end_headers()


@contextlib.contextmanager
def front_of(door: str, address: str, pki: Path, listener: socket.socket | None = None) -> Iterator[Front]:
    """Serve at an address with the servers' certificate, for the length of a `with`. See `serving`."""
    front = Front(door)

    class Handler(http.server.BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> object:
            if name.startswith("do_"):
                return lambda: front.answer(self)
            raise AttributeError(name)

        def handle_expect_100(self) -> bool:
            return True  # the answer comes before the body

    with serving(Handler, address, pki, listener) as front.url:
        yield front


@contextlib.contextmanager
def serving(
    handler: type[http.server.BaseHTTPRequestHandler],
    address: str,
    pki: Path,
    listener: socket.socket | None = None,
) -> Iterator[str]:
    """Serve with the servers' certificate, without a log; yields the URL. A new socket may be of another namespace."""
    quiet = type("Quiet", (handler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer((address, 0), quiet, bind_and_activate=False)
    if listener:
        server.socket.close()
        server.socket = listener
    server.server_bind()
    server.server_activate()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki / "host.pem", pki / "host.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://{address}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
