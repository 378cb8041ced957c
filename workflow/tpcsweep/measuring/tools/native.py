# SPDX-License-Identifier: Apache-2.0
"""native: one process that sends every COPY of a cell itself, so that the client uses almost no CPU.

Like curl, it fetches macaroons once from both ends with the user's certificate, and sends them with each COPY. The
protocol is "HTTP Third Party Copy" of the WLCG's DOMA group, as in XRootD 5. An HTTP client library would use more CPU
than the rest of a transfer, so this module implements the part of HTTP/1.1 that COPY needs: RFC 9112 (messages:
sections 3 to 7; connections: 9) and RFC 9110 (statuses).
"""

import asyncio
import contextlib
import json
import re
import resource
import ssl
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tpcsweep.common.urls import unencrypted
from tpcsweep.measuring.tools.curl import macaroon_request
from tpcsweep.measuring.tools.tool import (
    Answers,
    Credentials,
    OnMarker,
    Transfer,
    Worker,
    copy_succeeded,
    parse_transfer,
)

PATIENCE = 90.0
"""Seconds without a byte after which a server is considered dead.
XRootD itself stops a stalled copy after 60 s (`tpc.timeout`), with a more useful message; while it copies, it sends a
marker every 5 s."""

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REDIRECTIONS = 5  # most consecutive redirections; a redirector causes one
REDIRECTS = (301, 302, 307, 308)
_FAILURE = b"failure:"
_STRIPE_BYTES = re.compile(rb"^\s*Stripe Bytes Transferred:\s*(\d+)\s*$")


class Native(Worker):
    """COPY by asyncio."""

    name = "native"
    order = 3
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")

    def worker(self, credentials: Credentials) -> list[str]:
        given = str(credentials.folder), credentials.authorization, str(credentials.macaroon_hours)
        return self.main_command(sys.executable, "native", *given)

    def versions(self) -> dict[str, str]:
        return {"native": f"Python {sys.version.split()[0]}, {ssl.OPENSSL_VERSION}"}


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
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        server = f"{parts.scheme}://{parts.netloc}"
        reader, writer = await self._connection(server)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            while (head := parse_head(await _read(reader.readuntil(b"\r\n\r\n")))).status < 200:
                pass  # an interim answer
            async with contextlib.aclosing(head.pieces(reader)) as pieces:
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
            return await asyncio.open_connection(parts.hostname, parts.port or port, ssl=tls)


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


class Progress:
    """Parser of a COPY's body: performance markers, and the result in the last line."""

    def __init__(self) -> None:
        self.bytes = 0  # bytes transferred, by the markers
        self._said: list[bytes] = []
        self._rest = b""

    @property
    def last(self) -> bytes:
        """Last line that is not empty, as far as received, or all lines from `failure:` on."""
        return b" ".join(_said(self._said, self._rest))

    @property
    def failed(self) -> bool:
        return self.last.startswith(_FAILURE)

    def feed(self, piece: bytes) -> bool:
        """Parse the next piece of the body; return whether it reports more bytes than before."""
        before = self.bytes
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if marker := _STRIPE_BYTES.match(line):
                self.bytes = max(self.bytes, int(marker[1]))
            self._said = _said(self._said, line)
        return self.bytes > before


def _said(before: list[bytes], line: bytes) -> list[bytes]:
    if not line.strip():
        return before
    return [*before, line.strip()] if before and before[0].startswith(_FAILURE) else [line.strip()]


def failure(status: int, reason: str, last: bytes) -> str | None:
    """Return why a COPY failed, by its status and the last line of its body, or None if it succeeded."""
    said = last.decode(errors="replace").strip()
    if copy_succeeded(status, said):
        return None
    if not 200 <= status < 300:
        return f"HTTP {status} {reason}: {said}"
    return said if last.startswith(_FAILURE) else f"the answer ends without a result: {said}"


class Copier:
    """Sender of any number of concurrent COPYs."""

    def __init__(self, credentials: Credentials) -> None:
        """Load the certificates. Raises OSError if they cannot be used."""
        plain, identified = (ssl.create_default_context(cafile=credentials.authority) for _ in range(2))
        if credentials.needed and not all(map(credentials.token_file, ("source", "destination"))):
            identified.load_cert_chain(credentials.certificate, credentials.key)
        self._connections, self._identified = Connections(plain), Connections(identified)
        self._credentials = credentials
        self._macaroons: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def copy(self, transfer: Transfer, on_marker: OnMarker = lambda _: None) -> str | None:
        """Copy a file, calling `on_marker` at each marker; return why it failed, in the server's or Python's words."""
        active, header, passive = transfer.ends
        server = urlsplit(active).netloc
        try:
            headers = {header: transfer.url_for_mover(passive), "Credential": "none", "Overwrite": "F"}
            if self._credentials.needed:
                tokens = [
                    self._credentials.token(role) or await self._macaroon(role, urljoin(url, "."))
                    for role, url in zip(transfer.roles, (active, passive), strict=True)
                ]
                headers["Authorization"] = f"Bearer {tokens[0]}"
                headers["TransferHeaderAuthorization"] = f"Bearer {tokens[1]}"
            if transfer.tcp_streams > 1:
                headers["X-Number-Of-Streams"] = str(transfer.tcp_streams)
            return await self._copied(active, headers, on_marker)
        except TimeoutError:
            return f"{server} has not answered for {PATIENCE:.0f} s"
        except (HttpError, OSError) as error:
            return f"{server}: {error}"

    async def _copied(self, url: str, headers: dict[str, str], on_marker: OnMarker) -> str | None:
        now = asyncio.get_running_loop().time
        for _ in range(1 + REDIRECTIONS):
            progress = Progress()
            try:
                async with self._connections.request("COPY", url, headers) as (head, pieces):
                    grown = now()
                    async for piece in pieces:
                        if progress.feed(piece):
                            grown = now()
                            on_marker(progress.bytes)
                        elif now() - grown > PATIENCE:
                            raise HttpError(f"stands still at {progress.bytes} bytes for {PATIENCE:.0f} s")
            except HttpError:
                if not progress.failed:  # StoRM WebDAV ends no body that reports a failed push
                    raise
            if head.status not in REDIRECTS:
                return failure(head.status, head.reason, progress.last)
            first, url = url, urljoin(url, head.headers.get("location", ""))
            if urlsplit(url).scheme not in {"https", urlsplit(first).scheme}:
                raise HttpError(f"redirected to {urlsplit(url).scheme}, where a credential would be readable")
        raise HttpError(f"redirected more than {REDIRECTIONS} times")

    async def _macaroon(self, role: str, folder: str) -> str:
        """Return the macaroon of an end's folder, which is requested once, and again after a failure."""
        task = self._macaroons.get((role, folder))
        if task is None or (task.done() and task.exception()):
            task = self._macaroons[role, folder] = asyncio.create_task(self._fetched(role, folder))
        return await asyncio.shield(task)

    async def _fetched(self, role: str, folder: str) -> str:
        kind = {"Content-Type": "application/macaroon-request"}
        body = macaroon_request(role, self._credentials).encode()
        request = self._identified.request("POST", folder, kind, body)
        async with request as (head, pieces):
            answer = b"".join([piece async for piece in pieces])
        try:
            return str(json.loads(answer)["macaroon"])
        except (ValueError, KeyError, TypeError):
            said = answer.decode(errors="replace").strip()[:200]
            raise HttpError(f"{folder} gave no macaroon: HTTP {head.status} {head.reason}: {said}") from None


async def serve_orders(copier: Copier) -> None:
    answers, loop = Answers(), asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    running: set[asyncio.Task[None]] = set()

    async def copy(number: int, transfer: Transfer) -> None:
        try:
            answers.report_end(number, await copier.copy(transfer, partial(answers.marker, number)))
        except Exception as error:  # the client needs an answer in any case
            answers.report_end(number, f"{type(error).__name__}: {error}")
            raise

    answers.ready()
    while line := await reader.readline():
        task = loop.create_task(copy(*parse_transfer(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def main(credentials: str, authorization: str, macaroon_hours: str) -> None:
    # Each transfer has a connection, but shells allow only 1024 files.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve_orders(Copier(Credentials(Path(credentials), authorization, int(macaroon_hours)))))
