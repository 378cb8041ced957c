# SPDX-License-Identifier: Apache-2.0
"""Requests to doors by HTTP and WebDAV.

RFC 4918 (WebDAV: MKCOL, PROPFIND), RFC 3230 (digests), RFC 9110 (Retry-After, Expect).

Servers redirect and refuse uploads before they have read the content, and then close the connection. urllib3 has no
Expect and loses such an answer by TLS; asyncio loses it when a write fails first. So doors use http.client.
"""

import html
import http.client
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tpcsweep.common.connecting import connect, tls_context
from tpcsweep.common.urls import NewFolder, OwnFile, door_of, holds_own_folder, shown, unencrypted
from tpcsweep.measuring.tools.http import REDIRECTIONS, Head, HttpError, parse_head
from tpcsweep.measuring.tools.http_tpc import BUSY, Progress, pause_seconds, wish
from tpcsweep.measuring.tools.tool import Credentials, shortened
from tpcsweep.testbeds.endpoints import pauses
from tpcsweep.testbeds.endpoints.doors import (
    ANOTHER,
    PATIENCE,
    Body,
    DoorError,
    Doors,
    OtherFolderError,
    RefusedError,
)

TRIES = 4  # requests to a busy door before giving up
EARLY = 1.0  # seconds that an upload waits for an answer before it sends its content, as curl does
CREATED = 201
REFUSED = (400, 401, 403, 404, 409, 415, 423, 507)
"""Answers to MKCOL by which nothing is created (RFC 4918, 9.3.1, and RFC 9110, 15.5); others may come from a proxy."""
_WRITING = ("MKCOL", "PUT", "DELETE")
_LENGTH = re.compile(r"<(?:\w+:)?getcontentlength\b[^>]*>\s*(\d+)\s*</")
_HREF = re.compile(r"<(?:\w+:)?href>([^<]*)</")


@dataclass(frozen=True)
class Answer(Head):
    """A door's answer with its body."""

    body: bytes

    def __str__(self) -> str:
        text = " ".join(self.body[:200].decode(errors="replace").split())
        asked = wish(self.status, self.headers.get("retry-after", ""), self.headers.get("date", ""))
        return f"HTTP {self.status} {self.reason}{asked}" + (f": {text}" if text and "<" not in text else "")


def members(listing: str, folder: str) -> list[str]:
    """Return the names in a multistatus listing of one of tpcsweep's folders.

    Raises ValueError if it lists another folder, as if the server had dropped a part of the URL.
    """
    found = []
    for href in map(html.unescape, _HREF.findall(listing)):
        *_, above, last = ("", *urlsplit(href).path.strip("/").split("/"))
        if folder not in (above, last):
            raise ValueError(f"the answer lists {href[:100]!r}, which is not in the folder")
        if last != folder:
            found.append(last)
    return found


class UnsentError(OSError):
    """No connection was made, so a request was not sent."""


def _reason(error: Exception) -> str:
    """Return why no answer, or only a part of one, arrived."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if not isinstance(error, http.client.IncompleteRead):
        return str(error) or type(error).__name__
    last = Progress(error.partial).last.decode(errors="replace")
    return f"the server closed the connection before the end of an answer: {shortened(last)}"


class HttpDoors(Doors):
    def __init__(self, credentials: Credentials, role: str) -> None:
        """Raise OSError for unusable certificates."""
        self.credentials, self.role = credentials, role
        self.on_pause: Callable[[str, float], object] = pauses.ask
        self.tls = tls_context(credentials.authority)
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
            asked = pause_seconds(answer.headers.get("retry-after", ""), answer.headers.get("date", ""))
            if asked is not None:
                self.on_pause(door_of(url), asked)
            pause = min(2.0**attempt, pauses.LONGEST_WAIT) if asked is None else asked
            if pause > pauses.LONGEST_WAIT:
                break
            time.sleep(pause)
        return answer

    def _followed(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int
    ) -> Answer:
        first, where = url, f"{method} {shown(url)}"
        for _ in range(1 + REDIRECTIONS):
            self._require_safe(method, url, where)
            try:
                answer = self._once(method, url, headers, body, size)
                target = answer.redirection(url)
            except UnsentError as error:
                raise RefusedError(f"{method} {shown(url)}: {error}") from None
            except (OSError, http.client.HTTPException, HttpError) as error:
                raise DoorError(f"{method} {shown(url)}: {_reason(error)}") from None
            except ValueError as error:  # a redirection to another text than a URL
                raise DoorError(f"{where}: {error}") from None
            if not target:
                return answer
            url = target
            where = f"{method} {shown(first)}: redirected to {shown(url)}"
        raise DoorError(f"{method} {shown(first)}: redirected more than {REDIRECTIONS} times")

    def _require_safe(self, method: str, url: str, where: str) -> None:
        """Raise RefusedError if a request would show a credential, or would write outside tpcsweep's own folder."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise RefusedError(f"{where}: a door is asked by http or https only")
        if unencrypted(url) and self.credentials.needed:
            raise RefusedError(
                f"{where}: a credential would be readable on its way. Fix: use a door with https"
            )
        if method in _WRITING and not holds_own_folder(url):
            raise RefusedError(
                f"{where}: this is outside the folder that tpcsweep made. Fix: use another door"
            )

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int
    ) -> Answer:
        content = {"Content-Length": str(size)} if body else {}
        expecting = {"Expect": "100-continue"} if body else {}
        answer = self._sent(method, url, {**headers, **content, **expecting}, body)
        if expecting and answer.status == http.client.EXPECTATION_FAILED:
            return self._sent(method, url, {**headers, **content}, body)
        return answer

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: Body | None) -> Answer:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(host, port, timeout=PATIENCE)
        try:
            try:
                connection.sock = connect(host, connection.port, PATIENCE)
                if parts.scheme == "https":
                    connection.sock = self.tls.wrap_socket(connection.sock, server_hostname=host)
            except OSError as error:
                raise UnsentError(_reason(error)) from None
            try:
                connection.putrequest(
                    method, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
                )
                for name, value in headers.items():
                    connection.putheader(name, value)
            except ValueError:  # its text would show a token
                raise HttpError("a header or the path has a character that HTTP does not allow") from None
            connection.endheaders()
            if "Expect" in headers and (early := _early(connection.sock)):
                return early
            try:
                for block in body() if body else ():
                    connection.send(block)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                pass  # a server may answer, and close the connection, before it has read everything
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            part = re.fullmatch(
                r"bytes=0-(\d+)", headers.get("Range", "")
            )  # a server may send the whole file
            try:
                content = answer.read(int(part[1]) + 1 if part else None)
            except http.client.IncompleteRead as error:
                # StoRM WebDAV ends no body that reports a failed push.
                if method != "COPY" or not Progress(content := error.partial).failed:
                    raise
            return Answer(answer.status, answer.reason, found, content)
        finally:
            connection.close()

    def ok(self, method: str, url: str, *allowed: int, **how: object) -> Answer:
        """Send a request. Raises DoorError unless the answer is a success or has an allowed status."""
        answer = self.request(method, url, **how)  # type: ignore[arg-type]
        if not answer.well and answer.status not in allowed:
            raise DoorError(f"{method} {shown(url)}: {answer}")
        return answer

    def server(self, url: str) -> str:
        return self.request("OPTIONS", f"{url}/").headers.get("server", "")

    def size(self, url: str) -> int | None:
        head = self.request("HEAD", url)
        length = head.headers.get("content-length", "")
        if head.status == http.client.NOT_FOUND or (head.well and length.isdecimal()):
            return int(length) if head.well else None
        # Servers may refuse HEAD, or answer it without a length.
        listed = self.request("PROPFIND", url, {"Depth": "0"})
        if not listed.well:
            raise DoorError(f"HEAD {shown(url)}: {head}; PROPFIND: {listed}")
        found = _LENGTH.search(listed.body.decode(errors="replace"))
        return int(found[1]) if found else -1

    def entries(self, folder: str) -> list[str] | None:
        answer = self._propfind(folder)
        if answer.status == http.client.NOT_FOUND:
            return None
        hrefs = map(html.unescape, _HREF.findall(answer.body.decode(errors="replace")))
        return [href.partition("?")[0].rstrip("/").rpartition("/")[2] for href in hrefs]

    def download(self, url: str) -> bytes:
        return self.ok("GET", url).body

    def start(self, url: str, size: int) -> bytes:
        if (self.size(url) or 0) <= 0:  # there is no range of an empty file (RFC 9110, 14.1.2)
            return b""
        return self.ok("GET", url, headers={"Range": f"bytes=0-{size - 1}"}).body

    def checksum(self, url: str) -> str:
        head = self.request("HEAD", url, {"Want-Digest": "adler32"})
        if digest := head.headers.get("digest"):
            return digest.lower().replace(" ", "")
        raise LookupError(f"no Digest in the answer to HEAD (RFC 3230): {head}")

    def _make(self, folder: NewFolder) -> None:
        answer = self.ok("MKCOL", f"{folder.url}/", 405, *REFUSED)
        if answer.status in REFUSED:
            raise RefusedError(f"MKCOL {folder.url}/: {answer}")
        if answer.status != CREATED:
            why = "not 201 Created for a new random name, so the server may answer for another folder"
            raise DoorError(f"MKCOL {folder.url}/: {answer}: {why}. {ANOTHER}")

    def upload(self, file: OwnFile, content: Body, size: int) -> None:
        self.ok("PUT", file.url, body=content, size=size)

    def delete(self, file: OwnFile) -> bool:
        return self.ok("DELETE", file.url, 404).status != 404

    def names(self, folder: NewFolder) -> list[str] | None:
        answer = self._propfind(folder.url)
        try:
            return (
                None if answer.status == 404 else members(answer.body.decode(errors="replace"), folder.name)
            )
        except ValueError as error:
            raise OtherFolderError(f"PROPFIND {folder.url}/: {error}. {ANOTHER}") from None

    def _propfind(self, folder: str) -> Answer:
        return self.ok("PROPFIND", f"{folder}/", 404, headers={"Depth": "1"})

    def _remove(self, folder: NewFolder) -> None:
        self.ok("DELETE", f"{folder.url}/", 404)


def _early(connection: socket.socket) -> Answer | None:
    """Return the answer to an upload if it comes before the content, as redirections and refusals may.

    Return None if the server asks for the content, or has not answered within EARLY seconds. Closing a connection with
    unread content could lose the answer. Raises HttpError.
    """
    text = b""
    connection.settimeout(EARLY)
    try:
        while not text.endswith(b"\r\n\r\n"):
            if not (byte := connection.recv(1)):
                raise HttpError("the server closed the connection before an answer")
            text += byte
            connection.settimeout(PATIENCE)
    except TimeoutError:
        if text:
            raise
        return None
    finally:
        connection.settimeout(PATIENCE)
    head = parse_head(text)
    if head.status == http.client.CONTINUE:
        return None
    body, length = b"", head.headers.get("content-length", "0")
    while len(body) < int(length) and (piece := connection.recv(1 << 16)):
        body += piece
    return Answer(head.status, head.reason, head.headers, body)
