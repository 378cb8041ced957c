# SPDX-License-Identifier: Apache-2.0
"""Rights as sites grant them: what may not be written is not tried, and ledgers name what exists."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tpcsweep.cli.group import main
from tpcsweep.common import locks
from tpcsweep.common.urls import MadeFolder, made_up
from tpcsweep.testbeds import kinds
from tpcsweep.testbeds.endpoints import ledger, site, trial
from tpcsweep.testbeds.endpoints.doors import DoorError, LeftError
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.interface import Finding

from tests.support.foreign import Foreign, foreign_door
from tests.support.sites import files
from tests.support.storage import deployed

TESTBED = kinds.load_testbed("endpoints")
KIB = 1 << 10


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in (ledger, site):
        monkeypatch.setattr(module, "LINGER", 0.1)
    return tmp_path / "state/tpcsweep/endpoints"


@pytest.fixture
def ends() -> Iterator[tuple[Foreign, Foreign]]:
    """A door of somebody else as the source, and another one as the destination."""
    with foreign_door() as source, foreign_door() as destination:
        for door in (source, destination):
            door.add("/test")
        yield source, destination


def content(ends: tuple[Foreign, Foreign], *names: str, **of_source: Any) -> dict[str, Any]:
    """Settings of pairs between two doors."""
    source, destination = ({"urls": [f"{door.url}/test"]} for door in ends)
    pairs = [
        {"name": name, "source": source | of_source, "destination": destination} for name in names or ("p",)
    ]
    limits = {"budget": {"bytes": 1 << 30, "time": 600}, "max_streams": 2}
    return {"kind": "endpoints", **limits, "pairs": pairs}


def settings(ends: tuple[Foreign, Foreign], *names: str, **of_source: Any) -> Endpoints:
    return Endpoints.model_validate(content(ends, *names, **of_source))


def wrong(rows: list[Finding]) -> dict[str, str]:
    return {row.check: row.reason for row in rows if row.status == "failed"}


def entries(state: Path) -> list[Path]:
    return sorted(state.glob("*.json"))


def test_a_source_file_is_only_read(ends: tuple[Foreign, Foreign], state: Path, tmp_path: Path) -> None:
    source, destination = ends
    source.refuses = ("MKCOL", "PUT", "DELETE", "PROPFIND", "COPY")
    source.files["/test/mine"] = os.urandom(96 * KIB)
    rows = list(trial.findings(settings(ends, file="mine")))
    passed = {(row.role, row.check) for row in rows if row.status == "ok"}
    assert {("source", "size"), ("source", "download"), ("", "pull"), ("destination", "delete")} <= passed
    assert set(wrong(rows)) == {"push"}
    asked = {method for method, *_ in source.asked}
    assert asked <= {"OPTIONS", "HEAD", "GET", "COPY"}
    how = {"pair": "p", "tool": "native", "file_size": 96 * KIB}
    with deployed(settings(ends, file="mine"), tmp_path, **how) as (_, measure):
        assert measure(files(3))["summary"]["transfers"] == 3
    assert source.changed == destination.wrong() == destination.left == entries(state) == []


@pytest.mark.parametrize("size", [95 * KIB, None])
def test_a_copy_of_a_source_file_is_compared_by_its_size(ends: tuple[Foreign, Foreign], size: int) -> None:
    source, destination = ends
    source.files["/test/mine"] = bytes(96 * KIB)
    destination.kept = 0.5
    if size is None:
        del source.files["/test/mine"]
    found = wrong(list(trial.findings(settings(ends, file="mine"))))
    assert found.keys() == ({"size"} if size is None else {"pull", "pull with 2 connections"})
    assert size is None or found["pull"] == "the destination has 49152 of 98304 bytes"


def test_copies_of_a_source_file_are_within_the_budget(ends: tuple[Foreign, Foreign]) -> None:
    source, _ = ends
    source.files["/test/mine"] = bytes(400 * KIB)
    little = content(ends, file="mine") | {"budget": {"bytes": KIB * KIB, "time": 600}}
    rows = {row.check: row for row in trial.findings(Endpoints.model_validate(little))}
    assert [rows[name].status for name in ("pull", "push", "pull with 2 connections")] == [
        "ok",
        "ok",
        "skipped",
    ]
    assert "budget.bytes" in rows["pull with 2 connections"].reason


@pytest.mark.parametrize("which", [0, 1], ids=["source", "destination"])
def test_a_folder_that_may_not_be_created_leaves_no_entry(
    ends: tuple[Foreign, Foreign], state: Path, tmp_path: Path, which: int
) -> None:
    ends[which].refuses = ("MKCOL",)
    rows = list(trial.findings(settings(ends)))
    assert set(wrong(rows)) == {"make a folder"}
    assert ("set source.file" in wrong(rows)["make a folder"]) == (which == 0)
    role = ("source", "destination")[which]
    assert {row.reason for row in rows if row.check == "pull"} == {f"the {role} failed: make a folder"}
    with (
        pytest.raises(DoorError, match=rf"{role}: MKCOL .*403"),
        deployed(settings(ends), tmp_path, pair="p"),
    ):
        raise AssertionError("deployed")
    assert entries(state) == ends[0].left == ends[1].left == []


def test_a_door_without_a_server_leaves_no_entry(
    ends: tuple[Foreign, Foreign], state: Path, tmp_path: Path
) -> None:
    dead = replace(ends[1], url="http://127.0.0.1:9")
    for refused in ((ends[0], dead), (dead, ends[0])):
        with (
            pytest.raises(DoorError, match="Connection refused"),
            deployed(settings(refused), tmp_path, pair="p"),
        ):
            raise AssertionError("deployed")
    assert entries(state) == ends[0].changed == []


def test_where_nothing_may_be_deleted_one_folder_stays_and_no_other_is_made(
    ends: tuple[Foreign, Foreign], state: Path, tmp_path: Path
) -> None:
    ends[1].refuses = ("DELETE",)
    refused = pytest.raises(DoorError, match=r"destination: DELETE .*403")
    with refused, deployed(settings(ends), tmp_path, pair="p"):
        raise AssertionError("deployed")
    created = list(ends[1].created)
    for _ in range(2):
        again = pytest.raises(LeftError, match=r"earlier one cannot be deleted: DELETE .*403")
        with again as error, deployed(settings(ends), tmp_path, pair="p"):
            raise AssertionError("deployed")
        assert error.value.final
        assert "make a folder" in wrong(list(trial.findings(settings(ends))))
    assert list(ends[1].created) == created
    assert len(created) == len(entries(state)) == 1
    ends[1].refuses = ()
    assert wrong(list(trial.findings(settings(ends)))) == {}
    assert entries(state) == ends[0].left == ends[1].left == []


@pytest.fixture
def configured(ends: tuple[Foreign, Foreign], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a sweep of pairs a and b on the testbed `mine`."""
    for folder in ("sweeps", "testbeds"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    (tmp_path / "config/config.yaml").write_text("sweep: s\ntestbed: mine\n")
    how = "measurement: {until: files, files: 2, max_time: 10}\n"
    (tmp_path / "config/sweeps/s.yaml").write_text(
        f"parameters: {{pair: [a, b], tool: native, file_size: 64 KiB}}\n{how}"
    )
    configure(tmp_path, content(ends, "a", "b"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(folder: Path, testbed: dict[str, Any]) -> None:
    (folder / "config/testbeds/mine.yaml").write_text(json.dumps(testbed))


def tpcsweep(*command: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(command))
    return done.exit_code, done.output


@pytest.mark.parametrize("change", ["renamed", "moved", "none"])
def test_reap_lists_entries_that_no_pair_explains(
    ends: tuple[Foreign, Foreign], configured: Path, state: Path, change: str
) -> None:
    name = made_up()
    folder = MadeFolder(f"{ends[1].url}/test", name)
    ends[1].folders.add(f"/test/{name}")
    ends[1].created.add(f"/test/{name}")
    state.mkdir(parents=True)
    ledger.Entry(state / "x.json", "mine", "a", {"destination": folder}, "/nonexistent").write()
    pairs = content(ends, *(("c", "b") if change == "renamed" else ("a", "b")))
    if change == "moved":
        pairs["pairs"][0]["destination"]["urls"] = [f"{ends[1].url}/other"]
    configure(configured, pairs)
    code, output = tpcsweep("reap")
    if change == "none":
        assert (code, ends[1].left, entries(state)) == (0, [], [])
        return
    assert code == 1
    assert f"left: {folder.url}: pair a of testbed mine. Fix:" in output
    assert "nothing was left" not in output
    assert ends[1].left
    [told] = json.loads(tpcsweep("reap", "--json")[1])["left"]
    assert folder.url in told
    configure(configured, content(ends, "a"))
    assert tpcsweep("reap")[0] == len(ends[1].left) == 0


def test_reap_leaves_entries_of_runs_under_way_alone(configured: Path, state: Path) -> None:
    state.mkdir(parents=True)
    ledger.Entry(state / "x.json", "mine", "gone", {}, "/nonexistent").write()
    descriptor = locks.lock_file(state / "x.lock", "another")
    try:
        code = "import sys; from tpcsweep.cli import main; sys.argv[1:] = ['reap']; main()"
        done = subprocess.run([sys.executable, "-c", code], cwd=configured, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        os.close(descriptor)
    assert tpcsweep("reap")[0] == 1


@pytest.mark.usefixtures("configured")
def test_check_goes_by_end_and_then_by_pair(ends: tuple[Foreign, Foreign]) -> None:
    code, output = tpcsweep("check", "mine", "--json")
    rows = json.loads(output)["findings"]
    assert code == 0
    assert "changes" not in json.loads(output), "there is no earlier check"
    made = [row for row in rows if row["check"] == "make a folder"]
    assert [(row["pair"], row["role"]) for row in made] == [("a b", "source"), ("a b", "destination")]
    assert all(row["door"] == ends[0].url.removeprefix("http://") for row in made[:1])
    assert all(row["seconds"] >= 0 for row in made)
    pulls = [index for index, row in enumerate(rows) if row["check"] == "pull"]
    assert [rows[index]["pair"] for index in pulls] == ["a", "b"]
    assert max(rows.index(row) for row in made) < pulls[0]
    assert ends[0].left == ends[1].left == []


def test_check_of_a_sweep_names_unusable_credentials_beside_the_rows_of_the_testbed(
    ends: tuple[Foreign, Foreign], configured: Path
) -> None:
    (configured / "empty").touch()
    login = {"credentials": {"token_command": f"cat {configured}/empty"}}
    secure = {"urls": ["https://127.0.0.1:9/test"], **login}
    pairs = [{"name": name, "source": secure, "destination": secure} for name in ("a", "b")]
    configure(configured, content(ends) | {"pairs": pairs})
    code, output = tpcsweep("check", "--json")
    rows = json.loads(output)["findings"]
    assert code == 1
    assert "pair b, source and destination: token_command" in rows[0]["reason"]
    assert {"can be run", "TCP, RTT of the connect", "credential usable"} <= {
        row["check"] for row in rows if row["status"] == "failed"
    }


def test_check_of_a_pair_shows_failures_and_what_is_different(
    ends: tuple[Foreign, Foreign], configured: Path
) -> None:
    other = content(ends, "a", "b")
    other["pairs"][1]["destination"] = {"urls": ["http://127.0.0.1:9/test"]}
    configure(configured, other)
    for pair in ("b", "a"):
        assert "since " not in tpcsweep("check", "mine", "--pair", pair)[1], "nobody checked the pair before"
    assert tpcsweep("check", "mine")[0] == 1
    code, output = tpcsweep("check", "mine", "--pair", "a", "--failed")
    assert (code, "127.0.0.1:9" in output, "ok" in output.split()) == (0, False, False)
    assert "since " not in output
    ends[1].refuses = ("COPY",)
    code, output = tpcsweep("check", "mine", "--pair", "a", "--failed", "--json")
    told = json.loads(output)
    assert code == 1
    assert {row["status"] for row in told["findings"]} == {"failed"}
    changed = {(change["check"], change["before"], change["now"]) for change in told["changes"]}
    assert ("pull", "ok", "failed") in changed
    assert ("push", "ok", "failed") not in changed
    ends[1].refuses = ()
    code, output = tpcsweep("check", "mine")
    assert ": a: pull: failed, now ok" in " ".join(output.split())
    assert "Did you mean" in tpcsweep("check", "mine", "--pair", "c")[1] or code == 1
    assert tpcsweep("check", "mine", "--pair", "c")[0] == 2
