# SPDX-License-Identifier: Apache-2.0
"""Connections as curl makes them: to the first address that answers, and with the same certificates. Standard library.

Names have several addresses, of which one may not answer. RFC 8305 ("Happy Eyeballs") tries the next one beside it.
"""

import contextlib
import errno
import os
import selectors
import socket
import ssl
import time
from collections import deque
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

HAPPY_EYEBALLS = 0.25
"""Seconds after which the next address of a name is tried (RFC 8305, 5); libcurl waits 0.2 s."""


def tls_context(authority: Path) -> ssl.SSLContext:
    """Return the context of a client that trusts the CAs in a file. Raises OSError.

    Python 3.13 refuses certificates that do not follow RFC 5280 in all (VERIFY_X509_STRICT), such as those of CAs
    without a key identifier. Curl, gfal2 and XRootD accept them, and so does this context.
    """
    made = ssl.create_default_context(cafile=str(authority))
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def connect(host: str, port: int, timeout: float) -> socket.socket:
    """Return a connection to the first address of a host that answers within `timeout` s. Raises OSError."""
    left = deque(_by_turns(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
    error: OSError = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    give_up, due = time.monotonic() + timeout, 0.0
    with contextlib.ExitStack() as undo:
        waiting = undo.enter_context(selectors.DefaultSelector())
        while left or waiting.get_map():
            now = time.monotonic()
            if left and (now >= due or not waiting.get_map()):
                family, kind, protocol, _, address = left.popleft()
                opened = undo.enter_context(socket.socket(family, kind, protocol))
                opened.setblocking(False)
                opened.connect_ex(address)  # an error is seen as soon as the socket is ready
                waiting.register(opened, selectors.EVENT_WRITE)
                due = now + HAPPY_EYEBALLS
            if now >= give_up:
                break
            for key, _ in waiting.select((min(due, give_up) if left else give_up) - now):
                tried = key.fileobj
                assert isinstance(tried, socket.socket)
                waiting.unregister(tried)
                if code := tried.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    error, due = OSError(code, os.strerror(code)), 0.0
                    continue
                connected = socket.socket(fileno=tried.detach())
                connected.settimeout(timeout)
                return connected
    raise error


def _by_turns(found: list[Any]) -> list[Any]:
    """Return addresses in their order, those of both families by turns (RFC 8305, 4)."""
    first = [entry for entry in found if entry[0] == found[0][0]]
    other = [entry for entry in found if entry[0] != found[0][0]]
    return [entry for entry in chain(*zip_longest(first, other)) if entry]
