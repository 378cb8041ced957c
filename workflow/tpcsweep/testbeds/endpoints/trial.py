# SPDX-License-Identifier: Apache-2.0
"""Trials of endpoints for `tpcsweep check`: each end, then each pair, with reasons of failures."""

import base64
import contextlib
import datetime
import hashlib
import json
import socket
import ssl
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from cryptography import x509

from tpcsweep.common import processes
from tpcsweep.common.urls import MadeFolder, NewFolder, OwnFile, made_up
from tpcsweep.measuring.tools.http_tpc import (
    MACAROON_TYPE,
    Progress,
    copy_headers,
    failure,
    macaroon_request,
    parse_macaroon,
)
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials, Program, Tool, Transfer
from tpcsweep.testbeds.endpoints import large_file, ledger, secrets
from tpcsweep.testbeds.endpoints.checks import ENDS
from tpcsweep.testbeds.endpoints.doors import PATIENCE, DoorError, Doors
from tpcsweep.testbeds.endpoints.fixes import explained, explained_copy
from tpcsweep.testbeds.endpoints.implementations import recognized
from tpcsweep.testbeds.endpoints.large_file import LargeFile
from tpcsweep.testbeds.endpoints.local import LOCAL, LocalDoors, local_path
from tpcsweep.testbeds.endpoints.opening_doors import open_doors
from tpcsweep.testbeds.endpoints.settings import EndpointPair, Endpoints
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import Finding

CONNECT_SECONDS = 10.0
PROGRAM_SECONDS = 2 * PATIENCE
CONTENT = hashlib.shake_128(b"tpcsweep").digest(1 << 20)  # the content of the trial file: 1 MiB
CERTIFICATE_DAYS = 7  # a certificate that expires within so many days is a failure


class UnusableEndpointError(Exception):
    """A failed check; the text is the reason."""


PROGRAMS = ("xrdcp", "davix-put", "davix-get", "xrdcp-direct")
"""Tools that are tried by themselves; the others copy between two servers by HTTP, which COPY tries for all of them."""
Row = Iterator[Finding]
Step = tuple[str, Callable[[], str | None]]  # the name of a check, and its function, which may return a value


def findings(settings: Endpoints) -> Row:
    for pair in settings.pairs:
        with ExitStack() as undo:
            try:
                private = undo.enter_context(secrets.written(settings, pair))
            except secrets.CredentialError as error:
                yield Finding(pair.name, "credentials", "failed", str(error))
                continue
            yield from _Trial(pair, Credentials(private), settings.budget.bytes).rows()


class _Trial:
    """The trial of one pair. Checks that depend on a failed one are skipped."""

    def __init__(self, pair: EndpointPair, credentials: Credentials, budget: int) -> None:
        self._pair, self._credentials, self._budget = pair, credentials, budget
        self._folders = {
            role: NewFolder(getattr(pair, role).urls[0], made_up()) for role in ("source", "destination")
        }
        self._doors: dict[str, Doors] = {}
        self._begun: dict[str, NewFolder] = {}  # folders by role that may exist
        self._made: dict[str, MadeFolder] = {}  # folders by role that the server has created
        self._tokens: dict[str, str] = {}
        self._markers = False

    def rows(self) -> Row:
        with ExitStack() as held:
            self._entry = ledger.begin(held, self._pair.name, self._folders, self._credentials.folder)
            left: list[str] = []
            try:
                usable = True
                for role in self._folders:
                    for row in self._end(role):
                        usable = usable and row.status != "failed"
                        yield row
                yield from self._between(usable)
            finally:
                left = ledger.cleared(self._doors, self._begun | self._made)[1]
                if not left:
                    ledger.end(self._entry)
            reason = "; ".join(left)
            yield Finding(self._pair.name, "nothing left", "failed" if left else "ok", reason)

    def _end(self, role: str) -> Row:
        """Check the network to each door of an end, then a folder and a file through each door."""
        subject = f"{self._pair.name} {role}"
        first, *others = getattr(self._pair, role).urls
        for url in (first, *others):
            where = urlsplit(url)
            steps: list[Step] = [
                ("name resolves", partial(_resolved, where)),
                ("TCP, RTT of the connect", partial(_connected, where)),
                ("TLS and CA", partial(self._secured, where)),
            ]
            yield from _until_failure(f"{subject} {where.netloc}".rstrip(), steps)
        yield from _until_failure(
            subject,
            [
                ("credential usable", lambda: self._opened(role)),
                ("list", partial(self._listed, role, first)),
                ("make a folder", lambda: self._make(role)),
                *self._of_a_file(role, first),
                ("macaroon", lambda: self._macaroon(role)),
            ],
        )
        for url in others if role in self._doors else ():
            same = ("same folder", partial(self._seen, role, url))
            steps = [("list", partial(self._listed, role, url)), same, *self._of_a_file(role, url)]
            yield from _until_failure(f"{subject} {urlsplit(url).netloc}", steps)

    def _of_a_file(self, role: str, url: str) -> list[Step]:
        def file() -> OwnFile:
            return self._made[role].at(url).file("file")

        return [
            ("upload", lambda: self._doors[role].upload(file(), lambda: [CONTENT], len(CONTENT))),
            ("download", lambda: self._downloaded(role, file())),
            ("checksum", lambda: self._checksum(role, file())),
            ("delete", lambda: self._deleted(role, file())),
        ]

    def _between(self, usable: bool) -> Row:
        copy: Tool = TOOLS["curl"]
        ways: dict[str, tuple[Tool, Callable[[str, str], None]]] = {
            "pull": (copy, partial(self._copied_by_http, "pull", 1)),
            "push": (copy, partial(self._copied_by_http, "push", 1)),
            "pull with 2 connections": (copy, partial(self._copied_by_http, "pull", 2)),
        }
        for tool in map(TOOLS.__getitem__, PROGRAMS):
            if tool.name == "xrdcp" or tool.place == self._pair.place:
                ways[tool.name] = tool, partial(self._copied_by_program, tool)
        pairs = self._pair.doors
        fit = [name for name, (tool, _) in ways.items() if not self._unfit(tool)]
        large = LargeFile(len(pairs) * len(fit), self._budget)
        for doors in pairs:
            subject = self._pair.name
            if len(pairs) > 1:
                subject += " " + " to ".join(urlsplit(url).netloc for url in doors)
            for name, (tool, way) in ways.items():
                if reason := self._unfit(tool):
                    yield Finding(subject, name, "skipped", reason)
                elif usable:
                    small = name, partial(self._copied, doors, name, way)
                    big = f"{name}, {large_file.NAME}", partial(self._copied_large, large, doors, way)
                    yield from _until_failure(subject, [small, big])
                else:
                    yield Finding(subject, name, "skipped", "an end failed")
        seen = "in the answers" if self._markers else "none: copies that take longer may have some"
        seen = self._unfit(copy) or seen
        status: Literal["ok", "skipped"] = "ok" if self._markers else "skipped"
        yield Finding(self._pair.name, "performance markers", status, seen if usable else "an end failed")

    def _unfit(self, tool: Tool) -> str:
        """Return why a tool cannot copy between the ends of this pair; "" if it can."""
        if tool.place != self._pair.place:
            return f"{ENDS[tool.place]} only"
        return "" if tool.protocol in self._pair.protocols else f"{tool.protocol}:// only"

    def _secured(self, where: SplitResult) -> str:
        """Verify the server's certificate against the CAs, and return its expiry date."""
        if where.scheme != "https":
            raise LookupError("https:// only")
        host, port = where.hostname, _port(where)
        tls = ssl.create_default_context(cafile=str(self._credentials.authority))
        with (
            socket.create_connection((host, port), CONNECT_SECONDS) as plain,
            tls.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
            version = secured.version()
        certificate = x509.load_der_x509_certificate(shown or b"")
        return f"{version}, {_validity(certificate.not_valid_after_utc)}"

    def _opened(self, role: str) -> str:
        credentials = self._credentials
        self._doors[role] = open_doors(self._folders[role].door, credentials, role)
        if isinstance(self._doors[role], LocalDoors):
            raise LookupError(LOCAL)
        if not credentials.needed:
            return "none: anonymous"
        if token := credentials.token(role):
            self._tokens[role] = token
            return f"bearer token{_claims(token)}"
        certificate = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
        return f"certificate, {_validity(certificate.not_valid_after_utc, days=0)}"

    def _listed(self, role: str, url: str) -> str:
        door = self._doors[role]
        if not door.lists(url):
            raise UnusableEndpointError("no such folder")
        server = door.server(url)
        known = recognized(server) if isinstance(door, HttpDoors) else None
        return f"{known.name}: {known.note}" if known else server or "unknown server"

    def _make(self, role: str) -> None:
        self._begun[role] = self._folders[role]
        self._made[role] = self._doors[role].make_folder(self._folders[role])
        self._entry.made(role, self._made[role])

    def _seen(self, role: str, url: str) -> None:
        if role not in self._made:
            raise UnusableEndpointError("no folder was made by the first door")
        self._doors[role].require(self._made[role].at(url))

    def _deleted(self, role: str, file: OwnFile) -> None:
        if not self._doors[role].delete(file):
            raise UnusableEndpointError("no such file")

    def _downloaded(self, role: str, file: OwnFile) -> None:
        if (content := self._doors[role].download(file.url)) != CONTENT:
            other = "other bytes than were uploaded"
            has = other if len(content) == len(CONTENT) else f"{len(content)} of {len(CONTENT)} bytes"
            raise UnusableEndpointError(has)

    def _checksum(self, role: str, file: OwnFile) -> str:
        checksum = self._doors[role].checksum(file.url)
        if f"adler32={zlib.adler32(CONTENT):08x}" not in checksum:
            raise UnusableEndpointError(f"{checksum}, which is not the content's")
        return "adler32"

    def _macaroon(self, role: str) -> None:
        door = self._doors[role]
        if not isinstance(door, HttpDoors):
            raise LookupError("https:// only")
        if role in self._tokens or not self._credentials.needed:
            raise LookupError("a token is used" if role in self._tokens else "anonymous")
        text = macaroon_request(role, self._credentials)
        url, size = f"{self._folders[role].url}/", len(text)
        answer = door.ok("POST", url, headers=MACAROON_TYPE, body=lambda: [text], size=size)
        try:
            self._tokens[role] = parse_macaroon(answer.body)
        except ValueError:
            raise UnusableEndpointError("the answer is no macaroon") from None

    def _copied(self, doors: tuple[str, str], name: str, way: Callable[[str, str], None]) -> str:
        """Copy the file between two doors, compare it, and delete it."""
        source = self._made["source"].at(doors[0]).file("file")
        target = self._made["destination"].at(doors[1]).file(name.replace(" ", "-"))
        if self._doors["source"].size(source.url) != len(CONTENT):
            self._doors["source"].upload(source, lambda: [CONTENT], len(CONTENT))
        began = time.monotonic()
        way(source.url, target.url)
        seconds = time.monotonic() - began
        self._downloaded("destination", target)
        self._doors["destination"].delete(target)
        return f"{seconds:.2f} s"

    def _copied_large(self, large: LargeFile, doors: tuple[str, str], way: Callable[[str, str], None]) -> str:
        source = self._made["source"].at(doors[0]).file("large")
        target = self._made["destination"].at(doors[1]).file("large-copy")
        large.upload(self._doors["source"], source)
        began = time.monotonic()
        way(source.url, target.url)
        seconds = time.monotonic() - began
        alike = large.require(self._doors["destination"], target)
        self._doors["destination"].delete(target)
        return f"{seconds:.2f} s, {alike}"

    def _copied_by_program(self, tool: Tool, source: str, target: str) -> None:
        assert isinstance(tool, Program)
        folder, paths = self._credentials.folder, (local_path(source), local_path(target))
        transfer = Transfer(source, target, tool.copy_modes[0], 1, *paths)
        command = tool.command(transfer, self._credentials, folder)
        environment = tool.environment(self._credentials, folder)
        try:
            done = processes.run(command, environment, timeout=PROGRAM_SECONDS)
        except subprocess.TimeoutExpired:
            raise UnusableEndpointError(f"no end within {PROGRAM_SECONDS:.0f} s") from None
        if why := tool.failure(done.returncode, done.stdout + done.stderr):
            raise UnusableEndpointError(why)

    def _copied_by_http(self, mode: str, connections: int, source: str, target: str) -> None:
        transfer = Transfer(source, target, mode, connections)
        door = self._doors[transfer.roles[0]]
        assert isinstance(door, HttpDoors)
        headers = copy_headers(transfer, *map(self._tokens.get, transfer.roles))
        answer = door.request("COPY", transfer.ends[0], headers)
        progress = Progress()
        progress.feed(answer.body)
        self._markers |= b"Perf Marker" in answer.body
        if why := failure(answer.status, answer.reason, progress.last, answer.headers):
            raise UnusableEndpointError(explained_copy(why, mode))


def _until_failure(subject: str, steps: list[Step]) -> Row:
    """Run steps until one fails, and skip the rest. LookupError means a missing or unused feature."""
    needed = ""
    for name, step in steps:
        if needed:
            yield Finding(subject, name, "skipped", f"needs: {needed}")
            continue
        try:
            yield Finding(subject, name, "ok", step() or "")
        except LookupError as error:
            yield Finding(subject, name, "skipped", str(error.args[0]))
        except (UnusableEndpointError, DoorError, OSError, ValueError) as error:
            needed = name if name != "delete" else ""
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
            yield Finding(subject, name, "failed", explained(reason or type(error).__name__))


def _port(where: SplitResult) -> int:
    if where.scheme == "file":
        raise LookupError(LOCAL)
    return where.port or {"https": 443, "http": 80}.get(where.scheme, 1094)


def _resolved(where: SplitResult) -> str:
    addresses = socket.getaddrinfo(where.hostname, _port(where), type=socket.SOCK_STREAM)
    return ", ".join(dict.fromkeys(str(address[4][0]) for address in addresses))


def _connected(where: SplitResult) -> str:
    host, port = where.hostname, _port(where)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        with contextlib.closing(socket.create_connection((host, port), CONNECT_SECONDS)):
            best = min(best, time.perf_counter() - began)
    return f"{1000 * best:.1f} ms"


def _claims(token: str) -> str:
    """Return issuer, audience, scope and end of a JSON Web Token (RFC 7519); "" for other tokens."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(f"{token.split('.')[1]}=="))
        ends = datetime.datetime.fromtimestamp(claims["exp"], datetime.UTC)
    except (ValueError, LookupError, TypeError, OverflowError):
        return ""
    shown = [f"{name} {claims[name]}" for name in ("iss", "aud", "scope") if name in claims]
    return f": {', '.join([*shown, _validity(ends, days=0)])}"


def _validity(ends: datetime.datetime, days: float = CERTIFICATE_DAYS) -> str:
    text = f"valid until {ends:%Y-%m-%d %H:%M} UTC"
    if ends - datetime.datetime.now(datetime.UTC) < datetime.timedelta(days=days):
        raise UnusableEndpointError(f"only {text}")
    return text
