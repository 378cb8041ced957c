# SPDX-License-Identifier: Apache-2.0
"""Storage of others: nothing outside tpcsweep's own new folder is written or deleted, whatever a URL contains."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import ValidationError
from tpcsweep.common import processes
from tpcsweep.common.urls import MadeFolder, made_up
from tpcsweep.deploying.xrootd.credentials import create_credentials
from tpcsweep.measuring.client.client_process import ClientRun, ToolRefusedError, process_client
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import trial, webdav
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import TeardownError

from tests.support.foreign import Foreign, foreign_door
from tests.support.foreign_cells import KIB, own_state, settings
from tests.support.sites import files
from tests.support.storage import deployed


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_state(tmp_path, monkeypatch)


TESTBED = kinds.load_testbed("endpoints")
PIECES = "a test run # ? &x=1 ;v=1 .. . %2f %2F.. %23 %3f %00 %25 %2e%2e %20 \\ é a@b : ~ {x} [1] * $HOME | %zz ' \""
PATHS = st.lists(
    st.lists(st.sampled_from([*PIECES.split(" "), "", " ", "\n"]), max_size=3).map("".join), max_size=4
).map("/".join)


QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def configured(door: Foreign, source: str, destination: str) -> Endpoints | None:
    """Settings of folders that are there, as the door reads their paths; None if they are refused."""
    for path in (source, destination):
        door.add(path)
    try:
        return settings(door, source, destination)
    except ValidationError:
        return None


WAYS = st.fixed_dictionaries({
    "cuts": st.sampled_from(["", "#", "?", ";", "&", "#?;&%"]),
    "tidies": st.booleans(),
    "exists": st.sampled_from([405, 201, 200, 409]),
})  # fmt: skip


@examples(max_examples=60, **QUICK)
@given(WAYS, PATHS, PATHS)
def test_check_changes_nothing_of_others(ways: dict[str, Any], source: str, destination: str) -> None:
    with foreign_door(**ways) as door:
        if accepted := configured(door, f"/{source}", f"/{destination}"):
            list(trial.findings(accepted))
        assert door.wrong() == []
        assert door.left == []


@pytest.mark.parametrize("path", ["/test/run", "/a%20b", "/test/run#5", "/test/a;b", "/test//run", "/run%23"])
@pytest.mark.parametrize("cuts", ["", "#;%"])
def test_a_sweep_changes_nothing_of_others(tmp_path: Path, path: str, cuts: str) -> None:
    with foreign_door(cuts=cuts) as door:
        accepted = configured(door, path, path)
        assert bool(accepted) == (path in ("/test/run", "/a%20b"))
        if accepted:
            with deployed(accepted, tmp_path, pair="p", tool="native", file_size=64 * KIB) as (_, measure):
                assert measure(files(3))["summary"]["transfers"] == 3
        assert door.wrong() == door.left == []


ODD = "/a%20b/d%c3%A9j%C3%A0/x%28y%29/~+,=:@-_./"


LONG = f"/{'/'.join(['long' * 50] * 8)}"


@pytest.mark.parametrize("tool", ["native", "curl", "gfal-copy", "gfal2"])
@pytest.mark.parametrize(("address", "path"), [("127.0.0.1", ODD), ("127.0.0.1", LONG), ("::1", "/test")])
def test_every_accepted_name_works_with_every_tool(
    tmp_path: Path, tool: str, address: str, path: str
) -> None:
    for mode in ("pull", "push"):
        with foreign_door(address=address) as door:
            door.add(path)
            how = {"pair": "p", "tool": tool, "file_size": KIB, "copy_mode": mode}
            with deployed(settings(door, path, path), tmp_path, **how) as (_, measure):
                result = measure(files(1))
            assert result["summary"]["transfers"] == 1, result["message"]
            assert door.wrong() == door.left == []


@pytest.mark.parametrize("exists", [405, 200, 201])
def test_a_folder_that_exists_under_a_new_name_is_neither_used_nor_deleted(
    tmp_path: Path, exists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a door that answers for the folder above, because it drops the end of a path."""
    with foreign_door(exists=exists) as door:
        door.add("/test")
        accepted = settings(door)
        read = door.path
        monkeypatch.setattr(door, "path", lambda target: read(target.partition("tpcsweep-")[0]))
        refused = pytest.raises(DoorError, match="Fix: use another URL")
        with refused, deployed(accepted, tmp_path, pair="p", tool="native"):
            raise AssertionError("deployed")
        TESTBED.reap(accepted)
        assert any(row.status == "failed" for row in trial.findings(accepted))
        assert {name for name, content in door.files.items() if content != b"precious"} == set()
        assert door.changed == []


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Credentials with a token for each end."""
    folder = tmp_path_factory.mktemp("deployment") / "credentials"
    create_credentials(folder, ["127.0.0.1"], (os.getuid(), os.getgid()))
    for role in ("source", "destination"):
        (folder / f"{role}.token").write_text("of-the-user")
    return folder


@pytest.mark.parametrize("end", [0, 1])
def test_no_tool_sends_a_credential_by_http(secrets: Path, tmp_path: Path, end: int) -> None:
    command = [sys.executable, "-m", "tpcsweep.measuring.client", str(secrets), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with foreign_door() as door, processes.start(command, processes.python(tmp_path), **pipes) as process:
        client, urls = process_client(process), ["https://127.0.0.1:1/test", "https://127.0.0.1:1/test"]
        urls[end] = f"{door.url}/test"
        for tool in TOOLS.values():
            how = {"file_name": "f", "prefix": "p", "copy_mode": tool.copy_modes[0], "tcp_streams": 1}
            with pytest.raises(ToolRefusedError, match=r"readable.* Fix: use https"):
                client.run(ClientRun(tool=tool.name, streams=1, pairs=[urls], **how))
        process.communicate()
    assert door.asked == []


@pytest.mark.parametrize("tool", ["native", "curl", "gfal-copy", "gfal2"])
def test_no_credential_follows_a_redirection_to_http(secrets: Path, tmp_path: Path, tool: str) -> None:
    logins = {"ca": str(secrets / "ca.pem"), "credentials": {"token_file": str(secrets / "source.token")}}
    with foreign_door() as plain, foreign_door(secrets) as door:
        door.add("/test")
        accepted = settings(door, **logins)
        door.redirect, door.redirected = f"{plain.url}/x?authz=Bearer%20of-the-user", ("COPY",)
        refused = pytest.raises((DoorError, AssertionError), match=r"redirected to http|not supported")
        with refused, deployed(accepted, tmp_path, pair="p", tool=tool) as (_, measure):
            raise AssertionError(measure(files(1))["message"])
        rows = [row for row in trial.findings(accepted) if row.status == "failed"]
        assert {row.check for row in rows} == {"pull", "push", "pull with 2 connections"}
        door.redirected = ("PUT",)
        for clear in (door.redirect, door.redirect.replace("http:", "HTTP:")):
            door.redirect = clear
            refused = pytest.raises(DoorError, match=r"redirected to (http|HTTP):.* readable")
            with refused, deployed(accepted, tmp_path, pair="p"):
                raise AssertionError("deployed")
    assert plain.asked == []
    assert "of-the-user" not in str(rows)


@pytest.mark.parametrize(("early", "pause"), [(webdav.EARLY, 0), (0.001, 0.3)], ids=["before", "during"])
def test_an_upload_may_be_redirected_before_its_content_is_read(
    secrets: Path, monkeypatch: pytest.MonkeyPatch, early: float, pause: float
) -> None:
    monkeypatch.setattr(webdav, "EARLY", early)
    with foreign_door() as other, foreign_door(secrets) as door:
        file = MadeFolder(f"{door.url}/test", made_up()).file("big")
        door.redirect, door.redirected = file.url.replace(door.url, other.url), ("PUT",)
        door.pause = pause
        doors = HttpDoors(Credentials(secrets, "none"), "source")
        doors.upload(file, lambda: (bytes(1 << 20) for _ in range(32)), 32 << 20)
        assert [len(content) for content in other.files.values()] == [32 << 20]


def test_a_redirection_out_of_the_own_folder_is_not_followed(tmp_path: Path) -> None:
    with foreign_door() as other, foreign_door() as door:
        other.add("/test")
        door.add("/test")
        door.redirect, door.redirected = f"{other.url}/test/", ("DELETE",)
        outside = pytest.raises((DoorError, TeardownError), match="outside the folder that tpcsweep made")
        with outside, deployed(settings(door), tmp_path, pair="p", tool="native"):
            raise AssertionError("deployed")
        assert other.asked == []
        door.redirect = ""
        assert len(TESTBED.reap(settings(door))) == 1
        assert door.wrong() == door.left == []


def test_a_door_that_leads_to_another_folder_is_not_written_to(tmp_path: Path) -> None:
    with foreign_door() as door:
        for path in ("/test", "/other"):
            door.add(path)
        ends = {
            role: {"urls": [f"{door.url}/test", f"{door.url}/other"]} for role in ("source", "destination")
        }
        two = settings(door, pairs=[{"name": "p", **ends}])
        with pytest.raises(DoorError, match="lead to one folder"), deployed(two, tmp_path, pair="p"):
            raise AssertionError("deployed")
        assert "same folder" in {row.check for row in trial.findings(two) if row.status == "failed"}
        assert door.wrong() == door.left == []
        assert not any("/other" in path for _, path in door.changed)


def test_reap_touches_nothing_that_an_entry_names_without_a_made_up_name(state: Path) -> None:
    with foreign_door() as door:
        door.add("/test/mine")
        state.mkdir(parents=True)
        folders = {"destination": {"door": f"{door.url}/test", "name": "mine", "made": True}}
        entry = {"pair": "p", "folders": folders, "secrets": "/nonexistent"}
        (state / "old.json").write_text(json.dumps(entry))
        assert TESTBED.reap(settings(door)) == []
        [told] = TESTBED.unexplained(settings(door))
        assert "not an entry of this version" in told
        assert door.asked == []
