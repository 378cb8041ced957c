# SPDX-License-Identifier: Apache-2.0
"""Endpoints without servers: settings that are refused, the budget, and bytes as they are known from outside."""

import asyncio
import math
import os
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tpcsweep.common.urls import NewFolder, folder_url, made_up
from tpcsweep.deploying.xrootd.credentials import create_credentials
from tpcsweep.measuring.tools.http_tpc import Progress, failure
from tpcsweep.measuring.tools.native import Copier
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials, Transfer, shortened
from tpcsweep.sweeps.problems import ConfigurationError, validated
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Sweep, expand
from tpcsweep.testbeds.endpoints import secrets
from tpcsweep.testbeds.endpoints.checks import check
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.fixes import explained, explained_copy
from tpcsweep.testbeds.endpoints.local import LocalDoors
from tpcsweep.testbeds.endpoints.pairs import Login
from tpcsweep.testbeds.endpoints.root import RootDoors
from tpcsweep.testbeds.endpoints.settings import Budget, Endpoints
from tpcsweep.testbeds.endpoints.spans import Span, arrived, known_until, split
from tpcsweep.testbeds.endpoints.spending import BudgetError, Spending
from tpcsweep.testbeds.endpoints.webdav import HttpDoors

from tests.support.front import serving

MIB = 1 << 20


def settings(url: str = "davs://a.example/x", **changes: Any) -> Endpoints:
    ends = {"source": {"urls": [url]}, "destination": {"urls": ["https://b.example:2880/y/"]}}
    pair = {"name": "a-b", **ends, **changes.pop("pair", {})}
    content = {"kind": "endpoints", "budget": {"bytes": MIB, "time": 60}, "max_streams": 4, "pairs": [pair]}
    return Endpoints.model_validate({**content, **changes})


PCHAR = st.sampled_from([*"aZ09-._~!$&'()*+,;=:@", "%20", "%41", "%7e", "%C3%a9", "%25", "%2F", "%3B", "%00"])
ODD = st.sampled_from([*' é\\{}|^`<>"\t', "日本", "\u202e"])
NAMES = st.lists(PCHAR, min_size=1, max_size=300).map("".join) | st.lists(PCHAR | ODD, max_size=5).map(
    "".join
)
HOSTS = st.sampled_from([
    *("a", "SE.Example.org", "a.example.", "10.0.0.1", "[::1]", "[2001:DB8::a]", "a_b.c", "xn--bcher-kva.example"),
    *("a..b", "bücher.example", "[fe80::1%25eth0]", "[::1", "-a", "a" * 64, "a." * 127 + "b", "me@a", ""),
])  # fmt: skip
PORTS = st.sampled_from(["", ":", ":443", ":0443", ":65535", ":0", ":65536", ":x", ":-1", ":٣"])
URLS = st.tuples(
    st.sampled_from(["davs", "https", "HTTPS", "http", "root", "roots", "gsiftp"]),
    HOSTS,
    PORTS,
    st.lists(NAMES, max_size=4).map("/".join),
    st.sampled_from(["", "/", "//", "?x=1", "#x"]),
)


@given(URLS)
def test_every_url_has_one_form_or_is_refused_by_name(parts: tuple[str, ...]) -> None:
    scheme, host, port, path, end = parts
    given = f"{scheme}://{host}{port}/{path}{end}"
    try:
        found = folder_url(given)
    except ValueError as error:
        named = [
            word for word in ("host", "user", "path", "? and #", "URL of a folder") if word in str(error)
        ]
        assert named, error
        return
    assert found == folder_url(found), "one form"
    sent, asked = urlsplit(found), urlsplit(given)
    assert sent.scheme == {"davs": "https"}.get(scheme, scheme.lower())
    assert (sent.hostname, sent.port) == ((asked.hostname or "").removesuffix("."), asked.port)
    assert unquote_to_bytes(sent.path).strip(b"/") == unquote_to_bytes(asked.path).strip(b"/")
    assert (found.isascii() and found.isprintable() and not found.endswith("/")) or scheme.startswith("root")
    assert len(sent.path) <= 3 * 4096 and all(len(unquote(part)) <= 255 for part in sent.path.split("/"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("davs://a/x y", "write x%20y"),
        ("davs://a/é", "write %C3%A9"),
        ("davs://a/x(1)", "write x%281%29"),
        ("davs://bücher.example/x", "IDNA"),
        ("davs://[fe80::1%25eth0]/x", "host or host:port"),
        (f"davs://a/{'x' * 256}", "at most 255 bytes between slashes"),
        (f"davs://a/{'/'.join(['x' * 200] * 20)}", "at most 3840 bytes"),
    ],
)
def test_a_refused_name_comes_with_its_remedy(url: str, why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(url)
    assert why in str(refused.value)


def test_a_source_file_may_have_encodings_where_they_are_decoded() -> None:
    file = "run%201/data%281%29.root"
    settings(pair={"source": {"urls": ["davs://a.example/x"], "file": file}})
    for ends in (("root://a/x", "root://b/y"), ("file:///x", "davs://b/y")):
        with pytest.raises(ValidationError, match="only HTTP decodes it"):
            settings(pair={
                "source": {"urls": [ends[0]], "file": file}, "destination": {"urls": [ends[1]]}
            })  # fmt: skip


LOCAL, ROOT_URL = {"urls": ["file:///y"]}, {"urls": ["roots://b.example//y/"]}
KEY = {"certificate": "c", "key": "k"}


@pytest.mark.parametrize(
    ("url", "changes", "why"),
    [
        ("gsiftp://a.example/x", {}, "URL of a folder"),
        ("file://a/x", {}, "URL of a folder"),
        ("file:///", {}, "URL of a folder"),
        ("davs://", {}, "URL of a folder"),
        ("davs://a/x?authz=secret", {}, "URL of a folder"),
        *(
            (f"davs://a.example/{path}", {}, "without .* between two slashes")
            for path in ("a//b", "../b", "a/./b", "%2e%2e/b", "/a", "a//")
        ),
        *(
            (f"https://a.example/a{mark}b", {}, "others as %XX, but never")
            for mark in (
                "%2f",
                "%2F",
                "%5c",
                "%23",
                "%3f",
                "%00",
                "%0a",
                "%25",
                "%zz",
                ";",
                " ",
                "é",
                "\\",
                "\n",
                "{b}",
            )
        ),
        *((f"davs://a.example/a{mark}b", {}, "without . and #") for mark in ("#", "?")),
        ("root://a.example//a b", {}, "root:// only letters"),
        ("root://a.example//a%20b", {}, "root:// only letters"),
        ("root://a.example/", {}, "without .* between"),
        ("file:///x/../y", {}, "without .* between"),
        ("file:///x#1", {}, "in a local path"),
        ("davs://me:secret@a.example/x", {}, "credentials belong in"),
        *(
            (f"davs://{host}/x", {}, "host or host:port")
            for host in ("a:0", "a:99999", "a:b", "-a", "a b", "[g]")
        ),
        ("davs://a/x", {"pair": {"source": {"urls": ["davs://a/x"], "file": "../b"}}}, "between two slashes"),
        *(
            ("http://a.example/x", {"credentials": login}, "anyone on the path can read")
            for login in ({"token_file": "t"}, {"token_command": "t"}, {"proxy": "p"}, KEY)
        ),
        (
            "davs://a/x",
            {
                "pair": {"destination": {"urls": ["http://127.0.0.1/y"], "credentials": {}}},
                "credentials": {"token_file": "t"},
            },
            "anyone on the path can read",
        ),
        ("root://a.example/x", {}, "for both ends"),
        ("root://a.example/x", {"pair": {"destination": ROOT_URL}, "credentials": KEY}, "a proxy"),
        # A local folder needs a server at the other end and a credential that its tools can show.
        ("file:///x", {"pair": {"destination": LOCAL}}, "a server at one end"),
        ("file:///x", {"pair": {"source": {"urls": ["file:///x", "davs://a/x"]}}}, "one URL for a local"),
        ("file:///x", {"pair": {"source": LOCAL | {"credentials": {}}}}, "those of the other end"),
        ("root://a/x", {"pair": {"destination": LOCAL}}, "for davix-get"),
        ("file:///x", {"credentials": {"token_file": "t"}}, "a proxy, or certificate and key"),
    ],
)
def test_settings_that_no_tool_can_use_are_refused(url: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        settings(url, **changes)


def test_a_secret_in_a_url_is_not_repeated() -> None:
    for url in ("davs://me:secret@a.example/x", "davs://a.example/x?authz=secret"):
        with pytest.raises(ConfigurationError, match=r"testbed\.yaml: pairs") as refused:
            validated(Endpoints, {"pairs": [{"name": "a", "source": {"urls": [url]}}]}, "testbed.yaml")
        assert "secret" not in str(refused.value)


def test_a_pair_by_the_root_protocol_has_one_form() -> None:
    pair = settings("root://a.example:1094/x", pair={"destination": ROOT_URL}).pairs[0]
    assert (*pair.source.urls, *pair.destination.urls) == ("root://a.example:1094//x", "roots://b.example//y")


@pytest.mark.parametrize(
    ("ends", "tool", "allowed"),
    [
        (("root://a/x", "root://b/y"), "curl", "xrdcp with the root URLs"),
        (
            ("davs://a/x", "davs://b/y"),
            "davix-put",
            "or xrdcp-http with the https URLs of this pair (two serv",
        ),
        (("file:///x", "davs://b/y"), "curl", "davix-put with the https URLs of this pair (a local source)"),
        (("file:///x", "root://b/y"), "davix-put", "xrdcp-direct with the root URLs"),
        (("davs://a/x", "file:///y"), "davix-put", "davix-get with the https URLs of this pair (a local"),
    ],
)
def test_a_tool_for_another_protocol_or_other_ends_is_refused(ends: Any, tool: str, allowed: str) -> None:
    testbed = settings(ends[0], pair={"destination": {"urls": [ends[1]]}})
    how = {"until": "files", "files": 1, "max_time": 10}
    parameters = {"tool": tool, "pair": "a-b", "file_size": 1024, "copy_mode": TOOLS[tool].copy_modes[0]}
    sweep = Sweep.model_validate({"parameters": parameters, "measurement": how, "retry_share": 0})
    files = ("s.yaml", "t", testbed, "t.yaml", Path("results"))
    [problem] = check(SweepStudy("s", sweep, *files, expand(sweep), requested={}))
    assert problem.key == "parameters.tool"
    assert allowed in problem.allowed


def test_a_local_folder_has_the_credentials_of_the_other_end() -> None:
    end = {"urls": ["root://b/y"], "credentials": {"token_file": "t"}}
    testbed = settings("file:///x/", pair={"destination": end})
    assert testbed.pairs[0].source.urls == ("file:///x",)
    assert {login.token_file for login in testbed.logins(testbed.pairs[0]).values()} == {"t"}


def test_local_folders_answer_like_servers(tmp_path: Path) -> None:
    doors, new = LocalDoors(), NewFolder(f"file://{tmp_path}/new", made_up())
    assert doors.names(new) is doors.size(f"{new.url}/file") is None
    assert not doors.lists(new.url)
    assert doors.clear(new) == 0
    with pytest.raises(DoorError, match="No such file"):
        doors.make_folder(new)
    (tmp_path / "new").mkdir()
    made = doors.make_folder(new)
    with pytest.raises(DoorError, match="File exists"):
        doors.make_folder(new)
    file = made.file("file")
    doors.upload(file, lambda: [b"a", b"bc"], 3)
    assert (doors.names(made), doors.size(file.url)) == (["file"], 3)
    assert doors.download(file.url) == b"abc"
    assert doors.checksum(file.url) == "adler32=024d0127"
    assert doors.clear(new) == 0, "its creation is not confirmed, and it is not empty"
    assert doors.clear(made) == 1
    assert doors.delete(file) is False
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("missing", ["budget", "max_streams"])
def test_nothing_runs_without_limits(missing: str) -> None:
    content = settings().model_dump(exclude={missing})
    with pytest.raises(ValidationError, match=missing):
        Endpoints.model_validate(content)


def test_the_most_bytes_follow_from_files_or_from_a_declared_bandwidth() -> None:
    def most(how: dict[str, Any], testbed: Endpoints) -> float:
        parameters = {"streams": [1, 3], "file_size": MIB, "pair": "a-b"}
        sweep = Sweep.model_validate({"parameters": parameters, "measurement": how, "retry_share": 0.5})
        return testbed.most_bytes(expand(sweep))

    # Two cells of 2 and 6 files, the larger once more, and the source file.
    assert most({"until": "files", "files": 2, "max_time": 60}, settings()) == 15 * MIB
    seconds = {"until": "seconds", "seconds": 10}
    assert most(seconds, settings()) == math.inf
    assert most(seconds, settings(pair={"bandwidth": 1})) == 3 * 10 * 125e6 + MIB


def test_bytes_of_files_are_spread_over_their_transfers() -> None:
    spans = [Span(0, 0.0, 2.0, 200), Span(1, 1.0, 3.0, 400), Span(0, 2.5, 3.5, 0)]
    times = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 9.0])
    assert arrived(times, spans) == pytest.approx([0, 0, 100, 400, 600, 600])
    assert list(arrived(np.array([1.0]), [])) == [0]


def test_bytes_are_known_until_the_last_file_of_the_stream_that_is_furthest_behind() -> None:
    spans = [Span(0, 0.0, 2.0, 1), Span(1, 0.0, 3.0, 1), Span(0, 2.0, 5.0, 1)]
    assert known_until(spans, 2) == 3.0
    assert known_until(spans, 3) == -math.inf


def test_markers_split_transfers_and_show_those_under_way() -> None:
    spans = [Span(0, 0.0, 12.0, 100), Span(1, 0.0, 7.0, 0)]  # the second one failed
    rows = [(0, 0.0, 5.0, 20), (1, 0.0, 5.0, 50), (0, 0.0, 10.0, 110), (0, 12.0, 17.0, 30)]
    markers = [dict(zip(("stream", "start", "time", "bytes"), row, strict=True)) for row in rows]
    # The second marker has more than the file's size.
    parts = [Span(0, 0.0, 5.0, 20), Span(0, 5.0, 10.0, 80), Span(0, 10.0, 12.0, 0)]
    found = split(spans, markers, 100)
    assert sorted(found) == [*parts, Span(0, 12.0, 17.0, 30), Span(1, 0.0, 7.0, 0)]
    assert known_until(found, 2) == 7.0
    assert split(spans, [], 100) == spans


def test_streams_use_every_door_of_both_ends_by_https_without_a_slash_at_its_end() -> None:
    [pair] = settings(pair={"source": {"urls": ["davs://a1/x", "https://a2/x/"]}}).pairs
    assert pair.doors == [(f"https://{name}/x", "https://b.example:2880/y") for name in ("a1", "a2")]


@pytest.mark.parametrize(
    ("failure", "fix"),
    [
        ("MKCOL https://a/x: HTTP 401 Unauthorized", "renew"),
        ("exit code 0: failure: Remote side failed with status code 403", "ask for the right"),
        ("PUT https://a/x: HTTP 507 Insufficient Storage", "full"),
        ("failure: No space left on device", "full"),
        *(
            (f"failure: {words} the peer", "its log")
            for words in ("Failed sending data to", "Failure when receiving data from")
        ),
        ("HTTP 503 Service Unavailable", "fewer streams"),
        ("GET https://a/x%20y/tpcsweep-1/file: HTTP 404 Not Found", "letters and digits"),
        (
            "failure: Error fetching https://a/x%20y/f: 404 status code: 404, reason phrase",
            "letters and digits",
        ),
        ("GET https://a/x/f: HTTP 404 Not Found", ""),
        ("GET https://a/x: unable to get local issuer certificate", "set ca"),
        (
            "PUT https://a/x: [SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN] sslv3 alert certificate unknown",
            "your cert",
        ),
        (
            "https://a/x: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
            "your cert",
        ),
        ("a.example:4030: connection reset at 14031 bytes", ""),
    ],
)
def test_failures_say_what_to_do(failure: str, fix: str) -> None:
    text = explained(failure)
    assert text.startswith(failure)
    assert fix in text.removeprefix(failure)
    assert explained(text) == text
    assert fix or text == failure


UNTRUSTED = "SSL certificate problem: unable to get local issuer certificate"


@pytest.mark.parametrize(
    ("failure", "mode", "fix"),
    [
        (
            f"HTTP 500 Error: Failure: {UNTRUSTED}",
            "pull",
            "destination's server does not trust the source's CA",
        ),
        (f"exit code 0: failure: {UNTRUSTED}", "push", "source's server does not trust the destination's CA"),
        (f"exit code 60: curl: (60) {UNTRUSTED}", "pull", "set ca"),
        (
            "failure: SSL certificate problem: certificate has expired",
            "pull",
            "the destination's server finds the source's certificate outside its dates",
        ),
        (
            "failure: SSL: no alternative certificate subject name matches target host name 'se.example'",
            "push",
            "the source's server misses the destination's name in its certificate",
        ),
        # As StoRM WebDAV 1.8.1 has them.
        *(
            (f"failure: SSLHandshakeException while pushing {words}", "push", f"the source's server {fix}")
            for words, fix in (
                ("https://b/…: Trusted issuer of this certificate was not established", "does not trust"),
                ("https://b/…: Certificate has expired on: Sun Nov 29 09:00:00 UTC 2026", "finds the dest"),
                (
                    "to https://b/…: Certificate for <b> doesn't match any of the subject alternative",
                    "misses",
                ),
            )
        ),
        ("curl: (60) SSL certificate problem: certificate has expired", "pull", "to renew it, or set"),
        ("a:1: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable", "pull", "set ca"),
        ("failure: Remote side failed with status code 403", "pull", "the source refuses the destination's"),
        ("failure: Remote side failed with status code 401", "push", "the destination refuses the source's"),
        ("HTTP 401 Unauthorized: ", "pull", "does not accept the credential"),
        ("HTTP 403 Forbidden: ", "pull", "ask for the right"),
    ],
)
def test_the_fix_of_a_copy_names_the_end_that_refuses(failure: str, mode: str, fix: str) -> None:
    text = explained_copy(failure, mode)
    assert text.startswith(f"{failure}. Fix: ")
    assert fix in text
    assert explained_copy(text, mode) == text


WORDS = f"failure: no route\n{'to ' * 200}b.example: Trusted issuer was not established"
BROKEN_OFF = b"%x\r\n%s\r\n" % (len(said := f"End\n{WORDS}".encode()), said)
"""A chunk of a COPY's body without the last chunk, as StoRM WebDAV sends it when it cannot push."""


class BreaksOff(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.do_COPY()

    def do_COPY(self) -> None:
        self.send_response(202)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(BROKEN_OFF)
        self.close_connection = True


def test_a_broken_answer_is_reported_with_its_reason(tmp_path: Path) -> None:
    create_credentials(pki := tmp_path / "pki", ["127.0.0.1"], (os.getuid(), os.getgid()))
    (pki / "anonymous").touch()
    credentials = Credentials(pki)
    with serving(BreaksOff, "127.0.0.1", pki) as url:
        copier, transfer = Copier(credentials), Transfer(f"{url}/file", "https://b.example/file", "push")
        door = HttpDoors(credentials, "source")
        by_door = failure(202, "", Progress(door.request("COPY", transfer.source).body).last)
        by_native = asyncio.run(copier.copy(transfer))
        with pytest.raises(DoorError, match="closed the connection before the end of an answer"):
            door.request("GET", transfer.source)
    for told in (by_door, by_native):
        assert told == " ".join(WORDS.split())
        assert len(short := shortened(told)) <= 300
        assert explained_copy(short, "push").endswith("CA: ask its administrator to add it")


def test_spending_is_that_of_one_run_in_all_its_jobs(tmp_path: Path) -> None:
    file, budget = tmp_path / "here.spent", Budget(bytes=10 * MIB, time=60)
    job = Spending(file, "1 2.0", budget, "here")
    job.add(MIB)
    for cell in (2, 3):
        job.begin_cell()
        job.note(cell * MIB)
        job.note(MIB)  # less than before: a count of fewer transfers changes nothing
    job.save()
    other = Spending(file, "1 2.0", budget, "here")
    other.begin_cell()
    other.note(4 * MIB)
    other.check()
    other.note(4 * MIB + 1)
    with pytest.raises(BudgetError, match=r"testbed here: budget\.bytes: .* of 10 MiB"):
        other.check()
    Spending(file, "2 3.0", budget, "here").check()


def test_the_time_of_a_run_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spending = Spending(tmp_path / "here.spent", "1 2.0", Budget(bytes=MIB, time=60), "here")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(BudgetError, match=r"budget\.time: .* 1 min"):
        spending.check()


@pytest.mark.parametrize(("signal", "why"), [("SEGV", "Segmentation fault"), ("KILL", "no end within")])
def test_a_signal_that_ends_a_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: str, why: str
) -> None:
    program = tmp_path / "xrdfs"
    program.write_text(f"#!/bin/sh\nkill -{signal} $$\n")
    program.chmod(0o755)
    doors = RootDoors(Credentials(tmp_path, "none"), "source")
    monkeypatch.setitem(doors._environment, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(DoorError, match=why):
        doors.size("root://localhost:1094//file")


def test_a_token_command_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_SECONDS", 0.05)
    with pytest.raises(secrets.CredentialError, match="token_command did not end"):
        secrets.renew(tmp_path, {"source": Login(token_command="sleep 60")})


@pytest.mark.parametrize("token", ["a\nX-Other: b", "a b", "é"])
def test_a_token_is_the_value_of_one_header_and_never_repeated(tmp_path: Path, token: str) -> None:
    (file := tmp_path / "token").write_text(token)
    for login in (Login(token_file=str(file)), Login(token_command=f"cat {file}")):
        testbed = settings(credentials=login.model_dump())
        refused = pytest.raises(secrets.CredentialError, match=r"token_.*: not one token")
        with refused as error, secrets.written(testbed, testbed.pairs[0]):
            raise AssertionError("written")
        assert token not in str(error.value)
