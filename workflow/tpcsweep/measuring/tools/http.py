# SPDX-License-Identifier: Apache-2.0
"""The part of HTTP/1.1 that COPY needs, on asyncio, at the least CPU. Standard library only.

RFC 9112 (messages: sections 3 to 7; connections: 9) and RFC 9110 (statuses). An HTTP client library would use more CPU
than the rest of a transfer.
"""

import asyncio
import contextlib
import re
import ssl
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from tpcsweep.common.connecting import HAPPY_EYEBALLS
from tpcsweep.common.urls import unencrypted

PATIENCE = 90.0
"""Seconds without a byte after which a server is considered dead.
XRootD itself stops a stalled copy after 60 s (`tpc.timeout`), with a more useful message; while it copies, it sends a
marker every 5 s."""

REDIRECTIONS = 5  # most consecutive redirections; a redirector causes one
_REDIRECTS = (301, 302, 307, 308)

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpError(Exception):
    """An answer that is no HTTP, or ends too early."""


@dataclass(frozen=True)
class Head:
    status: int
    reason: str
    headers: Mapping[str, str]  # values by lower-case name; of repeated names the last value

    @property
    def well(self) -> bool:
        return 200 <= self.status < 300

    def redirection(self, url: str) -> str | None:
        """Return the URL to which this answer redirects a request of `url`, or None."""
        location = self.headers.get("location")
        return urljoin(url, location) if location and self.status in _REDIRECTS else None

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can be reused after reading the body."""
        framed = "content-length" in self.headers or self._chunked or self.status in (204, 304)
        return framed and "close" not in self.headers.get("connection", "").lower()

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    async def pieces(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        """Yield the body in the received pieces. Raises the errors of `Connections.request`."""
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
    """Parse an answer up to its empty line. Raises HttpError if it is not HTTP/1."""
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise HttpError(f"no HTTP/1.1 answer: {first[:100]!r}")
    pairs = (line.partition(":") for line in lines if line)
    return Head(int(status), reason, {name.strip().lower(): value.strip() for name, _, value in pairs})


class Connections:
    """Connections to any number of servers, which are kept for reuse."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._idle: dict[str, list[_Connection]] = defaultdict(list)

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncIterator[tuple[Head, AsyncIterator[bytes]]]:
        """Send a request, and yield the head and the body of its answer.

        A request is never repeated: a COPY whose connection breaks may have started. Raises HttpError if the answer is
        no HTTP or breaks off, TimeoutError after PATIENCE without a byte, OSError if a connection fails.
        """
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        length = {"Content-Length": str(len(body))} if body else {}
        fields = {"Host": parts.netloc, **headers, **length}
        if not target.isascii() or not target.isprintable() or " " in target:
            raise HttpError(f"{target[:100]!r} has a character that HTTP does not allow")
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        server = f"{parts.scheme}://{parts.netloc}"
        reader, writer = await self._connection(server)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            while (head := parse_head(await _read(reader.readuntil(b"\r\n\r\n")))).status < 200:
                pass  # an interim answer
            body_follows = method != "HEAD"
            async with contextlib.aclosing(head.pieces(reader) if body_follows else _nothing()) as pieces:
                yield head, pieces
                async for _ in pieces:  # the next answer must not start with leftovers
                    pass
        except BaseException:
            writer.transport.abort()
            raise
        if head.keeps_alive:
            self._idle[server].append((reader, writer))
        else:
            writer.transport.abort()

    async def _connection(self, server: str) -> _Connection:
        while idle := self._idle[server]:
            reader, writer = idle.pop()
            if not (reader.at_eof() or writer.is_closing()):
                return reader, writer
        parts = urlsplit(server)
        tls, port = (None, 80) if unencrypted(server) else (self._tls, 443)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.open_connection(
                parts.hostname, parts.port or port, ssl=tls, happy_eyeballs_delay=HAPPY_EYEBALLS
            )


async def _nothing() -> AsyncGenerator[bytes, None]:
    """Yield the pieces of an answer without a body."""
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


async def _read(reading: Awaitable[bytes]) -> bytes:
    try:
        async with asyncio.timeout(PATIENCE):
            return await reading
    except asyncio.IncompleteReadError:
        raise HttpError("the server closed the connection before the end of an answer") from None


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]+", digits):
        raise HttpError(f"no chunk begins with {line[:100]!r}")
    return int(digits, 16)
