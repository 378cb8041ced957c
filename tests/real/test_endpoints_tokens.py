# SPDX-License-Identifier: Apache-2.0
"""Tokens of an issuer on this machine, for XRootD servers that check them with its plugin for SciTokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.common.errors import BrokenError
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import secrets, trial
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.interface import TeardownError

from tests.support.issuer import Issuer
from tests.support.sites import CLIENT_FOR_HTTP, files
from tests.support.storage import ADDRESSES, Storage, assert_no_failure, deployed, storage_of

pytestmark = pytest.mark.usefixtures("nothing_left")
TESTBED = kinds.load_testbed("endpoints")
LONG = 9000  # bytes of a claim, as the groups of a large experiment have them
needs_client = pytest.mark.skipif(not CLIENT_FOR_HTTP, reason="a sweep with the tool xrdcp-http builds it")
ANY = {"wlcg": "https://wlcg.cern.ch/jwt/v1/any", "scitokens": "ANY"}
"""The audience of tokens for every server, in the words of the profile."""


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    with storage_of(asks=True, tokens=True) as found:
        yield found


def with_tokens(storage: Storage, folder: Path, login: str = "token_file", **claims: Any) -> Endpoints:
    """Settings with a new token for each end, in a file that tpcsweep reads or that a command prints."""
    ends: dict[str, Any] = {}
    for role in ADDRESSES:
        file = folder / f"{role}.jwt"
        file.write_text(issuer(storage).token(storage.audience(role), **claims))
        given = str(file) if login == "token_file" else f"cat {file}"
        ends[role] = {"urls": [storage.url(role)], "credentials": {login: given}}
    return storage.settings(pairs=[{"name": "loopback", **ends}])


def issuer(storage: Storage) -> Issuer:
    assert storage.issuer
    return storage.issuer


@pytest.mark.parametrize(
    ("tool", "profile", "mode", "size"),
    [
        ("curl", "wlcg", "pull", 0),
        ("native", "scitokens", "push", 0),
        ("curl", "wlcg", "push", LONG),
        ("native", "wlcg", "pull", LONG),
        # It reads both tokens from a file of at most 10 KiB.
        *(pytest.param("xrdcp-http", "wlcg", mode, 2000, marks=needs_client) for mode in ("pull", "push")),
    ],
)
def test_a_cell_with_a_token_for_each_end(
    storage: Storage, tmp_path: Path, tool: str, profile: str, mode: str, size: int
) -> None:
    settings = with_tokens(storage, tmp_path, profile=profile, groups="g" * size)
    with deployed(settings, tmp_path, tool=tool, streams=2, copy_mode=mode) as (_, measured):
        result = measured(files(20))
    assert result["status"] == "ok", result["message"]
    assert result["summary"]["transfers"] == 40
    assert {"/.well-known/openid-configuration", "/keys"} <= set(issuer(storage).asked)


@pytest.mark.parametrize(("tool", "profile"), [("gfal-copy", "wlcg"), ("gfal2", "scitokens")])
def test_one_token_for_both_ends(storage: Storage, tmp_path: Path, tool: str, profile: str) -> None:
    (tmp_path / "both.jwt").write_text(issuer(storage).token(ANY[profile], profile=profile))
    settings = storage.settings(credentials={"token_file": str(tmp_path / "both.jwt")})
    with deployed(settings, tmp_path, tool=tool, streams=2) as (_, measured):
        result = measured(files(10))
    assert result["status"] == "ok", result["message"]
    assert result["summary"]["transfers"] == 20


def test_check_tells_what_a_token_is_for(storage: Storage, tmp_path: Path) -> None:
    rows = list(trial.findings(with_tokens(storage, tmp_path)))
    assert_no_failure(rows)
    [told] = [row.reason for row in rows if row.check == "credential usable" and "destination" in row.subject]
    for part in (issuer(storage).url, storage.audience("destination"), "storage.modify:/", "valid until"):
        assert part in told


def test_a_token_is_shown_by_the_root_protocol(storage: Storage, tmp_path: Path) -> None:
    file = tmp_path / "both.jwt"
    file.touch(0o600)  # XRootD's client reads no other
    file.write_text(issuer(storage).token(ANY["wlcg"]))
    settings = storage.settings_for("xrdcp", credentials={"token_file": str(file)})
    # No token is for the servers' xrdcp.
    rows = [row for row in trial.findings(settings) if row.check != "xrdcp"]
    assert_no_failure(rows)
    assert {"upload", "download", "delete"} <= {row.check for row in rows if row.status == "ok"}
    rows = list(trial.findings(storage.settings_for("xrdcp-direct", credentials={"token_file": str(file)})))
    assert_no_failure(rows)
    assert "xrdcp-direct" in {row.check for row in rows if row.status == "ok"}, "from a local folder"


@pytest.mark.parametrize("fault", ["audience", "scope", "issuer", "end"])
def test_a_token_that_does_not_fit_is_refused_with_what_it_is_for(
    storage: Storage, tmp_path: Path, fault: str
) -> None:
    mine, audience = issuer(storage), storage.audience("destination")
    token, told = {
        "audience": (mine.token("https://other.test"), "aud https://other.test"),
        "scope": (mine.token(audience, scope="storage.read:/"), "scope storage.read:/,"),
        "issuer": (Issuer(mine.url).token(audience), mine.url),  # with another key
        "end": (mine.token(audience, seconds=-1), "expired at"),
    }[fault]
    settings = with_tokens(storage, tmp_path)
    (tmp_path / "destination.jwt").write_text(token)
    kind = secrets.CredentialError if fault == "end" else DoorError
    why = "destination .*: token_file: expired at" if fault == "end" else "MKCOL .*403.*audience or scope"
    with pytest.raises(kind, match=why), deployed(settings, tmp_path):
        raise AssertionError("deployed")
    rows = [row for row in trial.findings(settings) if "destination" in row.subject]
    assert [row.status for row in rows].count("failed") == 1
    assert any(told in row.reason for row in rows if row.check == "credential usable")
    assert token not in str(rows)
    TESTBED.reap(with_tokens(storage, tmp_path))


@pytest.mark.parametrize(("login", "tool"), [("token_file", "native"), ("token_command", "curl")])
def test_tokens_are_read_before_each_cell_and_with_those_that_have_ended_none_begins(
    storage: Storage, tmp_path: Path, login: str, tool: str
) -> None:
    """As when a session at an issuer ends in the middle of a sweep."""
    settings = with_tokens(storage, tmp_path, login)
    results = []
    with (
        pytest.raises(TeardownError, match="left behind"),
        deployed(settings, tmp_path, tool=tool) as (_, measured),
    ):
        results.append(measured(files(30)))
        with_tokens(storage, tmp_path, seconds=-1)
        try:
            measured(files(2))
        except BrokenError as error:
            results.append(str(error))
    before, refusal = results
    assert before["status"] == "ok", before["message"]
    assert "403" in refusal
    assert "renew" in refusal
    assert len(TESTBED.reap(with_tokens(storage, tmp_path))) == 1
