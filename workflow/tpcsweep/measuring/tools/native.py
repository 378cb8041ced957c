# SPDX-License-Identifier: Apache-2.0
"""native: one process that sends every COPY of a cell itself, so that the client uses almost no CPU.

Like curl, it fetches macaroons once from both ends with the user's certificate, and sends them with each COPY.
"""

import asyncio
import resource
import ssl
import sys
from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tpcsweep.common.connecting import tls_context
from tpcsweep.measuring.tools.http import PATIENCE, REDIRECTIONS, Connections, HttpError
from tpcsweep.measuring.tools.http_tpc import (
    MACAROON_TYPE,
    DigestAnswer,
    Progress,
    copy_headers,
    digest_failure,
    digest_request,
    failure,
    macaroon_request,
    parse_macaroon,
)
from tpcsweep.measuring.tools.tool import (
    CHECKSUMS,
    HTTP_LAYERS,
    Answers,
    Credentials,
    OnMarker,
    Transfer,
    Worker,
    parse_transfer,
)


class Native(Worker):
    """COPY by asyncio."""

    name = "native"
    order = 3
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")
    checksums = CHECKSUMS
    layers = HTTP_LAYERS
    tags = True

    def worker(self, credentials: Credentials) -> list[str]:
        given = str(credentials.folder), credentials.authorization, str(credentials.macaroon_hours)
        return self.main_command(sys.executable, "native", *given)

    def versions(self) -> dict[str, str]:
        return {"native": f"Python {sys.version.split()[0]}, {ssl.OPENSSL_VERSION}"}


class Copier:
    """Sender of any number of concurrent COPYs."""

    def __init__(self, credentials: Credentials) -> None:
        """Load the certificates. Raises OSError if they cannot be used."""
        plain, identified = (tls_context(credentials.authority) for _ in range(2))
        if credentials.needed and not all(map(credentials.token_file, ("source", "destination"))):
            identified.load_cert_chain(credentials.certificate, credentials.key)
        self._connections, self._identified = Connections(plain), Connections(identified)
        self._credentials = credentials
        self._macaroons: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def copy(self, transfer: Transfer, on_marker: OnMarker = lambda _: None) -> str | None:
        """Copy a file, calling `on_marker` at each marker; return why it failed, in the server's or Python's words."""
        active, _, passive = transfer.ends
        server = urlsplit(active).netloc
        try:
            tokens: list[str] = []
            if self._credentials.needed:
                tokens = [
                    self._credentials.token(role) or await self._macaroon(role, urljoin(url, "."), transfer)
                    for role, url in zip(transfer.roles, (active, passive), strict=True)
                ]
            failed = await self._copied(active, copy_headers(transfer, *tokens), on_marker)
            if failed or not transfer.verifying:
                return failed
            return await self._verified(transfer, dict(zip_longest(transfer.roles, tokens)))
        except TimeoutError:
            return f"{server} has not answered for {PATIENCE:.0f} s"
        except (HttpError, OSError, ValueError) as error:  # a ValueError of a redirection that is no URL
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
            if not (target := head.redirection(url)):
                return failure(head.status, head.reason, progress.last, head.headers)
            url = _safe_redirection(url, target)
        raise HttpError(f"redirected more than {REDIRECTIONS} times")

    async def _verified(self, transfer: Transfer, tokens: Mapping[str, str | None]) -> str | None:
        """Ask both ends for the checksum of the file; return why these are not equal, or None."""
        ends = {"source": transfer.source, "destination": transfer.destination}
        asked = [
            self._digest(url, digest_request(transfer.checksum, tokens[end])) for end, url in ends.items()
        ]
        return digest_failure(transfer.checksum, *await asyncio.gather(*asked))

    async def _digest(self, url: str, headers: dict[str, str]) -> DigestAnswer:
        for _ in range(1 + REDIRECTIONS):
            async with self._connections.request("HEAD", url, headers) as (head, _pieces):
                if not (target := head.redirection(url)):
                    return DigestAnswer(head.status, head.headers.get("digest", ""))
            url = _safe_redirection(url, target)
        raise HttpError(f"redirected more than {REDIRECTIONS} times")

    async def _macaroon(self, role: str, folder: str, transfer: Transfer) -> str:
        """Return the macaroon of an end's folder, which is requested once, and again after a failure."""
        task = self._macaroons.get((role, folder))
        if task is None or (task.done() and task.exception()):
            task = self._macaroons[role, folder] = asyncio.create_task(
                self._fetched(role, folder, transfer.verifying)
            )
        return await asyncio.shield(task)

    async def _fetched(self, role: str, folder: str, verifying: bool) -> str:
        body = macaroon_request(role, self._credentials, verifying=verifying)
        async with self._identified.request("POST", folder, MACAROON_TYPE, body) as (head, pieces):
            answer = b"".join([piece async for piece in pieces])
        try:
            return parse_macaroon(answer)
        except ValueError:
            text = answer.decode(errors="replace").strip()[:200]
            raise HttpError(f"{folder} gave no macaroon: HTTP {head.status} {head.reason}: {text}") from None


def _safe_redirection(url: str, target: str) -> str:
    """Return the URL to which `url` redirects. Raises HttpError if a credential would be readable there."""
    scheme = urlsplit(target).scheme
    if scheme not in {"https", urlsplit(url).scheme}:
        raise HttpError(f"redirected to {scheme}, where a credential would be readable")
    return target


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
