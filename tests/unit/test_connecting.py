# SPDX-License-Identifier: Apache-2.0
"""Connections to names with several addresses, and to servers whose certificates Python 3.13 refuses."""

import asyncio
import re
import socket
import ssl
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.common.connecting import connect, tls_context
from tpcsweep.measuring.tools import http
from tpcsweep.testbeds.endpoints import door_network

from tests.support.certificates import write_certificate
from tests.support.foreign import foreign_door


@contextmanager
def silent_address() -> Iterator[tuple[Any, ...]]:
    """An address of IPv6 that answers no connection, as `getaddrinfo` returns it: the queue of its server is full."""
    with closing(socket.socket(socket.AF_INET6)) as server:
        server.bind(("::1", 0))
        server.listen(0)
        waiting = [socket.socket(socket.AF_INET6) for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        yield socket.AF_INET6, socket.SOCK_STREAM, 6, "", server.getsockname()
        for each in waiting:
            each.close()


async def asked_natively() -> int:
    """The status of an answer to a request of the native tool."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://localhost:{listening.sockets[0].getsockname()[1]}/"
    async with http.Connections(ssl.create_default_context()).request("GET", url, {}) as (head, _):
        status = head.status
    listening.close()
    return status


def test_a_silent_address_delays_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE", 3.0)  # for all addresses together
    real = socket.getaddrinfo
    with silent_address() as silent:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **how: [silent, *real(*args, **how)])
        assert asyncio.run(asked_natively()) == 204


def test_the_first_address_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_address() as silent, socket.create_server(("127.0.0.1", 0)) as listening:
        open_port = listening.getsockname()[1]
        [refusing], [answering] = (
            socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM) for port in (1, open_port)
        )
        for found in ([silent, answering], [refusing, silent, answering], [answering]):
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
            with connect("se.example.org", 443, 60.0) as connected:
                assert connected.getpeername() == ("127.0.0.1", open_port)
                assert connected.gettimeout() == 60.0
        for found, error in (([refusing], ConnectionRefusedError), ([silent], TimeoutError)):
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
            with pytest.raises(error):
                connect("se.example.org", 443, 0.1)


def test_a_certificate_that_python_3_13_refuses_is_accepted_as_by_curl_and_named(tmp_path: Path) -> None:
    write_certificate(tmp_path, "ca", authority=True)
    write_certificate(tmp_path, "host", signer="ca")
    assert not tls_context(tmp_path / "ca.pem").verify_flags & ssl.VERIFY_X509_STRICT
    with foreign_door(tmp_path) as door:
        found = door_network.secured(urllib.parse.urlsplit(door.url), tmp_path / "ca.pem")
    assert re.search("Key Identifier|key usage", found.refused), found.refused
