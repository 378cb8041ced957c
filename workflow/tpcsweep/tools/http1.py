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
BROKEN_OFF = "the server closed the connection within its answer"

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
        """Give the body in the pieces that it comes in; raises what `Connections.request` does."""
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
    """Parse the bytes of an answer up to its empty line.

    Raises:
        HttpError: if they are not HTTP/1.
    """
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
        """Send a request, and give the head and the body of its answer for the length of a `with`.

        A request is never sent twice: a COPY whose connection breaks may have begun.

        Raises:
            HttpError: for an answer that is no HTTP or breaks off.
            TimeoutError: after PATIENCE without a byte.
            OSError: for connections that cannot be made or break.
        """
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        length = {"Content-Length": str(len(body))} if body else {}
        fields = {"Host": parts.netloc, **headers, **length}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        reader, writer = await self._connection(parts.netloc)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            head = await _head(reader)
            async with contextlib.aclosing(head.body(reader)) as pieces:
                yield head, pieces
                async for _ in pieces:  # what was left must not be taken for the next answer
                    pass
        except BaseException:
            writer.transport.abort()
            raise
        if head.keeps:
            self._idle[parts.netloc].append((reader, writer))
        else:
            writer.transport.abort()

    async def _connection(self, server: str) -> _Connection:
        """Give a connection that has waited and is still open, else a new one."""
        while idle := self._idle[server]:
            reader, writer = idle.pop()
            if not (reader.at_eof() or writer.is_closing()):
                return reader, writer
        parts = urlsplit(f"https://{server}")
        async with asyncio.timeout(PATIENCE):
            return await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=self._tls)


async def _head(reader: asyncio.StreamReader) -> Head:
    """Read the head of an answer, after those of interim ones."""
    while True:
        try:
            async with asyncio.timeout(PATIENCE):
                head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise HttpError(BROKEN_OFF) from None
            raise ConnectionResetError("the server closed the connection without an answer") from None
        if head.status >= 200:
            return head


async def _read(reading: Awaitable[bytes]) -> bytes:
    """Give what a reader reads if it comes in time and whole."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await reading
    except asyncio.IncompleteReadError:
        raise HttpError(BROKEN_OFF) from None


def _chunk_size(line: bytes) -> int:
    """Give the size in a chunk's first line, or raise HttpError."""
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]+", digits):
        raise HttpError(f"no chunk begins with {line[:100]!r}")
    return int(digits, 16)
