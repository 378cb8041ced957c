# SPDX-License-Identifier: Apache-2.0
"""A sweep's dataset of whatever files its cells have, and the list of the others."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep import results
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Cell
from tpcsweep.dataset import STATUS, DatasetError
from tpcsweep.running import folding
from tpcsweep.variables import NOT_MEASURED

from tests.support import synthetic
from tests.support.projects import study_of

FOUR = {"rtt": [5, 20], "streams": [1, 2]}


@pytest.fixture(autouse=True)
def _by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(folding.CLEARS, raising=False)


def put(study: Configuration, cell: Cell, figure: str = "throughput", **changes: object) -> Path:
    """Write a measured cell to staging and to its place."""
    spec, file = wanted(study, cell), study.cell_file(cell)
    record = synthetic.cell(spec)
    record["summary"].setdefault(figure, 1.0)
    results.write_cell(file, {**record.pop("spec"), **changes}, record)
    staged = results.staged_file(study, cell)
    staged.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, staged)
    return file


def change(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"status":"ok"', b'"status":"KO"'))


def placeholder(study: Configuration, cell: Cell) -> None:
    put(study, cell).unlink()
    results.write_placeholder(study.cell_file(cell), wanted(study, cell), "no path")


STATES: dict[str, tuple[Callable[[Configuration, Cell], object], str]] = {
    "current": (put, ""),
    "missing": (lambda study, cell: put(study, cell).unlink(), "the file was missing"),
    "stale": (lambda study, cell: put(study, cell, repetition=7), "of another specification: "),
    "changed": (lambda study, cell: change(put(study, cell)), "changed after it was written"),
    "newer": (lambda study, cell: put(study, cell, figure="of_a_later_version"), "of_a_later_version"),
    "placeholder": (placeholder, "no path"),
}
"""What a cell's file may be, and the reason why the dataset lacks the cell."""
ASIDE = {"stale": [".stale"], "changed": [".damaged"], "newer": [".damaged"]}


@settings(max_examples=5)
@given(states=st.lists(st.sampled_from([*STATES]), min_size=4, max_size=4))
def test_a_dataset_is_made_of_current_cells_and_the_others_are_measured_next(states: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        study = study_of(Path(name), parameters=FOUR)
        for state, cell in zip(states, study.grid.cells, strict=True):
            STATES[state][0](study, cell)
        output = study.folder / "dataset.nc"
        if "current" in states:
            folding.fold_study(study, output)
            with xr.open_dataset(output) as dataset:
                found = [STATUS[value] for value in dataset["status"].values.ravel()]
            assert found == ["ok" if state == "current" else NOT_MEASURED for state in states]
        else:
            with pytest.raises(DatasetError):
                folding.fold_study(study, output)
            assert not output.exists()
        reasons = {path: hole.why for hole in folding.holes(study.folder) for path in hole.cells}
        for state, cell in zip(states, study.grid.cells, strict=True):
            file = study.cell_file(cell)
            assert STATES[state][1] in reasons.get(cell.path, "")
            assert (cell.path in reasons) == (state != "current")
            # Snakemake measures a missing file; a file with a measurement is renamed.
            assert file.exists() == (state == "current")
            aside = [path.suffix for path in file.parent.glob(f"{file.name}.*")]
            assert aside == ASIDE.get(state, [])
            kept = results.staged_file(study, cell).exists()
            assert kept == (state != "current" or "current" not in states)


def test_the_cells_of_a_deployment_with_one_reason_are_listed_together(tmp_path: Path) -> None:
    study = study_of(tmp_path, parameters=FOUR)
    put(study, study.grid.cells[0])
    for cell in study.grid.cells[2:]:
        placeholder(study, cell)
    folding.fold_study(study, study.folder / "dataset.nc")
    cells = [cell.path for cell in study.grid.cells]
    assert json.loads((study.folder / folding.FILE).read_bytes()) == [
        {"deployment": "rtt=5", "cells": cells[1:2], "why": "the file was missing"},
        {"deployment": "rtt=20", "cells": cells[2:], "why": "no path"},
    ]
    assert folding.holes(tmp_path) == []


def test_a_run_keeps_files_until_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folding.CLEARS, "at its end")
    study = study_of(tmp_path, parameters=FOUR)
    first, second, third, fourth = study.grid.cells
    put(study, first)
    placeholder(study, second)
    change(put(study, third))
    put(study, fourth, repetition=7)
    folding.fold_study(study, study.folder / "dataset.nc")
    assert all(study.cell_file(cell).exists() for cell in study.grid.cells)
    put(study, fourth)  # measured after the dataset was made
    folding.clear(study)
    assert [study.cell_file(cell).exists() for cell in study.grid.cells] == [True, False, False, True]
