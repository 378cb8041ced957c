# SPDX-License-Identifier: Apache-2.0
"""Cells between XRootD servers that tpcsweep has not started."""

from __future__ import annotations

import datetime
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.urls import OwnFile
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import trial
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors
from tpcsweep.testbeds.endpoints.local import LocalDoors
from tpcsweep.testbeds.endpoints.root import RootDoors
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import TeardownError

from tests.support.redirector import redirector_of
from tests.support.sites import MIB, files, seconds
from tests.support.storage import ADDRESSES, Storage, deployed, storage_of

pytestmark = pytest.mark.usefixtures("nothing_left")
TESTBED = kinds.load_testbed("endpoints")
asking = pytest.mark.parametrize("storage", [True], ids=["macaroons"], indirect=True)
"""For tests in which it makes no difference whether the servers ask for a credential."""


@pytest.fixture(scope="module", params=[False, True], ids=["anybody", "macaroons"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    with storage_of(request.param) as found:
        yield found


def measured(
    storage: Storage, folder: Path, how: Measurement, tool: str, **parameters: Any
) -> dict[str, Any]:
    with deployed(storage.settings_for(tool), folder, tool=tool, **parameters) as (_, measure):
        found: dict[str, Any] = measure(how)
        assert "deployment_broken" not in found["flags"], found["message"]
        assert len(storage.files("destination")) == 1, "only the folder of the deployment"
    return found


@asking
@pytest.mark.parametrize(
    ("tool", "mode"),
    [
        ("curl", "pull"),
        ("native", "push"),
        ("xrdcp", "pull"),
        ("davix-get", "pull"),
        ("xrdcp-direct", "push"),
    ],
)
def test_a_cell_between_servers_that_run(storage: Storage, tmp_path: Path, tool: str, mode: str) -> None:
    how = {"streams": 2, "file_size": 8 * MIB, "copy_mode": mode}
    found = measured(storage, tmp_path, files(4), tool, **how)
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["transfers"] == 8
    assert found["limit"] in ("not_visible", "between_files", "machine"), "no limit of a server is visible"
    assert 0 < found["summary"]["throughput_average"] < 100
    over = found["summary"]["duration"]
    counted = found["summary"]["throughput_average"] * over / (8 * MIB * 8e-9)
    ended, begun = (sum(time <= over for time in found["transfers"][name]) for name in ("end", "start"))
    assert ended - 0.01 <= counted <= begun + 0.01, "files, of which those under way count in part"


@pytest.mark.parametrize("storage", [False], ids=["anybody"], indirect=True)
def test_a_redirector_of_xrootd_takes_uploads_and_is_a_source(storage: Storage, tmp_path: Path) -> None:
    """It answers an upload with 307 before it has read the content, and closes the connection."""
    with redirector_of(storage, "source") as url:
        ends = {"source": {"urls": [url]}, "destination": {"urls": [storage.url("destination")]}}
        settings = storage.settings(pairs=[{"name": "loopback", **ends}])
        assert {"upload", "pull", "push", "delete"} <= done(outcomes(storage, settings))
        turned = {"source": ends["destination"], "destination": ends["source"]}
        assert {"upload", "pull"} <= done(
            outcomes(storage, storage.settings(pairs=[{"name": "back", **turned}]))
        )
        with deployed(settings, tmp_path, tool="native", streams=2, file_size=8 * MIB) as (_, measure):
            found = measure(files(4))
    assert (found["status"], found["summary"]["transfers"]) == ("ok", 8), found["message"]


ODD = "a b (1)/déjà~+,=:@-_."


@pytest.mark.parametrize("tool", ["curl", "native", "gfal-copy", "gfal2"])
def test_a_folder_with_blanks_and_letters_works(storage: Storage, tmp_path: Path, tool: str) -> None:
    ends = {}
    for role in ADDRESSES:
        folder = storage.folder / role / "data/test" / ODD
        folder.mkdir(parents=True)
        for path in (folder, folder.parent):
            shutil.chown(path, "xrootd", "xrootd")
        ends[role] = {"urls": [f"{storage.url(role)}/{quote(ODD, safe='/~+,=:@-_.')}"]}
    settings = storage.settings(pairs=[{"name": "loopback", **ends}], checksums=storage.asks)
    try:
        for mode in ("pull", "push"):
            with deployed(settings, tmp_path, tool=tool, copy_mode=mode) as (_, measure):
                result = measure(files(2))
            assert result["summary"]["transfers"] == 2, result["message"]
        assert all(len(storage.files(role)) == 2 for role in ADDRESSES), "the two folders"
    finally:
        for role in ADDRESSES:
            shutil.rmtree(storage.folder / role / "data/test" / ODD.partition("/")[0])


@asking
@pytest.mark.usefixtures("lingering")
def test_a_cell_of_fixed_time_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    found = measured(storage, tmp_path, seconds(8), "curl", streams=2, file_size=16 * MIB)
    assert found["status"] == "ok", found["message"]
    assert found["summary"]["rtt_idle"] is None
    assert found["summary"]["duration"] <= 8.2


@asking
@pytest.mark.parametrize("tool", ["curl", "native"])
def test_macaroons_have_the_rights_and_time_of_a_cell(storage: Storage, tmp_path: Path, tool: str) -> None:
    logged = {role: len(storage.log(role)) for role in storage.doors}
    how = Measurement(until="files", files=4, max_time=5.5 * 3600)
    assert measured(storage, tmp_path, how, tool, file_size=8 * MIB)["status"] == "ok"
    for role, rights in {"source": "DOWNLOAD,LIST", "destination": "UPLOAD,LIST"}.items():
        [issued] = re.findall(r"MacaroonGen.*", storage.log(role)[logged[role] :])
        [expires] = re.findall(rf"user_caveat=activity:{rights}, expires=(\S+)", issued)
        left = datetime.datetime.fromisoformat(expires) - datetime.datetime.now(datetime.UTC)
        assert 6.5 * 3600 < left.total_seconds() <= 7 * 3600


def outcomes(storage: Storage, settings: Endpoints) -> dict[tuple[str, str, str], set[str]]:
    """Names of checks by subject, status and the reason of a skip; none fails or leaves a file."""
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in trial.findings(settings):
        assert row.status != "failed", row
        found[row.subject, row.status, row.reason if row.status == "skipped" else ""].add(row.check)
    assert storage.files("source") == storage.files("destination") == []
    return found


def done(found: dict[tuple[str, str, str], set[str]]) -> set[str]:
    return set().union(*(names for (_, status, _), names in found.items() if status == "ok"))


def test_check_tries_everything_and_leaves_nothing(storage: Storage) -> None:
    names = done(outcomes(storage, storage.settings()))
    assert {"TLS and CA", "upload", "download", "delete", "pull", "push", "pull with 2 connections"} <= names
    assert ("macaroon" in names) == ("checksum" in names) == storage.asks


HTTP_ONLY = {"TLS and CA", "macaroon", "pull", "push", "pull with 2 connections", "performance markers"}


def test_check_tries_the_root_protocol_and_names_what_it_has_not(storage: Storage) -> None:
    found = outcomes(storage, storage.settings_for("xrdcp"))
    assert {"list", "make a folder", "upload", "download", "delete", "xrdcp", "nothing left"} <= done(found)
    assert set().union(*(names for (*_, why), names in found.items() if why == "https:// only")) == HTTP_ONLY


@asking
@pytest.mark.parametrize("tool", ["davix-put", "davix-get", "xrdcp-direct"])
def test_check_tries_the_tools_of_a_local_folder_and_nothing_else_between_the_ends(
    storage: Storage, tool: str
) -> None:
    found = outcomes(storage, storage.settings_for(tool))
    place = TOOLS[tool].place
    [server] = {"source", "destination"} - {place}
    without = {"name resolves", "TCP, RTT of the connect", "credential usable"}
    assert found[f"loopback {place}", "skipped", "a local folder"] == without
    assert {"list", "upload", "download", "checksum", "delete"} <= found[f"loopback {place}", "ok", ""]
    assert "upload" in found[f"loopback {server}", "ok", ""]
    unfit = {"pull", "push", "pull with 2 connections", "xrdcp", "performance markers"}
    assert found["loopback", "skipped", "two servers only"] == unfit
    assert found["loopback", "ok", ""] == {tool, f"{tool}, 64 MiB"}
    assert "nothing left" in found[f"loopback {place}", "ok", ""] & found[f"loopback {server}", "ok", ""]


@asking
def test_check_names_doors_that_do_not_answer(storage: Storage) -> None:
    ends = {"source": "davs://127.0.8.9:9/data", "destination": "davs://nowhere.invalid/data"}
    gone = {"name": "gone", **{role: {"urls": [url]} for role, url in ends.items()}}
    failed = [row for row in trial.findings(storage.settings(pairs=[gone])) if row.status == "failed"]
    assert [row.check for row in failed][:2] == ["TCP, RTT of the connect", "list"]
    assert "nothing left" not in {row.check for row in failed}, "no folder was begun"


# Runs with curl that are killed are in the tests of users.
@asking
@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize(
    ("tool", "kind"), [("curl", HttpDoors), ("xrdcp", RootDoors), ("davix-get", LocalDoors)]
)
def test_files_that_cannot_be_deleted_end_the_cell_and_are_reaped(
    storage: Storage, tmp_path: Path, tool: str, kind: type[Doors]
) -> None:
    def refused(_: Doors, file: OwnFile) -> bool:
        raise DoorError(f"DELETE {file.url}: not now")

    settings = storage.settings_for(tool)
    with (
        pytest.MonkeyPatch.context() as patched,
        pytest.raises(TeardownError, match="left behind"),
        deployed(settings, tmp_path, tool=tool) as (_, measured),
    ):
        patched.setattr(kind, "delete", refused)
        result = measured(files(3))
    assert "deployment_broken" in result["flags"]
    assert "files are left behind: DELETE" in result["message"]
    assert storage.files("destination") != []
    assert len(TESTBED.reap(settings)) == 1
    assert storage.files("destination") == TESTBED.reap(settings) == []


@asking
@pytest.mark.usefixtures("lingering")
def test_a_door_that_dies_breaks_the_cell(storage: Storage, tmp_path: Path) -> None:
    with (
        pytest.raises(TeardownError),
        deployed(storage.settings(), tmp_path, tool="curl") as (_, measured),
    ):
        storage.kill("destination")
        try:
            status = measured(files(50))["status"]
        except BrokenError:
            status = "failed"
    assert status == "failed"
    storage.restart("destination")
    assert len(TESTBED.reap(storage.settings())) == 1
    assert storage.files("destination") == []
