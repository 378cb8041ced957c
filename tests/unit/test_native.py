# SPDX-License-Identifier: Apache-2.0
"""The native tool against a server of a few lines that answers over TLS whatever a test wants."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.tools import Credentials, Transfer, native
from tpcsweep.tools.base import OnMarker
from tpcsweep.tools.native import Copier, Progress
from tpcsweep.xrootd import credentials

MACAROON = b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"macaroon": "m1"}'
MARKER = "Perf Marker\n Timestamp: 1\n Stripe Index: 0\n Stripe Bytes Transferred: {}\nEnd\n"


def chunked(*pieces: str, status: str = "201 Created") -> bytes:
    chunks = [f"{len(piece):x}\r\n{piece}\r\n".encode() for piece in (*pieces, "")]
    return f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"".join(chunks)


CREATED = b"HTTP/1.1 201 Created\r\n%b\r\n\r\n"
DONE = chunked("success: Created")
PUSH = {"copy_mode": "push", "tcp_streams": 4}
BEARER = {"Authorization": "Bearer m1"}
Answer = Callable[[str], bytes]
"""What the server sends, of a request's first line; nothing: it closes the connection."""


class Server:
    """Answers macaroon requests with one macaroon, everything else with what the test says."""

    def __init__(self, answer: Answer, answers: int) -> None:
        self._answer = answer
        self._answers = answers  # over one connection
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.closed = asyncio.Event()  # a connection, on both sides
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for _ in range(self._answers):
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if line)
                await reader.readexactly(int(headers.get("Content-Length", 0)))
                self.asked.append((first, headers))
                answer = MACAROON if first.startswith("POST") else self._answer(first)
                if not answer:
                    break
                writer.write(answer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.closed.set()

    @property
    def copies(self) -> list[tuple[str, dict[str, str]]]:
        return [(first, headers) for first, headers in self.asked if first.startswith("COPY")]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment") / "credentials"
    credentials.create_credentials(folder, ["127.0.0.1"], (os.getuid(), os.getgid()))
    return folder


@asynccontextmanager
async def serving(secrets: Path, answer: Answer, answers: int = 1000) -> AsyncIterator[Server]:
    server = Server(answer, answers)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(secrets / "host.pem", secrets / "host.key")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/data"
    yield server
    listening.close()  # and not `async with`: since Python 3.12 that waits for clients, which keep their connections


def copies(
    secrets: Path,
    answer: Answer,
    count: int = 1,
    authorization: str = "usual",
    answers: int = 1000,
    on_marker: OnMarker = lambda _: None,
    **asked: Any,
) -> tuple[list[str | None], Server]:
    """One transfer after another; how they ended, and what the server saw."""

    async def run() -> tuple[list[str | None], Server]:
        async with serving(secrets, answer, answers) as server:
            copier = Copier(Credentials(secrets, authorization))
            ended = []
            for number in range(count):
                ends = f"{server.url}/source", f"{server.url}/{number}"
                transfer = Transfer(*ends, **{"copy_mode": "pull", **asked})
                ended.append(await copier.copy(transfer, on_marker))
                if answers == 1:
                    await asyncio.wait_for(server.closed.wait(), 60)
            return ended, server

    return asyncio.run(run())


def test_transfers_share_macaroons_and_a_connection(secrets: Path) -> None:
    ended, server = copies(secrets, lambda _: chunked(MARKER.format(5), "success: Created\n"), count=4)
    assert ended == [None] * 4
    # Both ends are one here.
    assert len([first for first, _ in server.asked if first.startswith("POST")]) == 1
    assert server.connections == 2  # one with the user's certificate, one for every COPY
    headers = server.copies[0][1]
    assert headers["Authorization"] == headers["TransferHeaderAuthorization"] == "Bearer m1"


@pytest.mark.parametrize(
    ("asked", "of", "has", "lacks"),
    [
        ({}, "0", {"Source": "{}/source", **BEARER}, "X-Number-Of-Streams"),
        (PUSH, "source", {"Destination": "{}/0", "X-Number-Of-Streams": "4"}, "Source"),
        # Data in the clear are asked for by http, and the copy by https: the server speaks TLS alone.
        ({"encryption": "none"}, "0", {"Source": "http{}/source", **BEARER}, "Destination"),
        ({"authorization": "none"}, "0", {"Credential": "none"}, "Authorization"),
    ],
)
def test_a_copy_is_as_parameters_say(secrets: Path, asked: Any, of: str, has: Any, lacks: str) -> None:
    ended, server = copies(secrets, lambda _: DONE, **asked)
    [(first, headers)] = server.copies
    assert (ended, first) == ([None], f"COPY /data/{of} HTTP/1.1")
    for name, value in has.items():
        plain = server.url.removeprefix("https") if value.startswith("http") else server.url
        assert headers[name] == value.format(plain)
    assert lacks not in headers
    assert ("POST" in {first.split()[0] for first, _ in server.asked}) == ("authorization" not in asked)


def test_markers_tell_the_bytes_so_far(secrets: Path) -> None:
    told: list[int] = []
    markers = [MARKER.format(size) for size in (0, 5, 5, 9)]
    ended, _ = copies(secrets, lambda _: chunked(*markers, "success: Created\n"), on_marker=told.append)
    assert (ended, told) == ([None], [5, 9])


def test_a_redirection_is_followed_with_the_macaroon(secrets: Path) -> None:
    moved = b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: /data/other?tried=1\r\n\r\n"
    ended, server = copies(secrets, lambda first: DONE if "tried" in first else moved)
    assert ended == [None]
    assert [first.split()[1] for first, _ in server.copies] == ["/data/0", "/data/other?tried=1"]
    assert server.copies[1][1]["Authorization"] == "Bearer m1"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (chunked(MARKER.format(5), "failure: no space\n"), "failure: no space"),
        (chunked("not found", status="404 Not Found"), "HTTP 404 Not Found: not found"),
        (chunked("success: Created", status="300 Choices"), "HTTP 300 Choices: success: Created"),
        (chunked(MARKER.format(5)), "the answer ends without a result: End"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "HTTP 403 Forbidden"),
        (CREATED % b"Content-Length: 0", "the answer ends without a result"),
        (b"", "the server closed the connection before the end of an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP/1.1 answer: 'SSH-2.0-OpenSSH'"),
        (CREATED % b"Transfer-Encoding: chunked" + b"zz\r\n", r"no chunk begins with b'zz\r\n'"),
        (b"HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: http://other/\r\n\r\n", "redirected to http"),
        (b"HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: /data/0\r\n\r\n", "more than 5 times"),
    ],
)
def test_what_is_no_success_is_a_failure_in_servers_words(secrets: Path, answer: bytes, said: str) -> None:
    [ended], _ = copies(secrets, lambda _: answer)
    assert said in str(ended)


def test_after_an_answer_that_breaks_off_the_next_transfer_has_another_connection(
    secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [CREATED % b"Content-Length: 50" + b"success: Cre", DONE, b"", DONE]
    monkeypatch.setattr(native, "PATIENCE", 0.3)
    [first, second, third, last], server = copies(secrets, lambda _: answers.pop(0), count=4)
    assert "has not answered for" in str(first)
    assert "closed the connection before the end of an answer" in str(third)
    assert second is last is None
    assert len(server.copies) == 4  # what may have begun is not sent again


def test_a_connection_that_the_server_closed_meanwhile_is_made_again(secrets: Path) -> None:
    ended, server = copies(secrets, lambda _: DONE, count=2, answers=1)
    assert (ended, len(server.copies)) == ([None, None], 2)


def test_a_macaroon_that_is_refused_is_asked_for_anew(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope"
    monkeypatch.setattr("tests.unit.test_native.MACAROON", refusal)
    ended, server = copies(secrets, lambda _: b"", count=2)
    assert all("gave no macaroon: HTTP 403 No: nope" in str(one) for one in ended)
    assert [first.split()[0] for first, _ in server.asked] == ["POST", "POST"]


MARKERS = ["", "Perf Marker", "  Stripe Bytes Transferred: 12", " Stripe Bytes Transferred: 7", "End"]
LINES = st.lists(st.sampled_from(MARKERS) | st.text(alphabet="ab :1", max_size=8), max_size=12)
BODIES = LINES.map(lambda lines: "\n".join(lines).encode())


@given(BODIES, st.lists(st.integers(0, 200), max_size=10))
def test_a_body_says_the_same_in_whatever_pieces_it_comes(body: bytes, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(body)) for cut in cuts), len(body) + 1})
    whole, pieces = Progress(), Progress()
    whole.feed(body + b"\n")
    grown = [pieces.feed((body + b"\n")[a:b]) for a, b in pairwise(places)]
    assert (pieces.bytes, pieces.last) == (whole.bytes, whole.last)
    assert any(grown) == (whole.bytes > 0)
    lines = [line for line in body.split(b"\n") if line.strip()]
    assert whole.last == (lines[-1] if lines else b"")
