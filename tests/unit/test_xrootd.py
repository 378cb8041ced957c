# SPDX-License-Identifier: Apache-2.0
"""XRootD's configuration and releases, and the start and the end of servers."""

import math
import os
import re
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import get_args, get_type_hints
from unittest import mock

import pytest
from tpcsweep.deploying.xrootd import credentials, obtaining, releases
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.flows import parse_packet
from tpcsweep.deploying.xrootd.monitoring import LATE
from tpcsweep.deploying.xrootd.releases import Release, ReleaseError
from tpcsweep.measuring.provenance import workflow
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.netns.namespace_servers import DeploymentProcess
from tpcsweep.testbeds.node import serving

from tests.support.releases import folder_of

FOLDER, ROOT, SECRETS = Path("/run/x/nodes"), Path("/run/x/data"), Path("/run/x/credentials")
XRDCP = ["/usr/bin/xrdcp"]
_, [ORIGIN] = xrootd.side_servers("src", "10.0.0.1", ["10.0.0.1"], FOLDER, ROOT)
MANAGER, ORIGINS = xrootd.side_servers("dst", "10.0.0.1", ["10.0.0.11", "10.0.0.12"], FOLDER, ROOT)
assert MANAGER


def text(server: xrootd.Server) -> str:
    return xrootd.configuration(server, SECRETS)


def test_several_origins_report_to_their_redirector() -> None:
    assert {"all.role manager", "cms.dfs lookup central redirect immed"} <= {*text(MANAGER).splitlines()}
    assert all("all.manager 10.0.0.1:1213" in text(server) for server in (MANAGER, *ORIGINS))
    assert len({server.folder for server in (MANAGER, *ORIGINS)}) == 3
    assert "all.manager" not in text(ORIGIN)


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    manager, (first, _) = xrootd.side_servers("src", "fd00::1", ["fd00::11", "fd00::12"], FOLDER, ROOT)
    assert manager and first.url == "https://[fd00::11]:8080/data"
    assert "all.manager [fd00::1]:1213" in text(first)
    for server in (manager, first, ORIGIN):
        assert xrootd.parts_of(server.place) == (server.address, 8080)


def test_what_xrootd_times_is_seldom_due_all_at_once() -> None:
    # Where all of it is, its timer may sleep through what is put before it: records of copies came minutes late.
    flushed = dict(re.findall(r"mongstream (\w+) use flush (\d+)s", text(ORIGIN)))
    assert flushed["tpc"] == "1"
    assert math.lcm(*map(int, flushed.values())) >= 30
    assert max(map(int, flushed.values())) <= LATE


def test_the_root_protocol_is_served_where_it_is_asked_for_and_cmsd_sees_nothing_of_xrootds() -> None:
    wanted = xrootd.configuration(ORIGINS[0], SECRETS, XRDCP)
    assert "sec.protocol unix" in wanted and "sec.protocol unix" not in text(ORIGINS[0])
    before, _, rest = wanted.partition("if exec xrootd\n")
    of_cmsd = before + rest.partition("fi\n")[2]
    assert not [word for word in ("ofs.tpc", "http.", "xrd.tls") if word in of_cmsd]


def test_everybody_is_let_in_where_nobody_is_to_be_authorized() -> None:
    for server in (MANAGER, ORIGINS[0]):
        let_in = xrootd.configuration(server, SECRETS, XRDCP, authorization="none")
        assert "http.exthandler xrdtpc" in let_in
        assert not [word for word in ("ofs.auth", "acc.", "acaroons", "gridmap", "sec.") if word in let_in]
        assert xrootd.configuration(server, SECRETS, authorization="macaroons") == text(server)


def test_no_limit_of_a_server_is_below_the_streams_of_a_cell() -> None:
    wanted = xrootd.configuration(ORIGIN, SECRETS, XRDCP)
    for line in (
        "ofs.tpc ttl 120 600 xfr 1000 pgm /usr/bin/xrdcp",
        "xrootd.chksum max 1000 adler32 crc32c md5",
    ):
        assert f"\n{line}" in wanted
    known = workflow({"software": {}, "xrootd": {"version": "6.2.1"}})["xrootd"]
    assert known == {"version": "6.2.1", "limits": xrootd.LIMITS}
    offered = get_type_hints(Parameters, include_extras=True)["checksum"]
    assert set(get_args(get_args(offered)[0])) == {"none", *xrootd.CHECKSUMS}


PACKET = (
    b'<134>1 - vm xrootd - firefly-json - {"version":1,"flow-lifecycle":{"state":"%s"},'
    b'"context":{"experiment-id":1,"activity-id":2,"application":"http-get"}}\n'
)


def test_packets_of_scitags_are_read_at_the_end_of_flows() -> None:
    assert [parse_packet(PACKET % state) for state in (b"start", b"end")] == [None, 66]
    for other in (b"", b"<134>1 - vm", PACKET.replace(b"activity-id", b"activity") % b"end"):
        with pytest.raises(ValueError, match="not a packet of SciTags"):
            parse_packet(other)


@pytest.mark.parametrize(("version", "client"), [("6.2.1", True), ("6.1.1", False), ("5.8.1", False)])
def test_releases_with_a_client_for_http_are_built_with_it(version: str, client: bool) -> None:
    plugins, options = obtaining.recipe(version)
    assert ({"XrdClHttp", "XrdOssMirage"} < set(plugins)) == client
    last = [option for option in options if "XRDCLHTTP" in option][-1]
    assert last == f"-DENABLE_XRDCLHTTP={'ON' if client else 'OFF'}"


def test_a_release_that_cannot_confirm_copies_is_refused(tmp_path: Path) -> None:
    for version in ("5.5.0", "5.10.1", "6.2.0"):
        xrootd.require_recent(releases.release_in("this", folder_of(tmp_path / version, f"v{version}")))
    for version in ("5.4.3", "4.12.7"):
        told = re.escape(f"xrootd this is {version}, allowed: 5.5.0 or later")
        with pytest.raises(releases.ReleaseError, match=told):
            xrootd.require_recent(releases.release_in("this", folder_of(tmp_path / version, f"v{version}")))


def context(purpose: ssl.Purpose, folder: Path, name: str) -> ssl.SSLContext:
    """As Python 3.13 makes it, whatever Python this is: chains must be as RFC 5280 has them."""
    made = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return made


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1"])
def test_server_and_user_accept_each_other_by_the_strict_rules(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    credentials.create_credentials(folder, [address], (os.getuid(), os.getgid()))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(ssl.Purpose.SERVER_AUTH, folder, "user").wrap_bio(down, up, server_hostname=address)
    server = context(ssl.Purpose.CLIENT_AUTH, folder, "host").wrap_bio(up, down, server_side=True)
    for _ in range(4):  # each goes on until it waits for the other
        for end in (client, server):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    peer = server.getpeercert()
    assert peer and (("commonName", credentials.USER),) in peer["subject"]


def test_each_version_has_a_hash_and_all_can_be_named() -> None:
    known = releases.known_releases(["patched"])
    assert known[:2] == ["system", "patched"]
    assert {"5.5.3", "5.8.1", "5.9.9", "6.2.0", "5.8.1-source"} < set(known)
    assert len(known) == len(set(known))
    # It comes in seconds, everywhere.
    assert releases.RECOMMENDED in releases.DEBIAN.keys() < releases.sources().keys()


def test_a_release_is_started_by_its_loader_or_its_own_libraries_or_is_the_systems(tmp_path: Path) -> None:
    assert Release("system").command("cmsd") == [shutil.which("cmsd") or "cmsd"]
    folder = folder_of(tmp_path / "x", "v6.3.0-rc1", "lib64")
    made = releases.release_in("patched", folder)
    _, libraries, *_, program = made.command("xrootd")
    assert f"{folder}/lib64" in libraries and program == str(folder / "bin/xrootd")
    assert made.version() == "6.3.0-rc1"
    (folder / "loader").mkdir()
    (folder / "loader/cmsd").touch()
    paths = ["--library-path", f"{folder}/lib:{folder}/lib64"]
    assert made.command("cmsd") == [f"{folder}/loader/cmsd", "--argv0", "cmsd", *paths, f"{folder}/bin/cmsd"]


@pytest.mark.parametrize("said", ["", "Segmentation fault", "version 5"])
def test_a_program_that_does_not_say_its_version_is_refused(said: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"xrootd odd: .* allowed: a version such as v5\.9\.9"):
        releases.release_in("odd", folder_of(tmp_path / "x", said)).version()


def test_a_sites_folder_is_recorded_with_the_hash_of_what_is_in_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "x", "v6.3.0")
    first = obtaining.obtain("mine", {"mine": folder}, print).describe()
    assert (first["release"], first["version"]) == ("mine", "6.3.0")
    (folder / "lib/libXrdHttp-6.so").write_bytes(b"patched")
    assert obtaining.obtain("mine", {"mine": folder}, print).describe()["digest"] != first["digest"]


def test_what_the_cache_has_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path))
    assert obtaining.to_build("6.2.0", {})
    assert not any(obtaining.to_build(name, {"6.9": tmp_path}) for name in ("system", "5.8.1", "6.9"))
    place = obtaining._place("6.2.0")
    folder_of(place, "v6.2.0")
    assert not obtaining.to_build("6.2.0", {})
    assert obtaining.obtain("6.2.0", {}, print).folder == place


def test_what_cannot_be_obtained_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "x", "v1.2.3")
    (folder / "bin/cmsd").unlink()
    with pytest.raises(ReleaseError, match=r"xrootd mine: .*/bin/cmsd is not there: allowed is a folder"):
        obtaining.obtain("mine", {"mine": folder}, print)
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ReleaseError, match=r"xrootd 9\.9\.9: no source archive .*envs/xrootd\.txt"):
        obtaining.obtain("9.9.9", {}, print)
    assert [path.name for path in (tmp_path / "cache/xrootd").iterdir()] == ["lock"]
    monkeypatch.setenv("TPCSWEEP_CACHE", str(tmp_path / "cache/xrootd/lock"))
    with pytest.raises(ReleaseError, match="TPCSWEEP_CACHE names another"):
        obtaining.obtain("6.2.0", {}, print)


STARTED = "src1 cmsd, src2 cmsd, src1 ready, src1 xrootd, src2 ready, src2 xrootd"


@pytest.mark.parametrize(
    ("origins", "expected"), [(1, "src1 xrootd"), (2, f"srcm cmsd, srcm ready, srcm xrootd, {STARTED}")]
)
def test_redirectors_start_before_origins_and_cmsd_before_xrootd(origins: int, expected: str) -> None:
    side = xrootd.side_servers("src", "a", ["b", "c"][:origins], Path(), Path())
    seen: list[str] = []
    start = lambda server, program: seen.append(f"{server.name} {program}")  # noqa: E731
    serving.start_servers(side.servers, start, lambda server: start(server, "ready"))
    assert ", ".join(seen) == expected


def test_a_side_is_ready_when_its_redirector_has_sent_to_each_origin() -> None:
    get = mock.Mock(side_effect=[(0, ""), (200, ""), (200, ""), (307, "b:1"), (307, "b:1"), (307, "c:1")])
    for probe in serving.probes("a:1", ["b:1", "c:1"], get):
        while not probe.ready():
            pass
    assert [call.args for call in get.call_args_list] == [(f"{name}:1",) for name in "bbcaaa"]


@pytest.mark.parametrize(
    ("command", "how"), [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 3", "ended with exit code 3")]
)
def test_how_a_process_has_ended_with_its_last_words(tmp_path: Path, command: str, how: str) -> None:
    own, stderr = tmp_path / "own.log", tmp_path / "stderr.log"
    with subprocess.Popen(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE) as child:
        process = DeploymentProcess("dst1: xrootd", child, (own, stderr))
        assert process.end() is None
        child.stdin.close()
        child.wait()
    assert process.end() == f"dst1: xrootd {how}"
    stderr.write_text("cannot be configured\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: cannot be configured"
    own.write_text("started\nCOPY with Bearer MDAxsecret\n\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: COPY with Bearer [removed]"
