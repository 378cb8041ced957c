# SPDX-License-Identifier: Apache-2.0
"""Files of cells: whole or damaged, current or stale, published, set aside, and folded into a dataset."""

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.data import cell_files
from tpcsweep.data.cell_files import DamagedError, format_content, parse_content
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.labels import STATUS
from tpcsweep.data.reduction import DatasetError
from tpcsweep.data.variables import NOT_MEASURED
from tpcsweep.running import progress, run_lock, staging, study_dataset
from tpcsweep.sweeps.parameters import BEFORE, Parameters
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Cell

from tests.support import synthetic
from tests.support.projects import study_of

Patch = pytest.MonkeyPatch
SPEC = synthetic.specification({"streams": 4, "rtt": 0.5})
WHOLE = synthetic.result()

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[:-20],
    "emptied": lambda _: b"",
    "listed": lambda _: b"[]",
    "edited": lambda whole: json.dumps({**json.loads(whole), "status": "failed"}).encode(),
    "changed": lambda whole: whole.replace(b'"flags"', b'"falgs"'),
}


def test_a_cell_without_a_parameter_that_was_added_later_is_current(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setitem(BEFORE, "encryption", "usual")
    parameters = Parameters().model_dump()
    now, other = SPEC | {"parameters": parameters}, SPEC | {"parameters": parameters | {"encryption": "none"}}
    before = SPEC | {"parameters": {k: v for k, v in parameters.items() if k != "encryption"}}
    cell_files.write_cell(tmp_path / "c.json", before, WHOLE)
    assert not cell_files.stale(tmp_path / "c.json", now)
    assert cell_files.stale(tmp_path / "c.json", other)


STATES = ["missing", "current", "stale", "placeholder", *DAMAGES]


def whole(spec: dict[str, Any]) -> CellResult:
    return CellResult.from_json(synthetic.cell(spec))


def bring(path: Path, state: str, spec: dict[str, Any] = SPEC) -> None:
    """Write a cell's file as it may be found."""
    if state == "placeholder":
        staging.write_placeholder(path, spec, "no path")
    elif state != "missing":
        cell_files.write_cell(path, spec | ({"repetition": 7} if state == "stale" else {}), whole(spec))
    if state == "newer":
        content = {"spec": spec, **whole(spec).to_json(), "format": 1}
        content["summary"]["of_a_later_version"] = 1.0
        path.write_bytes(format_content(content))
    if state in DAMAGES:
        path.write_bytes(DAMAGES[state](path.read_bytes()))


@given(place=st.sampled_from(STATES), staged=st.sampled_from(STATES))
def test_publishing_makes_a_place_current_from_whole_staged_cells_alone(place: str, staged: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, source = Path(name, "cells/c.json"), Path(name, "staging/c.json")
        for state, file in ((place, path), (staged, source)):
            bring(file, state)
            assert bool(cell_files.damage(file)) == (state in DAMAGES)
            assert state == "missing" or (cell_files.unmeasured_reason(file) is not None) == (
                state == "placeholder"
            )
        before = path.read_bytes() if path.exists() else None
        current, kept = staging.publish(source, path, SPEC), place == "current"
        assert current == (not cell_files.stale(path, SPEC)) == (kept or staged == "current")
        if kept or not current:
            assert (path.read_bytes() if path.exists() else None) == before  # a measured cell is not replaced
        else:
            assert path.read_bytes() == source.read_bytes()  # the staged copy outlives Snakemake's clean-up
            # An old measurement is kept, and a placeholder is none.
            kept_as = {"missing": [], "placeholder": [], "stale": ["c.json.stale"]}.get(
                place, ["c.json.damaged"]
            )
            aside = {file.name: file.read_bytes() for file in path.parent.glob("c.json.*")}
            assert aside == dict.fromkeys(kept_as, before)


def test_files_that_are_set_aside_are_all_kept(tmp_path: Path) -> None:
    path, kept = tmp_path / "c.json", {}
    for state in ("current", "stale", "cut", "current"):
        bring(path, state)
        content = path.read_bytes()
        kept[staging.set_aside(path, "damaged")] = content
    assert len(kept) == 4
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("state", ["current", "stale", "edited", "placeholder", "missing"])
def test_a_placeholder_replaces_no_measured_cell(tmp_path: Path, state: str) -> None:
    cell = tmp_path / "c.json"
    bring(cell, state)
    before = cell.read_bytes() if cell.exists() else b""
    staging.write_placeholder(cell, SPEC, "no path now")
    assert cell_files.unmeasured_reason(cell) == "no path now"
    assert cell_files.damage(cell) == ""
    aside = [file.read_bytes() for file in tmp_path.glob("c.json.*")]
    assert aside == ([before] if state in ("current", "stale", "edited") else [])


@pytest.mark.parametrize("lacking", ["status", "flags", "summary", "samples", "provenance"])
def test_a_cell_needs_its_keys(tmp_path: Path, lacking: str) -> None:
    cell = tmp_path / "c.json"
    assert cell_files.damage(cell) == ""
    content = {"spec": SPEC, **WHOLE.to_json()}
    for wrong in ({key: value for key, value in content.items() if key != lacking}, content | {lacking: 7}):
        cell.write_bytes(format_content(wrong))
        assert cell_files.damage(cell) == f"without {lacking} as cells have them"


def refusal(folder: Path) -> str:
    with pytest.raises(run_lock.ResultsError, match="choose another folder with --config results=F") as error:
        run_lock.lock_results(folder)
    return str(error.value)


def test_folders_that_cannot_be_locked_or_written_are_refused(tmp_path: Path, monkeypatch: Patch) -> None:
    (kept := tmp_path / "kept").write_text("all of it")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.lock").symlink_to(kept)
    assert "linked/.lock: " in refusal(tmp_path / "linked")
    assert kept.read_text() == "all of it"
    assert "demo: Not a directory" in refusal(kept / "demo")
    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
        assert "No locks available" in refusal(tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    assert f"user {os.geteuid()} cannot write to it" in refusal(tmp_path)


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
PARTS = st.dictionaries(st.text(max_size=3), PLAIN | st.lists(PLAIN, max_size=2), max_size=2)
CONTENTS = st.builds(lambda spec, others: {"spec": spec, **others}, PARTS, PARTS)


@given(CONTENTS)
def test_what_is_written_is_read_however_it_is_laid_out_since(content: dict[str, Any]) -> None:
    text = format_content(content)
    assert parse_content(text) == content
    assert text.startswith(b'{"spec":')
    assert parse_content(json.dumps(json.loads(text), indent=2).encode()) == content


@given(CONTENTS, st.data())
def test_what_was_cut_or_changed_is_damaged(content: dict[str, Any], data: st.DataObject) -> None:
    text = bytearray(format_content(content))
    with pytest.raises(DamagedError, match="not JSON"):
        parse_content(bytes(text[: data.draw(st.integers(0, len(text) - 1))]))
    text[data.draw(st.integers(0, text.rindex(b',"checksum":') - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DamagedError):
        assert parse_content(bytes(text)) == content


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"null", b'{"status": "ok"}', b'{"spec": []}', b'{"spec": {}, "x": NaN}', b'{"spec": {}}'],
)
def test_what_is_no_cell_is_damaged(text: bytes) -> None:
    with pytest.raises(DamagedError):
        parse_content(text)


FOUR = {"rtt": [5, 20], "streams": [1, 2]}


@pytest.fixture(autouse=True)
def _by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(staging.CLEARS_AT_END, raising=False)


def put(study: SweepStudy, cell: Cell, state: str = "current") -> None:
    """Write a measured cell to staging, and what became of it to its place."""
    bring(staging.staged_file(study, cell), "current", cell_spec(study, cell))
    bring(study.cell_file(cell), state, cell_spec(study, cell))


WHY = {"missing": "the file was missing", "stale": "of another specification: ", "placeholder": "no path"}
WHY |= {"changed": "changed after it was written", "newer": "of_a_later_version"}
"""The reason why the dataset lacks a cell."""
ASIDE = {"stale": [".stale"], "changed": [".damaged"], "newer": [".damaged"]}


@pytest.mark.parametrize(
    "states",
    [
        ["current", "missing", "stale", "changed"],
        ["newer", "current", "placeholder", "current"],
        ["missing", "stale", "changed", "placeholder"],
    ],
)
def test_a_dataset_has_current_cells_and_others_are_measured_next(tmp_path: Path, states: list[str]) -> None:
    study = study_of(tmp_path, parameters=FOUR)
    for state, cell in zip(states, study.grid.cells, strict=True):
        put(study, cell, state)
    output = study.folder / "dataset.nc"
    if "current" in states:
        study_dataset.fold_study(study, output)
        with xr.open_dataset(output) as dataset:
            found = [STATUS[value] for value in dataset["status"].values.ravel()]
        assert found == ["ok" if state == "current" else NOT_MEASURED for state in states]
    else:
        with pytest.raises(DatasetError):
            study_dataset.fold_study(study, output)
        assert not output.exists()
    reasons = {path: hole.why for hole in staging.holes(study.folder) for path in hole.cells}
    for state, cell in zip(states, study.grid.cells, strict=True):
        file = study.cell_file(cell)
        assert WHY.get(state, "") in reasons.get(cell.path, "")
        assert (cell.path in reasons) == (state != "current")
        # Snakemake measures a missing file; a file with a measurement is renamed.
        assert file.exists() == (state == "current")
        assert [path.suffix for path in file.parent.glob(f"{file.name}.*")] == ASIDE.get(state, [])
        kept = staging.staged_file(study, cell).exists()
        assert kept == (state != "current" or "current" not in states)


def test_a_dataset_tells_that_a_signal_stopped_its_run(tmp_path: Path) -> None:
    """Only while cells are missing: a later run may have measured them."""
    study = study_of(tmp_path, parameters=FOUR)
    for cell in study.grid.cells[:3]:
        put(study, cell)
    progress.begin_progress(study.folder, len(study.grid.cells))
    with pytest.raises(SystemExit), progress.JobProgress("demo", "rtt=1", study.folder):
        raise SystemExit(130)
    stopped = []
    for cells in ((), study.grid.cells[3:]):
        for cell in cells:
            put(study, cell)
        study_dataset.fold_study(study, study.folder / "dataset.nc")
        with xr.open_dataset(study.folder / "dataset.nc") as dataset:
            stopped.append(dataset.attrs.get("stopped"))
    assert stopped == ["by a signal, such as that of Ctrl-C", None]


def test_a_run_keeps_files_until_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(staging.CLEARS_AT_END, "at its end")
    study = study_of(tmp_path, parameters=FOUR)
    for state, cell in zip(("current", "placeholder", "changed", "stale"), study.grid.cells, strict=True):
        put(study, cell, state)
    study_dataset.fold_study(study, study.folder / "dataset.nc")
    assert all(study.cell_file(cell).exists() for cell in study.grid.cells)
    put(study, study.grid.cells[3])  # measured after the dataset was made
    staging.clear_unmeasured(study)
    assert [study.cell_file(cell).exists() for cell in study.grid.cells] == [True, False, False, True]


def test_a_run_without_a_dataset_names_its_own_reasons(tmp_path: Path) -> None:
    study = study_of(tmp_path, parameters=FOUR)
    first, second, third, fourth = study.grid.cells
    put(study, third)
    for cell in (first, second, fourth):
        staging.write_placeholder(study.cell_file(cell), cell_spec(study, cell), "the run before")
    staging.list_holes(study, {})
    staging.write_placeholder(study.cell_file(first), cell_spec(study, first), "quota: secrets")
    put(study, second)
    study.cell_file(fourth).unlink()  # nothing tried it
    staging.clear_unmeasured(study)
    reasons = {path: hole.why for hole in staging.holes(study.folder) for path in hole.cells}
    # The first reason is that of the last line of a run.
    assert list(reasons.items()) == [(first.path, "quota: secrets"), (fourth.path, "the run before")]
    assert third.path not in reasons
