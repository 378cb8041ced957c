# SPDX-License-Identifier: Apache-2.0
"""Trials of endpoints for `tpcsweep check`: each end once, then the copies of each pair, with reasons of failures.

Pairs with the same folder, credential and role share an end. A source with a file of its own is only read.
"""

import contextlib
import hashlib
import ssl
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from tpcsweep.common import processes
from tpcsweep.common.urls import MadeFolder, OwnFile, made_up
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
from tpcsweep.testbeds.endpoints import door_network, large_file, ledger, pauses, secrets, usability, validity
from tpcsweep.testbeds.endpoints.checks import ENDS
from tpcsweep.testbeds.endpoints.doors import PATIENCE, DoorError, Doors, LeftError
from tpcsweep.testbeds.endpoints.fixes import explained, explained_copy
from tpcsweep.testbeds.endpoints.implementations import recognized
from tpcsweep.testbeds.endpoints.large_file import LargeFile
from tpcsweep.testbeds.endpoints.local import LOCAL, LocalDoors, local_path
from tpcsweep.testbeds.endpoints.pairs import EndpointPair
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.usability import ROLES
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import Finding

CONTENT = hashlib.shake_128(b"tpcsweep").digest(1 << 20)  # the content of the trial file: 1 MiB
CERTIFICATE_DAYS = 7  # a certificate that expires within so many days is a failure
SLOWEST = 1 << 20  # smallest accepted rate of a copy by a program, B/s


class UnusableEndpointError(Exception):
    """A failed check; the text is the reason."""


PROGRAMS = ("xrdcp", "davix-put", "davix-get", "xrdcp-direct")
"""Tools that are tried by themselves; the others copy between two servers by HTTP, which COPY tries for all of them."""
Row = Iterator[Finding]
Step = tuple[str, Callable[[], str | None]]  # the name of a check, and its function, which may return a value


def findings(settings: Endpoints, testbed: str = "", only: str | None = None) -> Row:
    """Try each end of a testbed, then each pair, or `only` one; delete what the trials have created."""
    ends: dict[tuple[object, ...], _End] = {}
    pairs: list[tuple[EndpointPair, dict[str, _End]]] = []
    named = [pair for pair in settings.all_pairs if pair.name == only]
    for pair in named if settings.sites and named else settings.covering(settings.all_pairs):
        mine = {}
        for role in ROLES:
            end, login = getattr(pair, role), settings.logins(pair)[role]
            key = (role, end.urls, end.file, login.model_dump_json())
            mine[role] = ends.setdefault(key, _End(settings, testbed, pair, role))
            mine[role].pairs.append(pair)
        pairs.append((pair, mine))
    chosen = [(pair, mine) for pair, mine in pairs if only in (None, pair.name)]
    used = list(dict.fromkeys(end for _, mine in chosen for end in mine.values()))
    with ExitStack() as undo:
        for one in used:
            yield from one.rows(undo)
        for pair, mine in chosen:
            yield from _PairTrial(settings, pair, mine).rows()
        for one in used:
            yield from one.left_rows()


class _End:
    """The trial of one end. Checks that depend on a failed one are skipped."""

    door: Doors
    credentials: Credentials

    def __init__(self, settings: Endpoints, testbed: str, pair: EndpointPair, role: str) -> None:
        self.pairs: list[EndpointPair] = []
        self.role = role
        self.urls, self.file = getattr(pair, role).urls, getattr(pair, role).file
        self.failed = ""  # the first failed check
        self.token: str | None = None  # the user's token, or a macaroon
        self.size = len(CONTENT)  # of the source file
        self.checksum = f"adler32={zlib.adler32(CONTENT):08x}"  # of the source file; "" if unknown
        self._settings, self._testbed, self._pair = settings, testbed, pair
        self._login = settings.logins(pair)[role]
        self._entry: ledger.Entry | None = None
        self._made: MadeFolder | None = None
        self._cleared: list[str] | None = None  # errors of the deletion, once it was tried

    @property
    def subject(self) -> str:
        """The pair and the role, or the role and the folder of an end that several pairs share."""
        return f"{self._pair.name} {self.role}" if len(self.pairs) == 1 else f"{self.role} {self.urls[0]}"

    def own_file(self, name: str, url: str) -> OwnFile:
        if not self._made:
            raise UnusableEndpointError("no folder was made")
        return self._made.at(url).file(name)

    def source_url(self, door: str) -> str:
        """Return the URL of the file to copy, at one of the end's doors."""
        return f"{door}/{self.file}" if self.file else self.own_file("file", door).url

    def rows(self, undo: ExitStack) -> Row:
        for row in self._checks(undo):
            self.failed = self.failed or (row.check if row.status == "failed" else "")
            yield self._row(row)

    def _row(self, row: Finding) -> Finding:
        names = " ".join(pair.name for pair in self.pairs)
        return replace(row, pair=names, role=self.role, door=row.door or urlsplit(self.urls[0]).netloc)

    def _checks(self, undo: ExitStack) -> Row:
        """Check the network to each door that asks for no pause, then the credential, then files through each door."""
        first, *others = self.urls
        try:
            pauses.await_short(self.urls)
        except DoorError as error:
            yield Finding(self.subject, "accepts requests", "failed", str(error))
            return
        wrong = ""
        try:
            private = undo.enter_context(secrets.written(self._settings, self._pair, (self.role,)))
            self.credentials = Credentials(private)
        except secrets.CredentialError as error:
            wrong = str(error)
        for url in self.urls:
            where = urlsplit(url)
            steps: list[Step] = [
                ("name resolves", partial(door_network.resolved, where)),
                ("TCP, RTT of the connect", partial(door_network.connected, where)),
            ]
            steps += [] if wrong else [("TLS and CA", partial(self._secured, where))]
            for row in _in_turn(f"{self.subject} {where.netloc}".rstrip(), steps):
                yield replace(row, door=where.netloc)
        if wrong:
            yield Finding(self.subject, "credential usable", "failed", wrong)
            return
        yield from self._in_turn(
            self.subject,
            [
                ("credential usable", self._opened),
                *(self._reading(first) if self.file else self._writing(first, undo)),
                ("macaroon", self._macaroon),
            ],
        )
        for url in others if hasattr(self, "door") else ():
            steps = self._reading(url)
            if not self.file:
                steps = [
                    ("list", partial(self._listed, url)),
                    ("same folder", partial(self._seen, url)),
                    *self._of_a_file(url),
                ]
            for row in self._in_turn(f"{self.subject} {urlsplit(url).netloc}", steps):
                yield replace(row, door=urlsplit(url).netloc)

    def _in_turn(self, subject: str, steps: list[Step]) -> Row:
        for row in _in_turn(subject, steps):
            reason = row.reason
            if row.status == "failed" and hasattr(self, "credentials"):
                reason = usability.explained_denial(reason, self._pair, self.role, self.credentials)
            yield replace(row, reason=reason)

    def _reading(self, url: str) -> list[Step]:
        """Return the checks of a source file that is the user's own, of which nothing is changed."""
        return [
            ("size", partial(self._sized, f"{url}/{self.file}")),
            ("download", partial(self._started, f"{url}/{self.file}")),
            ("checksum", partial(self._summed, f"{url}/{self.file}")),
        ]

    def _writing(self, url: str, undo: ExitStack) -> list[Step]:
        return [
            ("list", partial(self._listed, url)),
            ("make a folder", partial(self._make, undo)),
            *self._of_a_file(url),
        ]

    def _of_a_file(self, url: str) -> list[Step]:
        return [
            ("upload", lambda: self._uploaded(url)),
            ("download", lambda: self.require_content(self.own_file("file", url).url)),
            ("checksum", lambda: self._checksum(self.own_file("file", url).url)),
            ("delete", lambda: self._deleted(self.own_file("file", url))),
        ]

    def _secured(self, where: SplitResult) -> str:
        """Verify the server's certificate against the CAs, and return its expiry date."""
        version, ends, refused = door_network.secured(where, self.credentials.authority)
        clock = usability.own_clock()
        period = validity.Period("the server's certificate", None, ends)
        if why := validity.invalid(period, clock, CERTIFICATE_DAYS * 86400):
            raise UnusableEndpointError(f"{why}. Fix: ask its administrators")
        strict = f"; curl accepts it, and Python 3.13 does not (VERIFY_X509_STRICT): {refused}"
        return f"{version}, valid until {validity.shown(ends)}{strict if refused else ''}"

    def _opened(self) -> str:
        credentials, url = self.credentials, self.urls[0]
        door = usability.door_of(self._pair, self.role, credentials)
        if isinstance(door, LocalDoors):
            self.door = door
            raise LookupError(LOCAL)
        clock = usability.own_clock()
        if not self.failed:
            with contextlib.suppress(DoorError):  # the next check reports it
                clock = validity.server_clock(door, url)
        periods = list(validity.periods(self._login, credentials, self.role))
        for period in periods:
            if why := validity.invalid(period, clock, usability.SOON):
                about = validity.described(credentials.token(self.role) or "")
                raise UnusableEndpointError(f"{why}{about and '; '}{about}")
        self.door = door
        if not credentials.needed:
            return "none: anonymous"
        ends = min((period.ends for period in periods if period.ends), default=None)
        until = f", valid until {validity.shown(ends)}" if ends else ""
        if not (token := credentials.token(self.role)):
            return f"certificate{until}"
        self.token = token
        about = validity.described(token)
        lacking = validity.doubts(token, self.role, url, reads=bool(self.file))
        return f"bearer token{about and ': '}{about}{until}{''.join(f'; {doubt}' for doubt in lacking)}"

    def _listed(self, url: str) -> str:
        if not self.door.lists(url):
            raise UnusableEndpointError("no such folder")
        server = self.door.server(url)
        found = recognized(server) if isinstance(self.door, HttpDoors) else None
        return f"{found.name}: {found.note}" if found else server or "unknown server"

    def _make(self, undo: ExitStack) -> None:
        """Create a folder, unless one of an earlier run cannot be deleted there."""
        for pair in self.pairs:
            left = ledger.reap(self._settings, pair.name)[1]
            if here := [text for text in left if any(url in text for url in self.urls)]:
                raise LeftError(f"no folder is created while an earlier one cannot be deleted: {here[0]}")
        self._entry = ledger.begin(undo, self._testbed, self._pair.name, self.credentials.folder)
        undo.callback(self.clear)
        self._made = self._entry.create(self.role, self.door, self.urls[0])

    def _seen(self, url: str) -> None:
        if not self._made:
            raise UnusableEndpointError("no folder was made by the first door")
        self.door.require(self._made.at(url))

    def _uploaded(self, url: str) -> None:
        self.door.upload(self.own_file("file", url), lambda: [CONTENT], len(CONTENT))

    def _deleted(self, file: OwnFile) -> None:
        if not self.door.delete(file):
            raise UnusableEndpointError("no such file")

    def require_content(self, url: str) -> None:
        """Raise UnusableEndpointError unless a file has the content that was uploaded."""
        if (found := self.door.download(url)) != CONTENT:
            other = "other bytes than were uploaded"
            has = other if len(found) == len(CONTENT) else f"{len(found)} of {len(CONTENT)} bytes"
            raise UnusableEndpointError(has)

    def _checksum(self, url: str) -> str:
        digest = self.door.checksum(url)
        if self.checksum not in digest:
            raise UnusableEndpointError(f"{digest}, which is not the content's")
        return "adler32"

    def _sized(self, url: str) -> str:
        found = self.door.size(url)
        if not found or found < 0:
            raise UnusableEndpointError(f"{url}: {'no such file' if found is None else 'it has no bytes'}")
        self.size, self.checksum = found, ""
        return f"{found} bytes"

    def _started(self, url: str) -> str:
        if not (found := self.door.start(url, len(CONTENT))):
            raise UnusableEndpointError(f"{url}: no byte can be read")
        return f"{len(found)} of {self.size} bytes"

    def _summed(self, url: str) -> str:
        self.checksum = self.door.checksum(url)
        return self.checksum

    def _macaroon(self) -> None:
        if not isinstance(self.door, HttpDoors):
            raise LookupError("https:// only")
        if self.token or not self.credentials.needed:
            raise LookupError("a token is used" if self.token else "anonymous")
        text = macaroon_request(self.role, self.credentials)
        url, size = f"{self._made.url if self._made else self.urls[0]}/", len(text)
        answer = self.door.ok("POST", url, headers=MACAROON_TYPE, body=lambda: [text], size=size)
        try:
            self.token = parse_macaroon(answer.body)
        except ValueError:
            raise UnusableEndpointError("the answer is no macaroon") from None

    def clear(self) -> list[str]:
        """Delete the folder, once, and return the errors."""
        if self._cleared is None and self._entry:
            self._cleared = ledger.cleared({self.role: self.door}, self._entry.folders)[1]
            if not self._cleared:
                ledger.end(self._entry)
        return self._cleared or []

    def left_rows(self) -> Row:
        if self._entry and self._entry.folders:
            yield from map(self._row, self._in_turn(self.subject, [("nothing left", self._nothing_left)]))

    def _nothing_left(self) -> None:
        if left := self.clear():
            raise UnusableEndpointError("; ".join(left))


class _PairTrial:
    """Copies between the ends of a pair."""

    def __init__(self, settings: Endpoints, pair: EndpointPair, ends: dict[str, _End]) -> None:
        self._settings, self._pair, self._ends = settings, pair, ends
        self._markers = False
        self._private: Credentials | None = None
        self._name = made_up()[-8:]  # of its files, as pairs may share an end
        self._copied_bytes = 0

    def rows(self) -> Row:
        with ExitStack() as undo:
            for row in self._rows(undo):
                yield replace(row, pair=self._pair.name)

    def _rows(self, undo: ExitStack) -> Row:
        copy: Tool = TOOLS["curl"]
        ways: dict[str, tuple[Tool, Callable[[str, str], None]]] = {
            "pull": (copy, partial(self._copied_by_http, "pull", 1)),
            "push": (copy, partial(self._copied_by_http, "push", 1)),
            "pull with 2 connections": (copy, partial(self._copied_by_http, "pull", 2)),
        }
        for tool in map(TOOLS.__getitem__, PROGRAMS):
            if tool.name == "xrdcp" or tool.place == self._pair.place:
                ways[tool.name] = tool, partial(self._copied_by_program, undo, tool)
        pairs = self._pair.doors
        broken = next(
            (f"the {end.role} failed: {end.failed}" for end in self._ends.values() if end.failed), ""
        )
        fit = [name for name, (tool, _) in ways.items() if not self._unfit(tool)]
        large = LargeFile(len(pairs) * len(fit), self._settings.budget.bytes)
        for doors in pairs:
            subject, between = self._pair.name, " to ".join(urlsplit(url).netloc for url in doors)
            if len(pairs) > 1:
                subject += f" {between}"
            for name, (tool, way) in ways.items():
                if reason := self._unfit(tool) or broken:
                    yield Finding(subject, name, "skipped", reason, door=between)
                    continue
                steps: list[Step] = [(name, partial(self._copied, doors, name, way))]
                if not self._ends["source"].file:
                    big = f"{name}, {large_file.NAME}"
                    steps.append((big, partial(self._copied_large, large, doors, name, way)))
                for row in _in_turn(subject, steps):
                    yield replace(row, door=between)
        seen = "in the answers" if self._markers else "none: copies that take longer may have some"
        status: Literal["ok", "skipped"] = "ok" if self._markers else "skipped"
        yield Finding(self._pair.name, "performance markers", status, self._unfit(copy) or broken or seen)

    def _unfit(self, tool: Tool) -> str:
        """Return why a tool cannot copy between the ends of this pair; "" if it can."""
        if tool.place != self._pair.place:
            return f"{ENDS[tool.place]} only"
        return "" if tool.protocol in self._pair.protocols else f"{tool.protocol}:// only"

    def _copied(self, doors: tuple[str, str], name: str, way: Callable[[str, str], None]) -> str:
        """Copy the file between two doors, compare it, and delete it."""
        source, destination = self._ends["source"], self._ends["destination"]
        self._copied_bytes += source.size
        if source.file and self._copied_bytes > self._settings.budget.bytes:
            raise LookupError(f"budget.bytes is smaller than the copies of {source.size} bytes")
        target = destination.own_file(f"{name.replace(' ', '-')}-{self._name}", doors[1])
        url = source.source_url(doors[0])
        if not source.file and source.door.size(url) != len(CONTENT):
            source.door.upload(source.own_file("file", doors[0]), lambda: [CONTENT], len(CONTENT))
        began = time.monotonic()
        way(url, target.url)
        seconds = time.monotonic() - began
        if source.file:
            self._compare(target)
        else:
            destination.require_content(target.url)
        destination.door.delete(target)
        return f"{seconds:.2f} s"

    def _copied_large(
        self, large: LargeFile, doors: tuple[str, str], name: str, way: Callable[[str, str], None]
    ) -> str:
        """Copy a large file of ours between two doors, compare it, and delete the copy."""
        source, destination = self._ends["source"], self._ends["destination"]
        file = source.own_file(f"large-{self._name}", doors[0])
        target = destination.own_file(f"large-{name.replace(' ', '-')}-{self._name}", doors[1])
        large.upload(source.door, file)
        began = time.monotonic()
        way(file.url, target.url)
        seconds = time.monotonic() - began
        alike = large.require(destination.door, target)
        destination.door.delete(target)
        return f"{seconds:.2f} s, {alike}"

    def _compare(self, target: OwnFile) -> None:
        """Compare size and, if both servers tell it, checksum of a copy with those of the source file."""
        source, door = self._ends["source"], self._ends["destination"].door
        if (found := door.size(target.url)) not in (source.size, -1):
            has = "no such file" if found is None else f"{found} of {source.size} bytes"
            raise UnusableEndpointError(f"the destination has {has}")
        if source.checksum:
            with contextlib.suppress(LookupError):
                if (digest := door.checksum(target.url)) != source.checksum:
                    raise UnusableEndpointError(f"the copy has {digest}, the source {source.checksum}")

    def _copied_by_program(self, undo: ExitStack, tool: Tool, source: str, target: str) -> None:
        assert isinstance(tool, Program)
        if not self._private:
            self._private = Credentials(undo.enter_context(secrets.written(self._settings, self._pair)))
        credentials, paths = self._private, (local_path(source), local_path(target))
        transfer = Transfer(source, target, tool.copy_modes[0], 1, *paths)
        command = tool.command(transfer, credentials, credentials.folder)
        environment = tool.environment(credentials, credentials.folder)
        limit = PATIENCE + max(self._ends["source"].size, large_file.LARGE) / SLOWEST
        try:
            done = processes.run(command, environment, timeout=limit)
        except subprocess.TimeoutExpired:
            raise UnusableEndpointError(f"no end within {limit:.0f} s") from None
        if why := tool.failure(done.returncode, done.stdout + done.stderr):
            raise UnusableEndpointError(explained_copy(why, transfer.copy_mode))

    def _copied_by_http(self, mode: str, connections: int, source: str, target: str) -> None:
        transfer = Transfer(source, target, mode, connections)
        door = self._ends[transfer.roles[0]].door
        assert isinstance(door, HttpDoors)
        headers = copy_headers(transfer, *(self._ends[role].token for role in transfer.roles))
        answer = door.request("COPY", transfer.ends[0], headers)
        self._markers |= b"Perf Marker" in answer.body
        if why := failure(answer.status, answer.reason, Progress(answer.body).last, answer.headers):
            raise UnusableEndpointError(explained_copy(why, mode))


def _in_turn(subject: str, steps: list[Step]) -> Row:
    """Run steps until one fails, and skip the rest. LookupError means a missing or unused feature."""
    needed = ""
    for name, step in steps:
        if needed:
            yield Finding(subject, name, "skipped", f"needs: {needed}")
            continue
        began = time.monotonic()
        status: Literal["ok", "failed", "skipped"] = "ok"
        try:
            reason = step() or ""
        except LookupError as error:
            status, reason = "skipped", str(error.args[0])
        except (UnusableEndpointError, DoorError, secrets.CredentialError, OSError, ValueError) as error:
            needed = name if name != "delete" else ""
            why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
            status, reason = "failed", explained(why or type(error).__name__)
        yield Finding(subject, name, status, reason, seconds=round(time.monotonic() - began, 3))
