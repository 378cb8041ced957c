# SPDX-License-Identifier: Apache-2.0
"""Requests to the doors of an endpoint, and their form in HTTP and WebDAV. Error texts contain no tokens.

RFC 4918 (WebDAV: MKCOL, PROPFIND), RFC 3230 (digests), RFC 9110 (Retry-After).
"""

import http.client
import re
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from tpcsweep.tools.base import LONGEST, Credentials
from tpcsweep.tools.native import REDIRECTIONS, REDIRECTS, Head, Progress

PATIENCE = 60.0  # timeout of a door that sends no byte, s
BUSY = (429, 503)
TRIES = 4  # requests to a busy door before giving up
LONGEST_WAIT = 30.0
BLOCK = 1 << 20
FIXES = {
    r"\b401\b|Unauthorized|Auth failed": "the server does not accept the credential: renew the token or proxy",
    r"\b403\b|Forbidden|Permission denied": (
        "no right there, an expired credential, or a token for another audience or scope: look at it with "
        "`tpcsweep check`, renew it, or ask for the right"
    ),
    r"\b507\b|Insufficient Storage|No space left": "the storage is full: delete files there, or choose another folder",
    # libcurl's words for an end that closes the connection: CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR.
    r"Server returned nothing|(Failed sending data to|Failure when receiving data from) the peer": (
        "the other end closed the connection: look at its disk and its log"
    ),
    r"no byte arrived": "choose a smaller file_size or more time, as only completed files and markers are visible",
    r"\b(429|503)\b": "the server is busy: measure with fewer streams, or later",
    r"certificate verify failed|self.signed|unable to get local issuer": "set ca to the CA of the server's certificate",
}
"""Fixes of failures, by a pattern in the messages of servers and tools."""
_HREF = re.compile(r"<(?:\w+:)?href>([^<]*)</")

Body = Callable[[], Iterable[bytes]]


class DoorError(Exception):
    """A failed request; the text names the method, the URL, the answer and the fix."""

    def __init__(self, text: str) -> None:
        super().__init__(explained(text))


def explained(failure: str) -> str:
    """Return a failure, followed by its fix if one is known."""
    fix = next((fix for said, fix in FIXES.items() if re.search(said, failure, re.IGNORECASE)), "")
    return f"{failure}. Fix: {fix}" if fix and fix not in failure else failure


@dataclass(frozen=True)
class Answer(Head):
    """A door's answer with its body."""

    body: bytes

    def __str__(self) -> str:
        text = " ".join(self.body[:200].decode(errors="replace").split())
        return f"HTTP {self.status} {self.reason}" + (f": {text}" if text and "<" not in text else "")


def _reason(error: Exception) -> str:
    """Return why no answer, or only a part of one, arrived."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if not isinstance(error, http.client.IncompleteRead):
        return str(error) or type(error).__name__
    progress = Progress()
    progress.feed(error.partial)
    said = progress.last.decode(errors="replace")[:LONGEST]
    return f"the server closed the connection before the end of an answer: {said}"


class Doors(ABC):
    """Requests to the doors of one end, `source` or `destination`. They raise DoorError if they fail."""

    @abstractmethod
    def server(self, url: str) -> str:
        """Return the server's software, as far as it answers that; "" otherwise."""

    @abstractmethod
    def size(self, url: str) -> int | None:
        """Return the size of a file, or None if it is missing."""

    @abstractmethod
    def make_folder(self, url: str) -> None:
        """Create a folder unless it exists."""

    @abstractmethod
    def upload(self, url: str, content: Body, size: int) -> None: ...

    @abstractmethod
    def download(self, url: str) -> bytes: ...

    @abstractmethod
    def checksum(self, url: str) -> str:
        """Return the server's checksum, such as adler32=0a1b2c3d. Raises LookupError if it has none."""

    @abstractmethod
    def delete(self, url: str) -> bool:
        """Delete a file, or an empty folder, whose URL ends with a slash; return whether it existed."""

    @abstractmethod
    def names(self, folder: str) -> list[str] | None:
        """List a folder by names as in URLs, or return None if it is missing."""

    def empty(self, folder: str) -> int:
        """Delete all files in one of tpcsweep's own folders; return their number."""
        return sum(self.delete(f"{folder}/{name}") for name in self.names(folder) or ())


class HttpDoors(Doors):
    def __init__(self, credentials: Credentials, role: str) -> None:
        """Raise OSError for unusable certificates."""
        self.credentials, self.role = credentials, role
        self.tls = ssl.create_default_context(cafile=str(credentials.authority))
        if credentials.needed and not credentials.token_file(role):
            self.tls.load_cert_chain(credentials.certificate, credentials.key)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        size: int = 0,
    ) -> Answer:
        """Send a request, follow redirections, and retry while the door is busy. Raises DoorError without an answer."""
        token = self.credentials.token(self.role)
        own = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        for attempt in range(TRIES):
            answer = self._followed(method, url, own, body, size)
            if answer.status not in BUSY or attempt == TRIES - 1:
                break
            asked = answer.headers.get("retry-after", "")
            time.sleep(min(float(asked) if asked.isdigit() else 2.0**attempt, LONGEST_WAIT))
        return answer

    def _followed(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int
    ) -> Answer:
        first = url
        for _ in range(1 + REDIRECTIONS):
            try:
                answer = self._once(method, url, headers, body, size)
            except (OSError, http.client.HTTPException) as error:
                raise DoorError(f"{method} {url}: {_reason(error)}") from None
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                return answer
            url = urljoin(url, answer.headers["location"])
            if urlsplit(first).scheme == "https" != urlsplit(url).scheme and "Authorization" in headers:
                raise DoorError(f"{method} {first}: redirected to http, where a token would be readable")
        raise DoorError(f"{method} {first}: redirected more than {REDIRECTIONS} times")

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int
    ) -> Answer:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=self.tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=PATIENCE)
        )
        try:
            connection.putrequest(method, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
            for name, value in {**headers, **({"Content-Length": str(size)} if body else {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            try:
                for block in body() if body else ():
                    connection.send(block)
            except (BrokenPipeError, ConnectionResetError):
                pass  # doors answer early when they redirect or refuse an upload
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, answer.reason, found, answer.read())
        finally:
            connection.close()

    def ok(self, method: str, url: str, *allowed: int, **how: object) -> Answer:
        """Send a request. Raises DoorError unless the answer is a success or has an allowed status."""
        answer = self.request(method, url, **how)  # type: ignore[arg-type]
        if not answer.well and answer.status not in allowed:
            raise DoorError(f"{method} {url}: {answer}")
        return answer

    def server(self, url: str) -> str:
        return self.request("OPTIONS", f"{url}/").headers.get("server", "")

    def size(self, url: str) -> int | None:
        head = self.ok("HEAD", url, 404)
        return int(head.headers.get("content-length", -1)) if head.well else None

    def upload(self, url: str, content: Body, size: int) -> None:
        self.ok("PUT", url, body=content, size=size)

    def download(self, url: str) -> bytes:
        return self.ok("GET", url).body

    def checksum(self, url: str) -> str:
        head = self.request("HEAD", url, {"Want-Digest": "adler32"})
        if told := head.headers.get("digest"):
            return told.lower().replace(" ", "")
        raise LookupError(f"no Digest in the answer to HEAD (RFC 3230): {head}")

    def make_folder(self, url: str) -> None:
        self.ok("MKCOL", url, 405)

    def delete(self, url: str) -> bool:
        return self.ok("DELETE", url, 404).status != 404

    def names(self, folder: str) -> list[str] | None:
        answer = self.ok("PROPFIND", f"{folder}/", 404, headers={"Depth": "1"})
        here = urlsplit(folder).path.strip("/").split("/")[-1]
        found = (href.rstrip("/").rpartition("/")[2] for href in _HREF.findall(answer.body.decode()))
        return None if answer.status == 404 else [name for name in found if name not in ("", here)]
