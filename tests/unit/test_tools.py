# SPDX-License-Identifier: Apache-2.0
"""Tools: their commands, environments and words, what each cannot do; the native one against a small server."""

import asyncio
import json
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.deploying.xrootd.releases import release_in
from tpcsweep.measuring.tools import http, xrdcp
from tpcsweep.measuring.tools.http_tpc import Progress
from tpcsweep.measuring.tools.native import Copier
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials, Place, Program, Tool, Transfer
from tpcsweep.measuring.tools.xrdcp_http import link_client

from tests.support.projects import cases, problems
from tests.support.releases import folder_of

CREDENTIALS, HOME = Credentials(Path("/c")), Path("/home")
PROGRAMS = {name: tool for name, tool in TOOLS.items() if isinstance(tool, Program)}
SOURCE, DESTINATION = "https://10.0.0.1:8080/data/f", "https://10.0.0.2:8080/data/g"
FILE = Transfer(SOURCE, DESTINATION, "push", source_file="/here/f", destination_file="/there/g")
PLACES: tuple[Place, ...] = ("source", "destination")
CLEAR = {"encryption": "none"}


@pytest.mark.parametrize(
    ("tool", "asked", "ends"),
    [
        ("davix-put", {}, ["/here/f", DESTINATION]),
        ("davix-get", {}, [SOURCE, "/there/g"]),
        ("xrdcp", {}, ["root://10.0.0.1:8080//data/f", "root://10.0.0.2:8080//data/g"]),
        ("xrdcp-direct", {}, ["/here/f", "root://10.0.0.2:8080//data/g"]),
        ("globus-url-copy", {}, ["ftp://10.0.0.1:2811/here/f", "ftp://10.0.0.2:2811/there/g"]),
        # Data in the clear are asked for by http, and the copy by https.
        ("gfal-copy", {"copy_mode": "pull", **CLEAR}, ["http://10.0.0.1:8080/data/f", DESTINATION]),
        ("gfal-copy", CLEAR, [SOURCE, "http://10.0.0.2:8080/data/g"]),
        ("davix-put", CLEAR, ["/here/f", "http://10.0.0.2:8080/data/g"]),
        ("davix-get", {"copy_mode": "pull", **CLEAR}, ["http://10.0.0.1:8080/data/f", "/there/g"]),
        ("curl", {"copy_mode": "pull"}, [f"Source: {SOURCE}", DESTINATION]),
        ("curl", {"encryption": "tls"}, [f"Destination: {DESTINATION}", SOURCE]),
        ("curl", CLEAR, ["Destination: http://10.0.0.2:8080/data/g", SOURCE]),
        ("curl", CLEAR, ["=https", SOURCE]),
    ],
)
def test_each_end_is_named_as_the_tool_reaches_it(tool: str, asked: dict[str, Any], ends: list[str]) -> None:
    *words, last = PROGRAMS[tool].command(replace(FILE, **asked), CREDENTIALS, HOME)
    assert ends[0] in words and last == ends[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a client, which has a release whose xrdcp copies by HTTP."""
    link_client(tmp_path, release_in("6.2.1", folder_of(tmp_path / "release", "v6.2.1")))
    return tmp_path


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_servers_without_authorization_get_no_credentials(tool: Tool, home: Path) -> None:
    let_in = Credentials(home, "none")
    shown = {*tool.environment(let_in, home).values()}
    if isinstance(tool, Program):
        tool.prepare(FILE, let_in, home)
        shown.update(tool.command(FILE, let_in, home))
    assert not shown & {str(let_in.certificate), str(let_in.key)}
    if tool.name == "curl":
        assert (home / "headers").read_text() == "Credential: none\nX-No-Delegate: true\nOverwrite: F\n"


def test_a_third_party_copy_never_goes_through_the_client() -> None:
    for name, option, value in (("xrdcp", "--tpc", "only"), ("gfal-copy", "--copy-mode", "push")):
        command = PROGRAMS[name].command(FILE, CREDENTIALS, HOME)
        assert command[command.index(option) + 1] == value


def test_xrdcp_has_the_connections_asked_for_in_every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    for release, told in {(5, 5, 3): "3", (5, 6, 7): "4", (6, 2, 0): "4"}.items():
        monkeypatch.setattr(xrdcp, "_release", lambda release=release: release)
        command = PROGRAMS["xrdcp"].command(replace(FILE, tcp_streams=4), CREDENTIALS, HOME)
        assert command[command.index("--streams") + 1] == told
        assert "--streams" not in PROGRAMS["xrdcp"].command(FILE, CREDENTIALS, HOME)


def test_xrdcp_by_http_shows_both_tokens_by_a_private_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, how = PROGRAMS["xrdcp-http"], {"copy_mode": "push"}
    given = Credentials(home)
    monkeypatch.setattr(given, "token", "the token of the {}".format)
    tool.prepare(FILE, given, home)
    command = tool.command(replace(FILE, **how), given, home)
    *_, option, file, source, destination = command
    assert command[command.index("--tpc") :][1:3] == ["push", "only"]
    assert (option, source, destination) == ("--tpc-token-file", SOURCE, DESTINATION)
    assert json.loads(Path(file).read_text()) == {
        "src": "the token of the source",
        "dst": "the token of the destination",
    }
    assert Path(file).stat().st_mode & 0o077 == 0
    assert "token of" not in " ".join([*command, *tool.environment(given, home).values()])
    monkeypatch.setattr(given, "token", lambda _: "t" * 6000)
    with pytest.raises(
        RuntimeError, match=r"have 120\d\d bytes, of which xrdcp reads 10240. Fix: use curl or"
    ):
        tool.prepare(FILE, given, home)
    pull = tool.command(replace(FILE, copy_mode="pull", tcp_streams=4), given, home)
    assert "push" not in pull and pull[pull.index("--streams") + 1] == "4"


@pytest.mark.parametrize("version", ["v6.1.1", "v5.8.1"])
def test_an_older_xrdcp_is_refused_with_what_there_is(tmp_path: Path, version: str) -> None:
    link_client(tmp_path, release_in("old", folder_of(tmp_path / "release", version)))
    with pytest.raises(RuntimeError, match=rf"begins with 6.2 \(xrootd is {version[1:]}\). Fix: install 6.2"):
        PROGRAMS["xrdcp-http"].prepare(FILE, CREDENTIALS, tmp_path)


def test_each_stream_of_iperf3_has_a_server_at_the_destination_and_gridftp_one_at_each_side() -> None:
    tool = PROGRAMS["iperf3"]
    assert tool.services("source", "10.0.0.1", 3) == []
    services = tool.services("destination", "10.0.0.2", 3)
    assert [service.port for service in services] == [5201, 5202, 5203]
    command = tool.command(replace(FILE, stream=2), CREDENTIALS, HOME)
    assert command[command.index("--client") + 1] == "10.0.0.2"
    assert command[command.index("--port") + 1] == str(services[2].port)
    for place in PLACES:
        [service] = TOOLS["globus-url-copy"].services(place, "10.0.0.2", 3)
        assert "GLOBUS_HOSTNAME=10.0.0.2" in service.command


@pytest.mark.parametrize(
    ("tool", "code", "output", "said"),
    [
        ("davix-put", 255, "Performing Put\n(Davix::HttpRequest) Error: 403\n", "Error: 403"),
        ("xrdcp", 54, "\nRun: [ERROR] no such file\0\n", "(the server refused): Run: [ERROR] no such file"),
        ("globus-url-copy", 1, "\nerror: globus\n500 refused\n", "error: globus | 500 refused"),
        ("iperf3", 1, "Connecting\niperf3: error - unable to connect\n", "error - unable to connect"),
        ("gfal-copy", 17, "Copying\ngfal-copy: exists", "(destination exists): gfal-copy: exists"),
        ("curl", 0, "Perf Marker\nEnd\nfailure: rejected\n", "exit code 0: failure: rejected"),
        ("curl", 0, "\nHTTP status 202\n", "exit code 0: HTTP status 202"),
        ("curl", 0, "no such file\n\nHTTP status 404\n", "exit code 0: HTTP 404: no such file"),
        ("curl", 0, "success: Created\nfailure: disk\n\nHTTP status 201\n", "exit code 0: failure: disk"),
        (
            "curl",
            0,
            "busy\n\nHTTP status 429 retry-after [20] date []\n",
            "429, asks for a pause of 20 s: busy",
        ),
        ("curl", 60, "\nHTTP status 000\ncurl: (60) SSL", "exit code 60: curl: (60) SSL"),
        ("curl", 18, "End\nfailure: no\n route\ncurl: (18) closed\n", "exit code 18: failure: no route"),
    ],
)
def test_failures_keep_the_messages_of_the_tools(tool: str, code: int, output: str, said: str) -> None:
    wells = ["Perf Marker\nEnd\nsuccess: Created\n\nHTTP status 202\n"] if tool == "curl" else [""]
    wells += ["\nHTTP status 201\n"] if tool == "curl" else []
    assert [PROGRAMS[tool].failure(0, well) for well in wells] == [None] * len(wells)
    assert str(PROGRAMS[tool].failure(code, output)).endswith(said)
    assert str(PROGRAMS[tool].failure(code, "")).endswith("no message")


SUMMED = "success: Created\n\nHTTP status 201\nHTTP/1.1 307 Moved\r\nDigest: md5=aa\r\n\r\n"
"""The output of curl up to the headers of the source, which begin with those of a redirection."""


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ("adler32=0a1b2c3d", "ADLER32=a1b2c3d", None),
        ("md5=CY9rzUYh03PK3k6DJie09g==", "md5=098f6bcd4621d373cade4e832627b4f6", None),
        ("crc32c=AAAAAA==,adler32=1", "crc32c=0", None),
        ("adler32=1", "adler32=2", "adler32 differs: the source has 00000001, and the destination 00000002"),
        ("", "adler32=2", "adler32 not verified: the source reports none"),
        ("adler32=1", "md5=2", "adler32 not verified: the destination reports none"),
        ("adler32=1", "HTTP 500", "adler32 not verified: the destination answers HTTP 500"),
    ],
)
def test_checksums_that_do_not_match_fail_a_transfer(
    secrets: Path, source: str, destination: str, expected: str | None
) -> None:
    checksum = source.partition("=")[0] or "adler32"
    digests = dict(zip(PLACES, (source, destination), strict=True))
    statuses = {
        end: digest.removeprefix("HTTP ") if " " in digest else "200" for end, digest in digests.items()
    }
    heads = {end: f"HTTP/1.1 {statuses[end]} A\r\nDigest: {digests[end]}\r\n" for end in PLACES}
    ends = [f"{heads[end]}\r\n\nchecksum {checksum} of {end}: HTTP {statuses[end]}\n" for end in PLACES]
    reason = PROGRAMS["curl"].failure(0, SUMMED + "".join(ends))
    assert reason == expected

    def answer(first: str) -> bytes:
        if not first.startswith("HEAD"):
            return DONE
        end = "source" if "source" in first else "destination"
        return f"{heads[end]}Content-Length: 5\r\n\r\n".encode()

    ended, server = copies(secrets, answer, count=2, checksum=checksum)
    assert ended == [expected] * 2
    assert [first.split()[0] for first, _ in server.asked].count("HEAD") == 4
    assert server.copies[0][1]["RequireChecksumVerification"] == "true"
    wanted = {headers["Want-Digest"] for first, headers in server.asked if first.startswith("HEAD")}
    assert wanted == {checksum}
    assert b"UPLOAD,LIST,DOWNLOAD" in server.bodies[0]


OTHERS = " or ".join(name for name in TOOLS if name != "iperf3")
REFUSED = f"""
tool: davix-put
    copy_mode (left out): given pull with tool davix-put, allowed: push: the source opens davix-put's connections
tool: davix-get, tcp_streams: 2
    tcp_streams: given 2 with tool davix-get, copy_mode pull, allowed: 1: davix-get moves a file with one request
tool: xrdcp, tcp_streams: 16
    tcp_streams: given 16 with tool xrdcp, copy_mode pull, allowed: at most 15: the limit of xrdcp --streams
tool: davix-get, origins: [1, 2]
    origins[1]: given 2 with tool davix-get, allowed: 1: davix-get runs at the destination, in the network and under
        the CPU quota of its one origin
tool: globus-url-copy, copy_mode: push, origins: 2
    endpoint (left out): given redirector with tool globus-url-copy, origins 2, allowed: direct: only XRootD has
        redirectors, and globus-url-copy speaks gridftp
tool: iperf3, copy_mode: push, layer: network, encryption: tls
    encryption: given tls with tool iperf3, authorization usual, allowed: usual or none: iperf3's data are not
        encrypted
encryption: none
    encryption: given none with tool gfal-copy, authorization usual, allowed: usual or tls, or authorization none:
        gfal2 requests macaroons by https only
tool: davix-get, encryption: none
    encryption: given none with tool davix-get, authorization usual, allowed: usual or tls, or authorization none:
        only https shows a certificate
tool: curl, encryption: none, origins: [1, 2]
    encryption: given none with tool curl, endpoint redirector, origins 2, allowed: usual or tls, or endpoint
        direct: redirectors send everybody on by https
tool: [davix-put, native], copy_mode: push, checksum: [none, md5]
    checksum[1]: given md5 with tool davix-put, allowed: none: davix-put compares no others
tool: davix-get, authorization: macaroons
    authorization: given macaroons with tool davix-get, allowed: usual or none: davix-get shows no macaroon
layer: network
    layer: given network with tool gfal-copy, allowed: memory_to_memory or memory_to_disk or disk_to_disk or
        mirage with gfal-copy; network needs the tool iperf3
tool: iperf3, copy_mode: push
    layer (left out): given memory_to_memory with tool iperf3, allowed: network with iperf3; memory_to_memory needs
        the tool {OTHERS}
scitag: 66
    scitag: given 66 with tool gfal-copy, allowed: null with gfal-copy; a tag needs the tool curl or native
layer: mirage, tool: curl, xrootd: 6.2.1, checksum: md5
    layer: given mirage with source_content sparse, checksum md5, origins 1, allowed: mirage with source_content sparse,
        checksum none and one origin
layer: mirage, tool: curl, xrootd: 5.8.1
    layer: given mirage with xrootd 5.8.1, allowed: others with xrootd 5.8.1: mirage needs 6.2.1, or another release
        from 6.2.0 on
layer: disk_to_disk
    source_content (left out): given sparse with layer disk_to_disk, allowed: random: holes are not read from a disk
layer: disk_to_disk, source_content: random, streams: 4, file_size: 1 GiB
    file_size: given 1 GiB with streams 4, source_content random, layer disk_to_disk, allowed: at most 819 MiB: 10
        files in 8 GiB, free at /var/lib/tpcsweep (disk in config/testbeds/one.yaml)
"""


@pytest.mark.parametrize(("parameters", "messages"), cases(REFUSED))
def test_what_a_tool_cannot_do(root: Path, parameters: str, messages: list[str]) -> None:
    said = [f"config/sweeps/one.yaml: parameters.{message}" for message in messages]
    assert problems(root, f"parameters: {{{parameters}}}") == said


def test_memory_is_no_disk_and_files_on_a_disk_need_no_memory(root: Path) -> None:
    assert problems(root, "parameters: {layer: memory_to_disk}", disk_kind="tmpfs") == [
        "config/sweeps/one.yaml: parameters.layer: given memory_to_disk, allowed: network or memory_to_memory: "
        "/var/lib/tpcsweep (disk in config/testbeds/one.yaml) is on tmpfs, which is memory"
    ]
    sweep = "parameters: {layer: disk_to_disk, source_content: random, file_size: 512 MiB}"
    assert problems(root, sweep, memory=1024) == []


@pytest.mark.parametrize(
    "parameters",
    [
        "tool: [curl, native], encryption: [usual, tls, none], authorization: [usual, macaroons, none]",
        "tool: [gfal-copy, gfal2, davix-get], encryption: [usual, tls, none], authorization: none",
        "tool: curl, encryption: none, origins: 2, endpoint: direct",
        "tool: xrdcp, encryption: [usual, none], authorization: [usual, none], origins: 2",
        *(f"tool: {t.name}, copy_mode: {t.copy_modes[0]}, layer: {t.layers[0]}" for t in TOOLS.values()),
    ],
)
def test_every_tool_and_data_in_the_clear_can_be_had(root: Path, parameters: str) -> None:
    assert problems(root, f"parameters: {{{parameters}}}") == []


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

    answers = 1000  # over one connection

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []  # of the macaroon requests
        self.connections = 0
        self.closed = asyncio.Event()  # a connection, on both sides
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for _ in range(self.answers):
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("Content-Length", 0)))
                self.asked.append((first, headers))
                self.bodies += [body] if first.startswith("POST") else []
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


def copies(
    secrets: Path, answer: Answer, count: int = 1, authorization: str = "usual", **asked: Any
) -> tuple[list[str | None], Server]:
    """One transfer after another; how they ended, and what the server saw."""

    async def run() -> tuple[list[str | None], Server]:
        server = Server(answer)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(secrets / "host.pem", secrets / "host.key")
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
        server.url = url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/data"
        copier, ended = Copier(Credentials(secrets, authorization)), []
        for number in range(count):
            transfer = Transfer(f"{url}/source", f"{url}/{number}", **{"copy_mode": "pull", **asked})
            ended.append(await copier.copy(transfer))
            if server.answers == 1:
                await asyncio.wait_for(server.closed.wait(), 60)
        listening.close()  # and not `async with`: since Python 3.12 that waits for clients, which keep connections
        return ended, server

    return asyncio.run(run())


def test_transfers_share_macaroons_and_a_connection(secrets: Path) -> None:
    ended, server = copies(secrets, lambda _: chunked(MARKER.format(5), "success: Created\n"), count=4)
    assert ended == [None] * 4
    # Both ends are one folder, and each may do its part alone.
    source, destination = '["activity:DOWNLOAD,LIST"]', '["activity:UPLOAD,LIST"]'
    wanted = [f'{{"caveats": {rights}, "validity": "PT1H"}}'.encode() for rights in (destination, source)]
    assert server.bodies == wanted
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
        ({"scitag": 66}, "0", {"SciTag": "66", "TransferHeaderSciTag": "66"}, "Destination"),
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
        (chunked(MARKER.format(5), "failure: no space\n", "on disk 1\n\n2"), "failure: no space on disk 1 2"),
        (chunked("not found", status="404 Not Found"), "HTTP 404 Not Found: not found"),
        (chunked("success: Created", status="300 Choices"), "HTTP 300 Choices: success: Created"),
        (chunked(MARKER.format(5)), "the answer ends without a result: End"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "HTTP 403 Forbidden"),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "the answer ends without a result"),
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
    monkeypatch.setattr(http, "PATIENCE", 0.3)
    [first, second, third, last], server = copies(secrets, lambda _: answers.pop(0), count=4)
    assert "has not answered for" in str(first)
    assert "closed the connection before the end of an answer" in str(third)
    assert second is last is None
    assert len(server.copies) == 4  # what may have begun is not sent again


def test_a_connection_that_the_server_closed_meanwhile_is_made_again(secrets: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Server, "answers", 1)
    ended, server = copies(secrets, lambda _: DONE, count=2)
    assert (ended, len(server.copies)) == ([None, None], 2)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (b"403 No", b"nope"),
        (b"200 OK", b'{"macaroon": null}'),
        # A line break would add a header to the COPY of the other end.
        (b"200 OK", rb'{"macaroon": "m1\r\nOverwrite: T"}'),
    ],
)
def test_an_answer_without_a_macaroon_fails_the_transfer_and_the_next_one_asks_again(
    secrets: Path, monkeypatch: pytest.MonkeyPatch, status: bytes, body: bytes
) -> None:
    refusal = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
    monkeypatch.setattr("tests.unit.test_tools.MACAROON", refusal)
    ended, server = copies(secrets, lambda _: b"", count=2)
    assert all(f"gave no macaroon: HTTP {status.decode()}: {body.decode()}" in str(one) for one in ended)
    assert [first.split()[0] for first, _ in server.asked] == ["POST", "POST"]


LINE = st.sampled_from(["", "failure: a", "Perf Marker", "End"]) | st.text(alphabet="ab :1", max_size=8)
LINES = st.lists(LINE | st.sampled_from([12, 7]).map(" Stripe Bytes Transferred: {}".format), max_size=12)
BODIES = LINES.map(lambda lines: "\n".join(lines).encode())


@given(BODIES, st.lists(st.integers(0, 200), max_size=10))
def test_a_body_says_the_same_in_whatever_pieces_it_comes(body: bytes, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(body)) for cut in cuts), len(body) + 1})
    whole, pieces = Progress(), Progress()
    whole.feed(body + b"\n")
    grown = [pieces.feed((body + b"\n")[a:b]) for a, b in pairwise(places)]
    assert (pieces.bytes, pieces.last) == (whole.bytes, whole.last)
    assert any(grown) == (whole.bytes > 0)
    lines = [line.strip() for line in body.split(b"\n") if line.strip()]
    reason = next((lines[at:] for at, line in enumerate(lines) if line.startswith(b"failure:")), lines[-1:])
    assert whole.last == b" ".join(reason)
