# SPDX-License-Identifier: Apache-2.0
"""Copies between doors of others: only bytes that arrived count, not what a door claims."""

from pathlib import Path
from typing import Any

import pytest
from tpcsweep.common.errors import BrokenError
from tpcsweep.measuring.machine import Condition, Machine
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.endpoints import trial

from tests.support.foreign import foreign_door
from tests.support.foreign_cells import KIB, cell, own_state, settings
from tests.support.sites import files
from tests.support.storage import deployed


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_state(tmp_path, monkeypatch)


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


def counted(result: dict[str, Any]) -> float:
    """Bytes that a cell counted."""
    return float(result["summary"]["throughput_average"] * result["summary"]["duration"] / 8e-9)


SLOW = {"rate": 640 * KIB}
"""A door that needs 26 seconds for a file of 16 MiB, so that none is completed within the cell."""


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
            result = measure(
                Measurement(until="seconds", seconds=6)
            )  # on a full machine the first marker is late
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


def test_files_that_end_before_the_second_sample_have_a_throughput(tmp_path: Path) -> None:
    with foreign_door() as door:
        door.add("/test")
        slow = {"until": "files", "files": 3, "max_time": 30, "interval": 10}
        with deployed(settings(door), tmp_path, pair="p", tool="native", file_size=64 * KIB) as (_, measure):
            result = measure(Measurement.model_validate(slow))
    assert result["status"] == "ok", result["message"]
    assert counted(result) == pytest.approx(3 * 64 * KIB, rel=1e-3)


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
