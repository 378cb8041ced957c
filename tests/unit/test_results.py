# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.running.results import (
    ResultsError,
    ResultsInUseError,
    damage,
    hold,
    leave_out,
    left_out,
    publish,
    read,
    recover,
    require_writable,
    settle,
    stale,
)

SPEC = {"parameters": {"streams": 4, "rtt": 0.5}, "repetition": 1}


def test_a_cell_is_stale_when_missing_broken_or_measured_under_something_else(tmp_path: Path) -> None:
    cell = tmp_path / "a=1" / "repetition=1.json"
    assert stale(cell, SPEC)
    publish(cell, SPEC, {"status": "ok"}, tmp_path / "rescued")
    assert not stale(cell, SPEC)
    assert stale(cell, {**SPEC, "repetition": 2})
    cell.write_text('{"spec"')
    assert stale(cell, SPEC)


def test_a_parameter_that_did_not_exist_when_a_cell_was_measured_was_as_its_default(tmp_path: Path) -> None:
    now = {**SPEC, "parameters": Parameters().model_dump()}
    before = {**SPEC, "parameters": {k: v for k, v in now["parameters"].items() if k != "encryption"}}
    publish(tmp_path / "c.json", before, {"status": "ok"}, tmp_path / "rescued")
    assert not stale(tmp_path / "c.json", now)
    assert stale(tmp_path / "c.json", {**now, "parameters": {**now["parameters"], "encryption": "none"}})


def test_a_failed_cell_is_data_and_not_stale(tmp_path: Path) -> None:
    publish(tmp_path / "c.json", SPEC, {"status": "failed"}, tmp_path / "rescued")
    assert not stale(tmp_path / "c.json", SPEC)


def test_a_cell_removed_with_its_failed_job_is_put_back(tmp_path: Path) -> None:
    cell, rescue = tmp_path / "c.json", tmp_path / "rescued"
    publish(cell, SPEC, WHOLE, rescue)
    cell.unlink()
    assert not recover(cell, {**SPEC, "repetition": 2}, rescue)
    assert recover(cell, SPEC, rescue)
    assert read(cell)["status"] == "ok"


def test_measuring_again_replaces_what_is_kept_too(tmp_path: Path) -> None:
    cell, rescue = tmp_path / "c.json", tmp_path / "rescued"
    for status in ("failed", "ok"):
        publish(cell, SPEC, WHOLE | {"status": status}, rescue, again=True)
    cell.unlink()
    recover(cell, SPEC, rescue)
    assert read(cell)["status"] == "ok"


def test_when_a_run_is_over_what_is_missing_is_put_back_and_nothing_is_kept_beside_it(tmp_path: Path) -> None:
    cells, rescue = [tmp_path / f"{number}.json" for number in range(4)], tmp_path / "rescued"
    spec = {"format": 1, **SPEC}
    for cell in cells[:3]:
        publish(cell, spec, WHOLE, rescue)
    there, gone, left, never = cells
    gone.unlink()
    left.unlink()
    leave_out(left, spec, "no path")
    assert settle([(cell, spec) for cell in cells], rescue) == 2
    assert all(damage(cell) == "" and not stale(cell, spec) for cell in (there, gone, left))
    assert not never.exists()
    assert not rescue.exists()
    gone.unlink()  # by somebody who wants it measured again
    assert settle([(cell, spec) for cell in cells], rescue) == 0
    assert not gone.exists()


def test_what_is_damaged_stays_until_it_is_set_aside_and_is_not_put_back(tmp_path: Path) -> None:
    replaced, in_place, rescue = tmp_path / "c.json", tmp_path / "d.json", tmp_path / "rescued"
    for cell in (replaced, in_place):
        publish(cell, SPEC, WHOLE, rescue)
    replaced.unlink()
    replaced.write_text('{"spec"')
    edited(in_place)  # the second link is of the same file
    assert settle([(replaced, SPEC), (in_place, SPEC)], rescue) == 0
    assert damage(replaced)
    for cell in (replaced, in_place):
        cell.rename(cell.with_name(f"{cell.name}.damaged"))
    assert settle([(replaced, SPEC), (in_place, SPEC)], rescue) == 1
    assert damage(replaced) == ""
    assert not in_place.exists()


def test_a_job_that_ends_while_the_next_run_begins_keeps_its_cells(tmp_path: Path) -> None:
    cells, rescue = [tmp_path / "cells" / f"{number}.json" for number in range(400)], tmp_path / "rescued"

    def job(part: int) -> None:
        for cell in cells[part::2]:
            publish(cell, SPEC, WHOLE, rescue)

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(job, part) for part in range(2)]
        while not all(one.done() for one in jobs):
            settle([(cell, SPEC) for cell in cells if cell.exists()], rescue)
    assert [damage(cell) for cell in cells if cell.exists()] == [""] * 400


def test_results_are_held_until_the_holder_ends_however(tmp_path: Path) -> None:
    code = "import sys, time, pathlib; from tpcsweep.running.results import hold; hold(pathlib.Path(sys.argv[1]));"
    code += "print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(ResultsInUseError, match=f"pid {holder.pid}"):
            hold(tmp_path)
        holder.kill()
        holder.wait()
    hold(tmp_path)


WHOLE = {"format": 1, "status": "ok", "flags": [], "summary": {}, "provenance": {}}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def listed(path: Path) -> None:
    path.write_text("[]")


def folder(path: Path) -> None:
    path.unlink()
    (path / "within").mkdir(parents=True)


def edited(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "status": "failed"}))


@pytest.mark.parametrize("how", [cut, emptied, listed, folder, edited])
def test_what_is_damaged_is_stale_and_says_in_what_way(tmp_path: Path, how: Callable[[Path], None]) -> None:
    cell = tmp_path / "c.json"
    publish(cell, SPEC, WHOLE, tmp_path / "rescued")
    assert damage(cell) == ""
    how(cell)
    assert stale(cell, SPEC)
    assert damage(cell)


@pytest.mark.parametrize("lacking", ["status", "flags", "summary", "provenance"])
def test_what_a_run_asks_for_must_be_there(tmp_path: Path, lacking: str) -> None:
    cell = tmp_path / "c.json"
    content = {"spec": SPEC, **WHOLE}
    for wrong in ({key: value for key, value in content.items() if key != lacking}, content | {lacking: 7}):
        cell.write_text(json.dumps(wrong))  # as of before there were checksums
        assert damage(cell) == f"without {lacking} as cells have them"
    cell.unlink()
    assert damage(cell) == ""


def test_a_cell_that_is_current_is_not_overwritten_but_by_one_that_was_measured_again(tmp_path: Path) -> None:
    cell, rescue, spec = tmp_path / "c.json", tmp_path / "rescued", {"format": 1, **SPEC}
    leave_out(cell, spec, "no path")
    publish(cell, spec, {"by": "one job"}, rescue)
    publish(cell, spec, {"by": "another"}, rescue)
    leave_out(cell, spec, "no path")
    assert read(cell)["by"] == "one job"
    publish(cell, spec, {"by": "another"}, rescue, again=True)
    assert read(cell)["by"] == "another"
    publish(cell, {**spec, "repetition": 2}, {"by": "one job"}, rescue)
    assert read(cell)["spec"]["repetition"] == 2


def test_a_hole_that_is_damaged_is_none(tmp_path: Path) -> None:
    cell = tmp_path / "c.json"
    leave_out(cell, {"format": 1, **SPEC}, "no path")
    assert left_out(cell)
    for how in (cut, folder):
        how(cell)
        assert not left_out(cell)


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("all of it")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(ResultsError, match=r"\.lock: .+: have results elsewhere by --config results=FOLDER"):
        hold(tmp_path / "results")
    assert (tmp_path / "precious").read_text() == "all of it"


def test_a_folder_that_can_be_made_is_writable_and_none_is_made(tmp_path: Path) -> None:
    require_writable(tmp_path / "some" / "results")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="file is no folder: have results elsewhere"):
        require_writable(tmp_path / "file" / "demo")
    with pytest.raises(ResultsError, match=r"demo/\.lock: Not a directory: have results elsewhere"):
        hold(tmp_path / "file" / "demo")
    # Root may write everywhere.
    monkeypatch.setattr("os.access", lambda _path, mode: mode == os.F_OK)
    with pytest.raises(ResultsError, match=f"{tmp_path} cannot be written to by user {os.geteuid()}"):
        require_writable(tmp_path)
