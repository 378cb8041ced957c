# SPDX-License-Identifier: Apache-2.0
"""Storage of others: nothing outside tpcsweep's own new folder is written or deleted, whatever a URL contains."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import ValidationError
from tpcsweep.common import processes
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.urls import MadeFolder, made_up
from tpcsweep.deploying.xrootd.credentials import create_credentials
from tpcsweep.measuring.client.client_process import ClientRun, ToolRefusedError, process_client
from tpcsweep.measuring.machine import Condition, Machine
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import large_file, ledger, site, trial, webdav
from tpcsweep.testbeds.endpoints.doors import DoorError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.shared_doors import BusyDoorError, SharedDoors
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import TeardownError

from tests.support.foreign import Foreign, Handler, foreign_door
from tests.support.sites import files
from tests.support.storage import deployed

TESTBED = kinds.load_testbed("endpoints")
KIB = 1 << 10
PIECES = (
    "a",
    "test",
    "run",
    "#",
    "?",
    "&x=1",
    ";v=1",
    "..",
    ".",
    "",
    "%2f",
    "%2F..",
    "%23",
    "%3f",
    "%00",
    "%25",
)
PIECES += (
    "%2e%2e",
    "%20",
    " ",
    "\\",
    "é",
    "\n",
    "a@b",
    ":",
    "~",
    "{x}",
    "[1]",
    "*",
    "$HOME",
    "|",
    "%zz",
    "'",
    '"',
)
PATHS = st.lists(st.lists(st.sampled_from(PIECES), max_size=3).map("".join), max_size=4).map("/".join)
QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in (ledger, site):
        monkeypatch.setattr(module, "LINGER", 0.1)
    monkeypatch.setattr(large_file, "LARGE", 1152 * KIB)
    yield tmp_path / "state/tpcsweep/endpoints"


def settings(door: Foreign, source: str = "/test", destination: str = "/test", **changes: Any) -> Endpoints:
    ends = {
        "source": {"urls": [f"{door.url}{source}"]},
        "destination": {"urls": [f"{door.url}{destination}"]},
    }
    content = {"kind": "endpoints", "budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    return Endpoints.model_validate({**content, "pairs": [{"name": "p", **ends}], **changes})


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


def cell(door: Foreign, folder: Path, tool: str = "native", **changes: Any) -> dict[str, Any]:
    """A cell between two folders of a door."""
    door.add("/test")
    with deployed(settings(door, **changes), folder, pair="p", tool=tool, file_size=64 * KIB) as (_, measure):
        result: dict[str, Any] = measure(files(3))
    assert door.wrong() == door.left == []
    return result


@pytest.mark.parametrize(
    ("tool", "kept", "has"),
    [
        ("native", 0, "0 of 65536 bytes"),
        *((tool, 0.5, "32768 of 65536 bytes") for tool in ("native", "curl", "gfal-copy", "gfal2")),
    ],
)
def test_a_copy_that_is_short_is_a_failed_transfer(tmp_path: Path, tool: str, kept: float, has: str) -> None:
    with foreign_door(kept=kept) as door:
        result = cell(door, tmp_path, tool)
        rows = [row for row in trial.findings(settings(door)) if row.status == "failed"]
    assert result["status"] == "failed"
    assert f"reported as a success, but the destination has {has}" in result["message"]
    assert (result["summary"]["transfers"], result["summary"]["transfers_failed"]) == (0, 3)
    assert {row.check for row in rows} == {"pull", "pull with 2 connections"}
    assert all(" of 1048576 bytes" in row.reason for row in rows)


def test_a_size_is_asked_in_another_way_and_a_file_whose_size_nobody_tells_does_not_count(
    tmp_path: Path,
) -> None:
    with foreign_door(hidden="/c0-") as door:
        assert cell(door, tmp_path)["summary"]["transfers"] == 3
        door.unlisted = "/c0-"
        result = cell(door, tmp_path)
    assert (result["summary"]["transfers"], result["status"]) == (0, "failed")
    assert "could not be asked for: HEAD http" in result["message"]
    assert "403" in result["message"]


@pytest.mark.parametrize("tool", ["native", "curl"])
def test_a_file_with_other_bytes_is_a_failed_transfer_where_checksums_are_wanted(
    tmp_path: Path, tool: str
) -> None:
    with foreign_door() as door:
        assert cell(door, tmp_path, tool, checksums=True)["summary"]["transfers"] == 3
        door.altered = True
        assert cell(door, tmp_path, tool)["summary"]["transfers"] == 3, "the size is right"
        result = cell(door, tmp_path, tool, checksums=True)
        door.sums = False
        with pytest.raises(BrokenError, match=r"no Digest .* Fix: set checksums to false"):
            cell(door, tmp_path, tool, checksums=True)
    assert (result["summary"]["transfers"], result["status"]) == (0, "failed")
    assert "the destination has adler32" in result["message"]


@pytest.mark.parametrize(
    ("ways", "why"),
    [({"most": 1 << 20}, "failure: the disk is broken"), ({"altered": True}, "other bytes")],
)
def test_check_finds_faults_of_large_files_where_the_budget_allows(ways: dict[str, Any], why: str) -> None:
    with foreign_door(**ways) as door:
        door.add("/test")
        rows = {row.check: row for row in trial.findings(settings(door))}
        poor = settings(door, budget={"bytes": 4 << 20, "time": 600})
        skipped = {row.check: row for row in trial.findings(poor)}["push, 64 MiB"]
        assert door.wrong() == door.left == []
    failed = rows["pull, 64 MiB" if "most" in ways else "pull"]
    assert (failed.status, rows["push, 64 MiB"].status) == ("failed", "ok")
    assert why in failed.reason
    assert rows["push, 64 MiB"].reason.endswith("size and adler32")
    assert skipped.status == "skipped" and "the budget allows fewer" in skipped.reason


def copies(door: Foreign) -> int:
    return sum(method == "COPY" for method, *_ in door.asked)


@pytest.mark.parametrize("tool", ["native", "curl"])
def test_copies_wait_as_the_door_asks(tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with foreign_door(refused=("COPY",), refusal=429, refusals=1, retry_after="2") as door:
        times = list[float]()
        copy = Handler.on_copy
        monkeypatch.setattr(Handler, "on_copy", lambda *a: times.append(time.monotonic()) or copy(*a))
        began = time.monotonic()
        result = cell(door, tmp_path, tool)
    assert result["summary"]["transfers"] == 3
    assert "asks for a pause of 2 s" in " ".join(result["transfers"]["message"])
    assert times[0] - began >= 2


@pytest.mark.parametrize("form", ["600", "date"])
@pytest.mark.parametrize("tool", ["native", "curl"])
def test_a_long_pause_ends_the_cell_and_holds_the_door_for_all_runs(
    tmp_path: Path, tool: str, form: str
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    after = form if form == "600" else later
    how = {"pair": "p", "tool": tool, "file_size": KIB, "streams": 2}
    with foreign_door(refused=("COPY",), refusal=503, retry_after=after) as door, foreign_door() as other:
        door.add("/test")
        other.add("/test")
        with deployed(settings(door), tmp_path, **how) as (_, measure):
            result = measure(files(1))
            assert result["status"] == "failed"
            assert re.search(r"asks for a pause of (600|59\d) s", result["message"])
            assert copies(door) <= 2, "one for each stream"
            before = copies(door)
            with pytest.raises(BusyDoorError, match=r"asks for a pause of \d+ s. Fix: measure later"):
                measure(files(1))
        asked = len(door.asked)
        refused = pytest.raises(BusyDoorError, match=door.url.partition("//")[2])
        with refused, deployed(settings(door), tmp_path, **how):
            raise AssertionError("deployed")
        assert (copies(door), len(door.asked)) == (before, asked)
        with deployed(settings(other), tmp_path, **how) as (_, measure):
            assert measure(files(1))["summary"]["transfers"] == 2, "other doors do not wait"


def test_own_requests_do_not_insist_on_a_door_that_asks_for_a_long_pause(tmp_path: Path) -> None:
    with foreign_door(refused=("MKCOL",), retry_after="600") as door:
        refused = pytest.raises(DoorError, match=r"MKCOL .* asks for a pause of 600 s")
        with refused, deployed(settings(door), tmp_path, pair="p"):
            raise AssertionError("deployed")
        assert [method for method, *_ in door.asked].count("MKCOL") == 1


def test_runs_of_others_in_a_folder_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with foreign_door() as door:
        door.add(f"/test/{(other := made_up())}")
        with deployed(settings(door), tmp_path, pair="p") as (found, _):
            notes = found.provenance["endpoints"]["other_runs"]
    assert len(notes) == 2 and all(f"1 other run in {door.url}/test" in note for note in notes)
    assert other in capsys.readouterr().out


HOLD = """
import pathlib, sys, time
from tpcsweep.testbeds.endpoints.shared_doors import SharedDoors
with SharedDoors(pathlib.Path(sys.argv[1]), "x").streams({"a:443": 4}, 4, print):
    print("in", flush=True)
    time.sleep(60)
"""


def test_runs_of_a_user_share_the_streams_of_a_door(tmp_path: Path) -> None:
    first, second = (SharedDoors(tmp_path, name) for name in ("one", "two"))
    said = list[str]()

    def give_up() -> None:
        raise BrokenError("still waiting")

    with first.streams({"a:443": 3, "b:443": 3}, 4, said.append):
        with second.streams({"a:443": 1}, 4, said.append), second.streams({"c:443": 4}, 4, said.append):
            assert said == []
        with pytest.raises(BrokenError), second.streams({"b:443": 2}, 4, said.append, give_up):
            raise AssertionError("five streams")
        assert re.fullmatch(
            r"waiting for 3 streams of other runs at b:443 \(testbed one, pid \d+\), as max_streams is 4",
            said[0],
        )
    with second.streams({"b:443": 4}, 4, said.append, give_up):
        pass
    pipes = {"stdout": subprocess.PIPE}
    with processes.start(
        [sys.executable, "-c", HOLD, str(tmp_path)], processes.python(tmp_path), **pipes
    ) as run:
        assert run.stdout and run.stdout.readline() == b"in\n"
        with pytest.raises(BrokenError), second.streams({"a:443": 1}, 4, said.append, give_up):
            raise AssertionError("five streams")
        run.kill()
    with second.streams({"a:443": 4}, 4, said.append, give_up):
        pass


def counted(result: dict[str, Any]) -> float:
    """Bytes that a cell counted."""
    return float(result["summary"]["throughput_average"] * result["summary"]["duration"] / 8e-9)


SLOW = {"rate": 1024 * KIB}
"""A door that needs 16 seconds for a file of 16 MiB, so that none is completed within the cell."""


@pytest.mark.parametrize(
    ("ways", "why"),
    [
        ({}, ""),
        ({"claims": 3.0}, "bytes of a file that has"),
        ({"first_claim": 10**12}, "one claims 1000000000000 bytes of a file of 16777216"),
        ({"first_claim": 16 << 20}, "bytes of a file that has"),
        ({"grows": False}, "none of its files was completed"),
    ],
    ids=["true", "threefold", "more than the file", "the whole file at once", "hidden"],
)
@pytest.mark.parametrize("tool", ["native", "curl"])
def test_markers_count_as_far_as_the_door_agrees(
    tmp_path: Path, tool: str, ways: dict[str, Any], why: str
) -> None:
    with foreign_door(**SLOW, **ways) as door:
        door.add("/test")
        with deployed(settings(door), tmp_path, pair="p", tool=tool, file_size=16 << 20) as (_, measure):
            result = measure(Measurement(until="seconds", seconds=4))
    if why:
        assert result["status"] == "failed"
        assert f"performance markers of {door.url}/test do not count" in result["message"]
        assert why in result["message"]
    else:
        assert result["status"] == "ok", result["message"]
        assert any(counted(result) == pytest.approx(size, rel=0.05) for size in door.marked)


def test_other_programs_on_this_machine_are_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Machine.condition

    def condition(machine: Machine) -> Condition:
        found = read(machine)
        return found._replace(busy=found.total, slowed=0.9)

    monkeypatch.setattr(Machine, "condition", condition)
    with foreign_door(rate=256 * KIB) as door:
        door.add("/test")
        with deployed(settings(door), tmp_path, pair="p", tool="native", file_size=256 * KIB) as (_, measure):
            result = measure(files(3))
    assert result["summary"]["machine_used"] > 0.99
    assert result["limit"] in ("not_visible", "between_files")
    assert not {"disturbed", "machine_saturated"} & set(result["flags"])
    assert 0 <= result["summary"]["client_cpu"] < 2


@pytest.mark.parametrize("ways", [{}, {"claims": 3.0}, {"claims": 1.8}, {"first_claim": 10**12}])
def test_completed_files_tell_the_throughput_whatever_markers_claim(
    tmp_path: Path, ways: dict[str, Any]
) -> None:
    with foreign_door(rate=256 * KIB, **ways) as door:
        door.add("/test")
        with deployed(settings(door), tmp_path, pair="p", tool="native", file_size=256 * KIB) as (_, measure):
            result = measure(files(4))
    assert result["status"] == "ok", result["message"]
    assert counted(result) == pytest.approx(4 * 256 * KIB, rel=0.1)
    assert ("do not count" in result["message"]) == bool(ways)


@pytest.mark.parametrize(
    ("status", "body", "well"),
    [
        (201, "", True),
        (204, "", True),
        (202, "", False),
        (201, "End\n", False),
        (202, "success: Created\n", True),
        (201, "success: Created\nfailure: the disk is broken\n", False),
        (500, "success: Created\n", False),
    ],
)
def test_check_and_tools_judge_an_answer_alike(tmp_path: Path, status: int, body: str, well: bool) -> None:
    with foreign_door(status=status, copies=body) as door:
        results = [cell(door, tmp_path, tool) for tool in ("native", "curl")]
        rows = {row.check: row.status for row in trial.findings(settings(door))}
    assert [result["summary"]["transfers"] for result in results] == [3 * well] * 2
    assert rows["pull"] == rows["push"] == ("ok" if well else "failed")


def test_the_end_that_does_not_trust_the_other_is_named(tmp_path: Path) -> None:
    with foreign_door(status=201, copies="failure: unable to get local issuer certificate\n") as door:
        result = cell(door, tmp_path)
        rows = {row.check: row.reason for row in trial.findings(settings(door))}
    assert "the destination's server does not trust the source's CA" in result["message"]
    assert "the destination's server does not trust the source's CA" in rows["pull"]
    assert "the source's server does not trust the destination's CA" in rows["push"]
    assert "set ca" not in str(rows)


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
