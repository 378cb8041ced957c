# SPDX-License-Identifier: Apache-2.0
"""Cells counted by their state."""

from pathlib import Path

import pytest
from rich.console import Console
from tpcsweep import results
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.files import write_json
from tpcsweep.running import folding, status

from tests.support.projects import study_of

WELL = {"status": "ok", "flags": [], "summary": {}, "provenance": {}}
REASON = "rtt asked 2 ms, found 9 ms"


@pytest.fixture
def study(tmp_path: Path) -> Configuration:
    """Eight cells: three measured (one flagged, one noted), one failed, one tried, one of another specification."""
    found = study_of(tmp_path, parameters={"rtt": [1, 2], "streams": [1, 2, 3, 4]})
    outcomes = [{}, {"flags": ["not_steady"]}, {"flags": ["wide_interval"]}, {"status": "failed"}]
    *measured, tried, other = found.grid.cells[:6]
    for outcome, cell in zip(outcomes, measured, strict=True):
        results.write_cell(found.cell_file(cell), wanted(found, cell), WELL | outcome)
    hole = folding.Hole(tried.deployment.path, (tried.path,), REASON)
    write_json(found.folder / folding.FILE, [hole._asdict()])
    spec = wanted(found, other)
    spec["parameters"]["bandwidth"] = 0.123
    results.write_cell(found.cell_file(other), spec, WELL)
    return found


def test_each_cell_is_counted_once_and_a_damaged_one_is_left_to_measure(study: Configuration) -> None:
    found = status.counted(study)
    assert (found.measured, found.flagged, found.failed) == (3, 1, 1)
    assert (found.not_measured, found.left, found.missing, found.cells) == (1, 3, 4, 8)
    assert status.flagged_files(study, "not_steady") == [study.cell_file(study.grid.cells[1])]
    file = study.cell_file(study.grid.cells[0])
    file.write_bytes(file.read_bytes()[:-5] + b"\0}}}}")
    found = status.counted(study)
    assert (found.measured, found.cells) == (2, 8)


def test_a_cell_in_staging_is_measured(study: Configuration) -> None:
    cell, content = study.grid.cells[-1], WELL | {"flags": ["not_steady"]}
    results.write_cell(results.staged_file(study, cell), wanted(study, cell), content)
    found = status.counted(study)
    assert (found.measured, found.flagged, found.cells) == (4, 2, 8)
    assert study.cell_file(cell) not in status.flagged_files(study, "not_steady")


def test_the_table_has_the_reason_the_command_and_a_run_under_way(study: Configuration) -> None:
    def shown() -> str:
        console = Console(width=200)
        with console.capture() as capture:
            console.print(status.status_table(study, status.counted(study)))
        return capture.get()

    assert REASON in shown()
    assert study.command in shown().replace("\n", "")
    assert "a run is under way" not in shown()
    results.hold(study.folder)
    assert "a run is under way: snakemake with pid" in shown()
