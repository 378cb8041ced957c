# SPDX-License-Identifier: Apache-2.0
"""A WebDAV door of somebody else, with third-party copies and ways of its own, which records what it is asked to do."""

from __future__ import annotations

import contextlib
import http.client
import posixpath
import re
import socket
import ssl
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

OWN = re.compile(r"/tpcsweep-[0-9a-f]+(/|$)")
FOREIGN = b"precious"
MARKED = 0.25
"""Seconds between performance markers."""


@dataclass
class Foreign:
    """The door's files, its ways, and a record."""

    folders: set[str] = field(default_factory=lambda: {"/"})
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: str = ""
    """A decoded path ends before the first of these characters, as if the rest were an option."""
    tidies: bool = True
    """Whether // and .. are resolved."""
    exists: int = 405
    """The answer to MKCOL where something is."""
    copies: str = "success: Created\n"
    """The body that follows a copy that went well."""
    status: int = 201
    """Of all copies."""
    kept: float = 1.0
    """The share of a copied file that is kept."""
    hidden: str = "?"
    """HEAD is refused for paths that contain this."""
    unlisted: str = "?"
    """So is PROPFIND of files."""
    altered: bool = False
    """Whether a copied file has other bytes."""
    most: int = 1 << 62
    """Bytes of the largest file that can be copied; the copy of another one fails after its 201."""
    rate: float = 0.0
    """Bytes of a pulled file that arrive in a second, with a marker every MARKED seconds; 0: all at once."""
    claims: float = 1.0
    """Bytes of a marker over those that arrived."""
    marked: list[int] = field(default_factory=list)
    """Bytes that had arrived at each marker."""
    first_claim: int = 0
    """Bytes of a marker at once."""
    grows: bool = True
    """Whether the door shows the bytes of a file that is not yet complete."""
    refused: tuple[str, ...] = ()
    """Methods that are answered with `refusal`, as long as there are `refusals`."""
    refusal: int = 503
    refusals: int = 1 << 30
    retry_after: str = ""
    sums: bool = True
    """Whether a digest is told to who wants it."""
    redirect: str = ""
    """Where requests of the methods `redirected` are sent, if anywhere."""
    redirected: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    """Methods that are answered with 403."""
    ahead: float = 0.0
    """Seconds by which its clock is ahead."""
    pause: float = 0.0
    """Seconds before a redirection is answered."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path as sent, and headers of each request."""
    changed: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each change."""
    created: set[str] = field(default_factory=set)
    """Folders whose creation was answered with 201."""
    precious: set[str] = field(default_factory=set)
    """Names of foreign files."""
    url: str = ""

    def path(self, target: str) -> str:
        path = unquote(target.partition("?")[0])
        for mark in self.cuts:
            path = path.partition(mark)[0]
        return posixpath.normpath(path).replace("//", "/") if self.tidies else path.rstrip("/") or "/"

    def add(self, folder: str) -> None:
        """Add a folder as this door reads its path, with those above it, and a foreign file in each."""
        path = self.path(folder)
        while path not in self.folders or path == "/":
            self.folders.add(path)
            self.files[f"{path.rstrip('/')}/foreign"] = FOREIGN
            self.precious.add(f"{path.rstrip('/')}/foreign")
            if not path.strip("/"):
                break
            path = posixpath.dirname(path)

    def wrong(self) -> list[object]:
        """Changes outside a folder that tpcsweep made, and foreign files that were lost or overwritten."""
        outside = [
            change
            for change in self.changed
            if not any(change[1] == made or change[1].startswith(f"{made}/") for made in self.created)
        ]
        unsafe = [made for made in self.created if not OWN.search(made)]
        lost = [name for name in self.precious if self.files.get(name) != FOREIGN]
        return [*outside, *unsafe, *lost]

    @property
    def left(self) -> list[str]:
        return [name for name in (*self.folders, *self.files) if OWN.search(name)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    door: Foreign

    def log_message(self, *_: object) -> None:
        pass

    def handle_expect_100(self) -> bool:
        return self.turned or super().handle_expect_100()

    @property
    def turned(self) -> bool:
        return bool(self.door.redirect) and self.command in self.door.redirected

    def handle_any(self) -> None:
        self.door.asked.append((self.command, self.path, dict(self.headers.items())))
        if self.turned:  # before the content is read, as redirectors do
            self.close_connection = True
            time.sleep(self.door.pause)
            self.say(307, Location=self.door.redirect)
            return
        self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command in self.door.refused and self.door.refusals > 0:
            self.door.refusals -= 1
            self.say(self.door.refusal, b"not now", **{"Retry-After": self.door.retry_after})
            return
        if self.command in self.door.refuses:
            self.say(403)
            return
        getattr(self, f"on_{self.command.lower()}")(self.door.path(self.path))

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) + self.door.ahead)

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

    def say(self, status: int, body: bytes = b"", **headers: Any) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def on_options(self, _: str) -> None:
        self.say(200, Server="foreign")

    def on_head(self, path: str) -> None:
        content = self.door.files.get(path)
        if self.door.hidden in path:
            self.say(403)
            return
        if content is None:
            self.say(404)
            return
        wanted = self.door.sums and "Want-Digest" in self.headers
        digest = {"Digest": f"adler32={zlib.adler32(content):08x}"} if wanted else {}
        self.say(200, **{"Content-Length": len(content), **digest})

    def on_get(self, path: str) -> None:
        content = self.door.files.get(path)
        self.say(404) if content is None else self.say(200, content)

    def on_propfind(self, path: str) -> None:
        if path in self.door.files and self.door.unlisted not in path:
            size = len(self.door.files[path])
            listed = f"<D:href>{path}</D:href><D:getcontentlength>{size}</D:getcontentlength>"
            self.say(207, f"<D:multistatus>{listed}</D:multistatus>".encode())
            return
        if path not in self.door.folders:
            self.say(404)
            return
        inside = [name for name in (*self.door.folders, *self.door.files) if posixpath.dirname(name) == path]
        hrefs = "".join(f"<D:href>{name}</D:href>" for name in (f"{path}/", *inside) if name != "/")
        self.say(207, f"<D:multistatus>{hrefs}</D:multistatus>".encode())

    def on_mkcol(self, path: str) -> None:
        if path in self.door.folders or path in self.door.files:
            self.say(self.door.exists)
            return
        self.door.created.add(path)
        self.door.changed.append(("MKCOL", path))
        self.door.folders.add(path)
        self.say(201)

    def on_put(self, path: str) -> None:
        self.door.changed.append(("PUT", path))
        self.door.files[path] = self.content
        self.say(201)

    def on_delete(self, path: str) -> None:
        """With everything below it, as RFC 4918 has it."""
        gone = [
            name
            for name in (*self.door.folders, *self.door.files)
            if name == path or name.startswith(f"{path}/")
        ]
        if gone:
            self.door.changed.append(("DELETE", path))
        for name in gone:
            self.door.folders.discard(name)
            self.door.files.pop(name, None)
        self.say(204 if gone else 404)

    def on_copy(self, path: str) -> None:
        door, source, destination = self.door, self.headers.get("Source"), self.headers.get("Destination")
        try:
            if source:
                with urllib.request.urlopen(source, timeout=20) as answer:
                    content = answer.read()
                door.changed.append(("COPY", path))
                if len(content) > door.most:
                    door.files[path] = content[: door.most]
                    self.say(201, b"failure: the disk is broken")
                    return
                if door.rate:
                    with contextlib.suppress(OSError):  # the client has gone
                        self.arrive(path, content)
                    return
                content = content[: int(door.kept * len(content))]
                door.files[path] = bytes(len(content)) if door.altered else content
            else:
                put = urllib.request.Request(str(destination), door.files[path], method="PUT")
                urllib.request.urlopen(put, timeout=20).close()
        except (OSError, http.client.HTTPException, KeyError) as error:
            self.say(500, f"failure: {error}".encode())
            return
        self.say(door.status, door.copies.encode())

    def arrive(self, path: str, content: bytes) -> None:
        """Answer at once, with markers while the bytes arrive."""
        door, began, due = self.door, time.monotonic(), MARKED
        self.send_response(202)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if door.first_claim:
            self.chunk(marker(door.first_claim))
        while (done := int((time.monotonic() - began) * door.rate)) < len(content):
            time.sleep(0.02)
            door.files[path] = content[: done * door.grows]
            if time.monotonic() - began >= due:
                due += MARKED
                door.marked.append(done)
                self.chunk(marker(int(done * door.claims)))
        door.files[path] = content[: int(door.kept * len(content))]
        self.chunk(door.copies.encode())
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, text: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))


def marker(size: int) -> bytes:
    lines = ["Perf Marker", "Timestamp: 1", "Stripe Index: 0", f"Stripe Bytes Transferred: {size}", "End", ""]
    return "\n".join(lines).encode()


@contextlib.contextmanager
def foreign_door(pki: Path | None = None, address: str = "127.0.0.1", **ways: Any) -> Iterator[Foreign]:
    """Serve by http, or by https with a certificate, for the length of a `with`."""
    door = Foreign(**ways)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = type("Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
    server = kind((address, 0), type("Own", (Handler,), {"door": door}))
    if pki:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(pki / "host.pem", pki / "host.key")
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    host = f"[{address}]" if family == socket.AF_INET6 else address
    door.url = f"http{'s' if pki else ''}://{host}:{server.server_port}"
    try:
        yield door
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
