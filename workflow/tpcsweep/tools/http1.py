"""HTTP/1.1 over TLS by asyncio, as much of it as COPY needs: connections that are used again, bodies piece by piece.

Of RFC 9112 (messages: sections 3 to 7; connections: 9) and RFC 9110 (statuses). Standard library only; a client
library would cost more CPU than the rest of a transfer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 90.0
"""Seconds without a byte after which a server is given up. XRootD itself gives up a copy that stands still after 60
(`tpc.timeout`), and what it says then tells more; while it copies it sends a marker every 5."""


class HttpError(Exception):
    """The server's answer is no HTTP, or ends too early."""


@dataclass(frozen=True)
class Head:
    """What an answer begins with."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """By names in lower case; of a name that comes twice the last."""

    @property
    def keeps(self) -> bool:
        """Whether the connection can take another request when the body is read."""
        framed = "content-length" in self.headers or self._chunked or self.status in (204, 304)
        return framed and "close" not in self.headers.get("connection", "").lower()

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    async def body(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        """The body in the pieces that it comes in. Raises HttpError, TimeoutError, OSError."""
        if self._chunked:
            while size := _chunk_size(await _read(reader.readline())):
                yield (await _read(reader.readexactly(size + 2)))[:-2]
            while (await _read(reader.readline())).strip():
                pass  # trailers
        elif "content-length" in self.headers:
            if size := int(self.headers["content-length"]):
                yield await _read(reader.readexactly(size))
        elif self.status not in (204, 304):
            while piece := await _read(reader.read(1 << 16)):
                yield piece


def parse_head(text: bytes) -> Head:
    """What an answer begins with, of its bytes up to the empty line. Raises HttpError."""
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise HttpError(f"no HTTP/1.1 answer: {first[:100]!r}")
    pairs = (line.partition(":") for line in lines if line)
    return Head(int(status), reason, {name.strip().lower(): value.strip() for name, _, value in pairs})


class Connections:
    """Connections to any number of servers; those that are not in use wait to be used again."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._idle: dict[str, list[_Connection]] = defaultdict(list)

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncIterator[tuple[Head, AsyncIterator[bytes]]]:
        """Ask; the answer's head and body, within `with`. Raises HttpError, TimeoutError, OSError."""
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        length = {"Content-Length": str(len(body))} if body else {}
        fields = {"Host": parts.netloc, **headers, **length}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        request = "\r\n".join([*lines, "", ""]).encode() + body
        connection, head = await self._ask(parts.netloc, request)
        try:
            async with contextlib.aclosing(head.body(connection.reader)) as pieces:
                yield head, pieces
                async for _ in pieces:  # what was left must not be taken for the next answer
                    pass
        except BaseException:
            connection.abort()
            raise
        if head.keeps:
            self._idle[parts.netloc].append(connection)
        else:
            connection.abort()

    async def _ask(self, server: str, request: bytes) -> tuple[_Connection, Head]:
        idle = self._idle[server]
        connection = None
        while idle and (connection is None or connection.closed):
            connection = idle.pop()
        # A request is never sent twice: a COPY whose connection breaks may have begun.
        if connection is None or connection.closed:
            connection = await _connect(server, self._tls)
        return connection, await connection.ask(request)


class _Connection:
    """One connection, with at most one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> Head:
        """Send a request; the head of what is answered. The connection is closed where that fails."""
        try:
            self._writer.write(request)
            while True:
                async with asyncio.timeout(PATIENCE):
                    head = parse_head(await self.reader.readuntil(b"\r\n\r\n"))
                if head.status >= 200:  # not an interim answer
                    return head
        except asyncio.IncompleteReadError as error:
            self.abort()
            if error.partial:
                raise HttpError("the server closed the connection within its answer") from None
            raise ConnectionResetError("the server closed the connection without an answer") from None
        except BaseException:
            self.abort()
            raise

    @property
    def closed(self) -> bool:
        """Whether the server has closed it."""
        return self.reader.at_eof() or self._writer.is_closing()

    def abort(self) -> None:
        """Close at once."""
        self._writer.transport.abort()


async def _connect(server: str, tls: ssl.SSLContext) -> _Connection:
    parts = urlsplit(f"https://{server}")
    async with asyncio.timeout(PATIENCE):
        return _Connection(*await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=tls))


async def _read(reading: Awaitable[bytes]) -> bytes:
    """What a reader reads, if it comes in time and whole."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await reading
    except asyncio.IncompleteReadError:
        raise HttpError("the server closed the connection within its answer") from None


def _chunk_size(line: bytes) -> int:
    """Of a chunk's first line. Raises HttpError."""
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]+", digits):
        raise HttpError(f"no chunk begins with {line[:100]!r}")
    return int(digits, 16)
