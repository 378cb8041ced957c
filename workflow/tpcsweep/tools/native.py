"""native: one process that sends every COPY of a cell itself, so that the client costs next to nothing.

As curl does it: macaroons are fetched once from both ends with the user's certificate, and each COPY carries them.
The protocol is that of "HTTP Third Party Copy" of the WLCG's DOMA group, as XRootD 5 speaks it.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import ssl
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tpcsweep.tools.base import Credentials, Transfer, Worker
from tpcsweep.tools.curl import CAVEATS
from tpcsweep.tools.http1 import PATIENCE, Connections, HttpError
from tpcsweep.tools.lines import Answers, command, ordered

REDIRECTIONS = 5
"""At most, one after the other; one is what a redirector gives."""
REDIRECTS = (302, 307, 308)
_STRIPE_BYTES = re.compile(rb"^\s*Stripe Bytes Transferred:\s*(\d+)\s*$")


class Native(Worker):
    """COPY by asyncio."""

    name = "native"

    def worker(self, credentials: Credentials) -> list[str]:
        return command(sys.executable, "native", str(credentials.folder))

    def versions(self) -> dict[str, str]:
        """Give the versions of Python and its TLS."""
        return {"native": f"Python {sys.version.split()[0]}, {ssl.OPENSSL_VERSION}"}


class Progress:
    """The body of a COPY: performance markers, and in its last line how the copy went."""

    def __init__(self) -> None:
        self.bytes = 0
        """Bytes transferred, as the markers say."""
        self.last = b""
        """The last line that is not empty, as far as it has come."""
        self._rest = b""

    def feed(self, piece: bytes) -> bool:
        """Take in the next piece of the body; say whether it tells of more bytes than before."""
        before = self.bytes
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if marker := _STRIPE_BYTES.match(line):
                self.bytes = max(self.bytes, int(marker[1]))
        said = [line for line in (*lines, self._rest) if line.strip()]
        self.last = said[-1] if said else self.last
        return self.bytes > before


def failure(status: int, reason: str, last: bytes) -> str | None:
    """Say why a COPY failed, if it did: the last line of the body decides, as a copy may fail after its 201."""
    said = last.decode(errors="replace").strip()
    if not 200 <= status < 300:
        return f"HTTP {status} {reason}: {said}"
    if said.startswith("success:"):
        return None
    return said if said.startswith("failure:") else f"the answer ends without a result: {said}"


class Copier:
    """Sends COPY for any number of transfers at a time."""

    def __init__(self, credentials: Credentials) -> None:
        """Load the certificates, or raise OSError with those that cannot be used."""
        authority = str(credentials.authority)
        self._connections = Connections(ssl.create_default_context(cafile=authority))
        identified = ssl.create_default_context(cafile=authority)
        identified.load_cert_chain(credentials.certificate, credentials.key)
        self._identified = Connections(identified)
        self._macaroons: dict[str, asyncio.Task[str]] = {}

    async def copy(self, transfer: Transfer) -> str | None:
        """Copy a file; say why that failed, in the server's words or those of Python's TLS and sockets."""
        server = urlsplit(transfer.active).netloc
        try:
            tokens = [await self._macaroon(urljoin(url, ".")) for url in (transfer.active, transfer.passive)]
            headers = {
                transfer.passive_header: transfer.passive,
                "Authorization": f"Bearer {tokens[0]}",
                "TransferHeaderAuthorization": f"Bearer {tokens[1]}",
                "Credential": "none",
                "Overwrite": "F",
            }
            if transfer.tcp_streams > 1:
                headers["X-Number-Of-Streams"] = str(transfer.tcp_streams)
            return await self._copied(transfer.active, headers)
        except TimeoutError:
            return f"{server} has not answered for {PATIENCE:g} s"
        except (HttpError, OSError) as error:
            return f"{server}: {error}"

    async def _copied(self, url: str, headers: dict[str, str]) -> str | None:
        now = asyncio.get_running_loop().time
        for _ in range(1 + REDIRECTIONS):
            async with self._connections.request("COPY", url, headers) as (head, pieces):
                progress, grown = Progress(), now()
                async for piece in pieces:
                    if progress.feed(piece):
                        grown = now()
                    elif now() - grown > PATIENCE:
                        raise HttpError(f"stands still at {progress.bytes} bytes for {PATIENCE:g} s")
            if head.status not in REDIRECTS:
                return failure(head.status, head.reason, progress.last)
            url = urljoin(url, head.headers.get("location", ""))
            if urlsplit(url).scheme != "https":
                raise HttpError(f"redirected to {urlsplit(url).scheme}, where a macaroon would be readable")
        raise HttpError(f"redirected more than {REDIRECTIONS} times")

    async def _macaroon(self, folder: str) -> str:
        """Give the macaroon of a folder's server; it is asked for once, and again after a failure."""
        task = self._macaroons.get(folder)
        if task is None or (task.done() and task.exception()):
            task = self._macaroons[folder] = asyncio.create_task(self._fetched(folder))
        return await asyncio.shield(task)

    async def _fetched(self, folder: str) -> str:
        kind = {"Content-Type": "application/macaroon-request"}
        request = self._identified.request("POST", folder, kind, json.dumps(CAVEATS).encode())
        async with request as (head, pieces):
            answer = b"".join([piece async for piece in pieces])
        try:
            return str(json.loads(answer)["macaroon"])
        except (ValueError, KeyError, TypeError):
            said = answer.decode(errors="replace").strip()[:200]
            raise HttpError(f"{folder} gave no macaroon: HTTP {head.status} {head.reason}: {said}") from None


async def serve(copier: Copier) -> None:
    """Copy what the lines of standard input ask for, until they end."""
    answers, loop = Answers(), asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    running: set[asyncio.Task[None]] = set()

    async def copy(number: int, transfer: Transfer) -> None:
        try:
            answers.ended(number, await copier.copy(transfer))
        except Exception as error:  # the client waits for an answer, whatever happens
            answers.ended(number, f"{type(error).__name__}: {error}")
            raise

    answers.ready()
    while line := await reader.readline():
        task = loop.create_task(copy(*ordered(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def main(credentials: str) -> None:
    """Be the worker."""
    # Each transfer has a connection, and shells allow 1024 files.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(Copier(Credentials(Path(credentials)))))
