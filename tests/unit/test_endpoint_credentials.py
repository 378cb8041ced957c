# SPDX-License-Identifier: Apache-2.0
"""Credentials that cannot be used, or not for long enough: each is named with the end that has it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.deploying.xrootd.credentials import create_credentials
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Sweep, expand
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import ledger, secrets, trial, usability, validity
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.interface import Finding

from tests.support.certificates import write_certificate
from tests.support.foreign import Foreign, foreign_door
from tests.support.issuer import Issuer, encoded
from tests.support.storage import deployed

TESTBED = kinds.load_testbed("endpoints")
TOOLS = ("gfal-copy", "curl", "native")
MINE = Issuer("https://issuer.test")


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of doors at 127.0.0.1, and faulty ones next to them."""
    folder = tmp_path_factory.mktemp("certificates") / "pki"
    create_credentials(folder, ["127.0.0.1"], (os.getuid(), os.getgid()))
    return folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(ledger, "LINGER", 0.1)


@pytest.fixture
def door(pki: Path) -> Iterator[Foreign]:
    with foreign_door(pki) as found:
        found.add("/test")
        yield found


def settings(door: Foreign, pki: Path, *, ends: dict[str, Any] | None = None, **changes: Any) -> Endpoints:
    """Settings of a pair at one door; `ends` has more about each end."""
    pair: dict[str, Any] = {"name": "p"}
    for role in usability.ROLES:
        pair[role] = {"urls": [f"{door.url}/test"], **(ends or {}).get(role, {})}
    content = {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    return Endpoints.model_validate({**content, "ca": str(pki / "ca.pem"), "pairs": [pair], **changes})


def sweep_of(testbed: Endpoints, seconds: float = 60, **parameters: Any) -> SweepStudy:
    how = {"until": "files", "files": 1, "max_time": seconds}
    asked = {"pair": [pair.name for pair in testbed.pairs], "tool": "native", "file_size": 1024, **parameters}
    sweep = Sweep.model_validate({"parameters": asked, "measurement": how, "retry_share": 0})
    return SweepStudy("s", sweep, "s.yaml", "mine", testbed, "mine.yaml", Path("results"), expand(sweep), {})


def token(folder: Path, role: str, seconds: float = 3600, **claims: Any) -> dict[str, Any]:
    """The credentials of an end: a token in a file."""
    file = folder / f"{role}.jwt"
    file.touch(0o600)
    file.write_text(MINE.token("https://127.0.0.1", seconds, **claims))
    return {"credentials": {"token_file": str(file)}}


def reasons(rows: list[Finding], status: str = "failed") -> dict[tuple[str, str], str]:
    return {(row.role, row.check): row.reason for row in rows if row.status == status}


@pytest.mark.parametrize("end", usability.ROLES)
@pytest.mark.parametrize(
    ("ahead", "claims", "why"),
    [
        (0, {"seconds": -5}, "token_file: expired at"),
        (0, {"seconds": 60}, "token_file: only valid until"),
        (900, {"seconds": 600}, "token_file: expired at"),
        (-900, {}, "token_file: not valid before"),
    ],
    ids=["expired", "near its end", "by the server's clock", "not yet by the server's clock"],
)
def test_a_token_that_is_not_valid_is_named_before_anything_is_created(
    door: Foreign, pki: Path, tmp_path: Path, end: str, ahead: float, claims: dict[str, Any], why: str
) -> None:
    door.ahead = ahead
    ends = {
        role: token(tmp_path, role, 7200) if ahead > 0 else token(tmp_path, role) for role in usability.ROLES
    }
    if ahead < 0:  # the other end's token has no beginning
        other = next(role for role in usability.ROLES if role != end)
        ends[other] = token(tmp_path, other, nbf=None)
    ends[end] = token(tmp_path, end, **claims)
    mine = settings(door, pki, ends=ends)
    found = reasons(list(trial.findings(mine)))
    assert found.keys() == {(end, "credential usable")}
    assert why in found[end, "credential usable"]
    assert "by the server's clock" in found[end, "credential usable"] or claims.get("seconds") == 60
    assert door.url.removeprefix("https://") not in found[end, "credential usable"]
    door.changed.clear()
    with pytest.raises(secrets.CredentialError, match=f"pair p, {end} 127.0.0.1:.*{why}"):
        TESTBED.warnings(sweep_of(mine))
    for tool in TOOLS:
        refused = pytest.raises(secrets.CredentialError, match=f"pair p, {end} .*{why}")
        with refused, deployed(mine, tmp_path, pair="p", tool=tool):
            raise AssertionError("deployed")
    assert door.changed == []


def test_a_token_that_ends_before_the_sweep_is_a_warning(door: Foreign, pki: Path, tmp_path: Path) -> None:
    mine = settings(
        door, pki, ends={"source": token(tmp_path, "source", 600), "destination": token(tmp_path, "d", 9000)}
    )
    assert TESTBED.warnings(sweep_of(mine, seconds=60)) == []
    [told] = TESTBED.warnings(sweep_of(mine, seconds=3600))
    assert told.startswith("pair p, source 127.0.0.1:")
    assert "only valid until" in told and "token_command" in told
    command = {"credentials": {"token_command": f"cat {tmp_path}/source.jwt"}}
    mine = settings(door, pki, ends={"source": command, "destination": token(tmp_path, "d", 9000)})
    assert TESTBED.warnings(sweep_of(mine, 60, streams=[1, 2, 3])) == []


@pytest.mark.parametrize(
    ("role", "claims", "lacking"),
    [
        ("destination", {"scope": "storage.read:/"}, "no right to write and delete"),
        ("destination", {"scope": "storage.read:/ storage.create:/"}, "no right to delete"),
        ("source", {"scope": "storage.modify:/ storage.create:/"}, "no right to read"),
        ("destination", {"aud": "https://other.test"}, "audience https://other.test does not name 127.0.0.1"),
        ("destination", {"wlcg.ver": "1.0", "scope": "openid"}, ""),
        ("destination", {"aud": ["ANY", "https://other.test"], "scope": "read:/ write:/"}, ""),
    ],
)
def test_a_refused_token_is_explained_by_what_it_lacks(
    door: Foreign, pki: Path, tmp_path: Path, role: str, claims: dict[str, Any], lacking: str
) -> None:
    ends = {each: token(tmp_path, each) for each in usability.ROLES} | {role: token(tmp_path, role, **claims)}
    mine = settings(door, pki, ends=ends)
    usable = {row.role: row.reason for row in trial.findings(mine) if row.check == "credential usable"}
    assert lacking in usable[role]
    assert ("its " in usable[role]) == bool(lacking)
    door.refuses = ("MKCOL", "PROPFIND", "HEAD")
    found = reasons(list(trial.findings(mine)))
    assert ("another token: its" in found[role, "list"]) == bool(lacking)
    assert lacking in found[role, "list"]
    assert (lacking or "ask for the right") in next(
        text for text in TESTBED.warnings(sweep_of(mine)) if role in text
    )
    door.refuses = ("MKCOL",)
    with pytest.raises(DoorError, match=r"MKCOL .*403") as error, deployed(mine, tmp_path, pair="p"):
        raise AssertionError("deployed")
    assert role != "source" or lacking in str(error.value)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ({"token_file": "empty"}, "token_file: .*empty is empty"),
        ({"proxy": "empty"}, "proxy: .*empty is empty"),
        ({"certificate": "user.pem", "key": "empty"}, "key: .*empty is empty"),
        ({"certificate": "locked.pem", "key": "locked.key"}, "key: .*locked.key has a pass phrase"),
        ({"proxy": "locked.proxy"}, "proxy: .*locked.proxy has a pass phrase"),
        ({"certificate": "user.pem", "key": "old.key"}, "key: .*old.key is not the key of the certificate"),
        ({"proxy": "ca.pem"}, "proxy: .*ca.pem has no usable private key"),
        ({"proxy": "junk"}, "proxy: .*junk has none in PEM"),
        ({"token_command": "true"}, "token_command ended with exit code 0: no token"),
    ],
)
@pytest.mark.parametrize("end", usability.ROLES)
def test_an_unusable_file_is_named_with_its_end(
    door: Foreign, pki: Path, tmp_path: Path, login: dict[str, str], why: str, end: str
) -> None:
    (pki / "empty").write_text("\n")
    (pki / "junk").write_text("junk\n")
    for name, how in {"locked": {"phrase": b"x"}, "old": {"ends": -1}}.items():
        write_certificate(pki, name, **how)  # type: ignore[arg-type]
    other = next(role for role in usability.ROLES if role != end)
    given = {key: value if key == "token_command" else str(pki / value) for key, value in login.items()}
    mine = settings(door, pki, ends={end: {"credentials": given}, other: token(tmp_path, other)})
    found = reasons(list(trial.findings(mine)))
    assert found.keys() == {(end, "credential usable")}
    door.changed.clear()
    refused = pytest.raises(secrets.CredentialError, match=f"pair p, {end}: {why}")
    with refused, deployed(mine, tmp_path, pair="p"):
        raise AssertionError("deployed")
    both = settings(door, pki, credentials=given)
    with pytest.raises(secrets.CredentialError, match=f"pair p, source and destination: {why}"):
        TESTBED.warnings(sweep_of(both))
    assert door.changed == []


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"ends": -1}, "proxy: expired at"),
        ({"ends": 60}, "proxy: only valid until"),
        ({"begins": 600}, "proxy: not valid before"),
        ({"ends": 9000, "attributes_end": 30}, "VOMS attributes of the proxy: only valid until"),
    ],
)
def test_a_proxy_is_judged_by_its_times_and_its_attributes(
    door: Foreign, pki: Path, tmp_path: Path, times: dict[str, float], why: str
) -> None:
    write_certificate(pki, "mine", **times)  # type: ignore[arg-type]
    mine = settings(door, pki, credentials={"proxy": str(pki / "mine.proxy")})
    found = reasons(list(trial.findings(mine)))
    assert why in found["source", "credential usable"]
    assert why in found["destination", "credential usable"]
    with pytest.raises(secrets.CredentialError, match=why), deployed(mine, tmp_path, pair="p"):
        raise AssertionError("deployed")


def test_a_macaroon_and_other_tokens() -> None:
    caveat = encoded(b"0000cid before:2020-01-01T00:00:00Z\n0000")
    [period] = [validity._token_period("token_file", caveat)]
    assert "expired at 2020-01-01" in validity.invalid(period, usability.own_clock())
    payloads = [encoded(text) for text in ("[1]", '{"exp": "x"}')]
    for text in ("a.b.c", "word", *(f"a.{payload}.c" for payload in payloads)):
        assert validity._token_period("token_file", text)[1:] == (None, None)
        assert validity.doubts(text, "source", "https://a", reads=True) == []


def test_the_client_of_xrootd_reads_a_private_token_file_alone(tmp_path: Path) -> None:
    ends = {
        role: {"urls": [f"root://127.0.0.1:9//{role}"], **token(tmp_path, role)} for role in usability.ROLES
    }
    os.chmod(tmp_path / "source.jwt", 0o644)  # noqa: PTH101
    content = {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    mine = Endpoints.model_validate({**content, "pairs": [{"name": "p", **ends}]})
    refused = pytest.raises(
        secrets.CredentialError, match=r"pair p, source: token_file: .*mode 644.*chmod 600"
    )
    with refused, secrets.written(mine, mine.pairs[0]):
        raise AssertionError("written")
    assert stat.S_IMODE((tmp_path / "destination.jwt").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("ends", "certificate", "why", "fix"),
    [
        (-1, True, "certificate has expired", "ask its administrators to renew it"),
        (3600, False, "self-signed certificate", "set ca"),
        (3600, True, "", ""),
    ],
    ids=["expired", "another CA", "well"],
)
def test_the_certificate_of_a_server_is_named_with_its_end(
    pki: Path, tmp_path: Path, ends: float, certificate: bool, why: str, fix: str
) -> None:
    write_certificate(tmp_path, "host", ends=ends)
    authorities = tmp_path / "ca.pem"
    authorities.write_text((pki / "ca.pem").read_text())
    if certificate:
        with authorities.open("a") as file:
            file.write((tmp_path / "host.pem").read_text())
    with foreign_door(pki) as good, foreign_door(tmp_path) as bad:
        for door in (good, bad):
            door.add("/test")
        mine = settings(good, pki, ends={"destination": {"urls": [f"{bad.url}/test"]}}, ca=str(authorities))
        found = reasons(list(trial.findings(mine)))
        failed = found.get(("destination", "TLS and CA"), "")
        assert ("source", "TLS and CA") not in found
        assert bool(failed)
        if not why:
            assert "only valid until" in failed, "in less than a week"
            return
        assert why in failed and fix in failed
        good.changed.clear()
        [told] = TESTBED.warnings(sweep_of(mine))
        assert told.startswith("pair p, destination 127.0.0.1") and why in told and fix in told
        for tool in TOOLS:
            refused = pytest.raises(DoorError, match=f"pair p, destination .*{why}.*{fix}")
            with refused, deployed(mine, tmp_path, pair="p", tool=tool):
                raise AssertionError("deployed")
    assert good.changed == bad.changed == []


def test_a_server_with_another_name_is_named(pki: Path) -> None:
    with foreign_door(pki) as door:
        door.url = door.url.replace("127.0.0.1", "localhost")
        mine = settings(door, pki)
        [told] = TESTBED.warnings(sweep_of(mine))[:1]
    assert "Hostname mismatch" in told
    assert "Fix: write the name that is in the server's certificate into urls" in told


def test_pairs_with_usable_credentials_are_measured_without_the_others(
    door: Foreign, pki: Path, tmp_path: Path
) -> None:
    ends = {role: {"urls": [f"{door.url}/test"], **token(tmp_path, role)} for role in usability.ROLES}
    old = {"source": ends["source"], "destination": {**ends["destination"], **token(tmp_path, "old", -1)}}
    mine = settings(door, pki, pairs=[{"name": "good", **ends}, {"name": "old", **old}])
    [told] = TESTBED.warnings(sweep_of(mine))
    assert told.startswith("pair old, destination")
    only = sweep_of(mine, pair=["old"])
    with pytest.raises(secrets.CredentialError, match="pair old"):
        TESTBED.warnings(only)
