# SPDX-License-Identifier: Apache-2.0
import math
import os
import re
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from tpcsweep.xrootd import credentials, releases
from tpcsweep.xrootd import servers as xrootd
from tpcsweep.xrootd.monitoring import LATE

from tests.support.releases import folder_of

FOLDER, ROOT, SECRETS = Path("/run/x/nodes"), Path("/run/x/data"), Path("/run/x/credentials")
XRDCP = ["/usr/bin/xrdcp"]
ALONE, [ORIGIN] = xrootd.side("src", "10.0.0.1", ["10.0.0.1"], FOLDER, ROOT)
MANAGER, ORIGINS = xrootd.side("dst", "10.0.0.1", ["10.0.0.11", "10.0.0.12"], FOLDER, ROOT)
assert MANAGER


def text(server: xrootd.Server) -> str:
    return xrootd.configuration(server, SECRETS)


def test_one_origin_stands_alone_and_serves_by_tls_and_macaroons() -> None:
    assert (ALONE, ORIGIN.programs, ORIGIN.url) == (None, ("xrootd",), "https://10.0.0.1:8080/data")
    assert "all.manager" not in text(ORIGIN)
    for line in ("xrd.tls ", "http.exthandler xrdtpc", "http.exthandler xrdmacaroons", "macaroons.secretkey"):
        assert line in text(ORIGIN)


def test_several_origins_report_to_their_redirector() -> None:
    assert [origin.name for origin in ORIGINS] == ["dst1", "dst2"]
    assert "all.role manager" in text(MANAGER)
    assert "cms.dfs lookup central redirect immed" in text(MANAGER)
    for server in (MANAGER, *ORIGINS):
        assert "all.manager 10.0.0.1:1213" in text(server)
        assert server.programs == ("cmsd", "xrootd")
    assert len({server.folder for server in (MANAGER, *ORIGINS)}) == 3


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    manager, (first, _) = xrootd.side("src", "fd00::1", ["fd00::11", "fd00::12"], FOLDER, ROOT)
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
