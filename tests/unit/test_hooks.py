# SPDX-License-Identifier: Apache-2.0
"""The start and the end of a run, the user's command at its end, and Snakemake's messages on the terminal."""

import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_tpcsweep import LogHandler
from tpcsweep import results
from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.running import folding, hooks
from tpcsweep.running.hooks import notify
from tpcsweep.running.status import counted
from tpcsweep.running.studies import Studies

from tests.support.workflow import ROOT

Patch = pytest.MonkeyPatch
MEASURED = {"status": "ok", "flags": [], "summary": {}, "provenance": {}}


def studies(folder: Path, sweep: str = "smoke", **config: Any) -> Studies:
    return Studies({"sweep": sweep, "testbed": "netns", "results": str(folder), **config}, ROOT)


def put(study: Configuration, number: int, **changes: Any) -> None:
    cell = study.grid.cells[number]
    results.write_cell(study.cell_file(cell), wanted(study, cell), MEASURED | changes)


def test_a_run_ends_with_its_cells_and_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = studies(tmp_path)
    [study] = found.sweeps
    put(study, 0, flags=["disturbed"])
    put(study, 1, status="failed")
    (study.folder / "index.html").touch()
    hooks.end(found, well=True, published=False)
    assert capsys.readouterr().err.splitlines() == [
        "smoke: 1 of 2 cells measured, 1 with a warning, 1 failed",
        f"page: {study.folder}/index.html",
    ]


def test_placeholders_without_a_fold_are_listed_and_measured_next(tmp_path: Path, capsys: Any) -> None:
    found = studies(tmp_path)
    [study] = found.sweeps
    put(study, 0)
    cell = study.grid.cells[1]
    results.write_placeholder(study.cell_file(cell), wanted(study, cell), "no path")
    with pytest.raises(SystemExit, match=r"^1$"):
        hooks.end(found, well=True, published=False)
    said = "smoke: 1 of 2 cells measured; 1 not measured (no path): snakemake --config sweep=smoke "
    assert capsys.readouterr().err.startswith(said)
    assert not study.cell_file(cell).exists()
    assert [hole.why for hole in folding.holes(study.folder)] == ["no path"]


@pytest.mark.parametrize("well", [True, False])
def test_the_end_of_many_sweeps_has_six_lines(tmp_path: Path, capsys: Any, well: bool) -> None:
    found = studies(tmp_path, "demo,matrix,mtu,smoke,tools,chep2024_fig4@simulation", notify="exit 3")
    for number in range(2):
        put(found.measured[3], number)
    for name in ("index.html", "published.html"):
        (tmp_path / name).touch()
    hooks.end(found, well=well, published=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("demo: 0 of 24 cells measured")
    assert lines[2] == "and 4 more; 1 of 6 sweeps are complete"
    assert "notify: 'exit 3' ended with status 3" in lines[3]
    assert lines[4:] == [f"page: {tmp_path}/{name}" for name in ("index.html", "published.html")]


def test_a_testbed_is_tried_once_and_only_for_stale_cells(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(folding.CLEARS, "")  # and deleted afterwards
    tried: list[object] = []
    testbed = SimpleNamespace(require=tried.append, EXPECTED=())
    monkeypatch.setattr(hooks.testbeds, "of", lambda _: testbed)
    fresh = studies(tmp_path / "fresh")
    for number in range(2):
        put(fresh.sweeps[0], number)
    for found, count in ((fresh, 0), (studies(tmp_path / "stale", "smoke,demo"), 1)):
        hooks.begin(found)
        assert len(tried) == count


def told(folder: Path, command: str, ending: Any = "complete") -> str:
    [study] = studies(folder).sweeps
    return notify(study, command, ending, counted(study))


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    assert told(tmp_path, "") == told(tmp_path, "true") == ""
    assert "notify: 'exit 7' ended with status 7" in told(tmp_path, "exit 7", "failed")
    assert "ended with status 127" in told(tmp_path, "no-such-command-here")


def test_a_command_has_no_input_and_the_run_in_its_environment(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("MINE", "kept")
    script = "import json, os, sys; json.dump([sys.stdin.read(), dict(os.environ)], sys.stdout)"
    [study] = studies(tmp_path).sweeps
    study.folder.mkdir()
    for page in ("", str(study.folder / "index.html")):
        if page:
            Path(page).touch()
        command = f"{sys.executable} -c {json.dumps(script)} >{tmp_path}/said"
        assert told(tmp_path, command, "incomplete") == ""
        given, environment = json.loads((tmp_path / "said").read_text())
        assert (given, environment["MINE"], environment["TPCSWEEP_PAGE"]) == ("", "kept", page)
        assert environment["TPCSWEEP_STATUS"] == "incomplete"
        assert environment["TPCSWEEP_LEFT"] == environment["TPCSWEEP_CELLS"] == "2"
        assert Path(environment["TPCSWEEP_RESULTS"]) == study.folder
    assert "TPCSWEEP_SWEEP" not in os.environ


def shown(capsys: pytest.CaptureFixture[str], record: dict[str, Any], **asked: bool) -> str:
    common = dict.fromkeys(("dryrun", "verbose", "debug_dag", "printshellcmds"), False) | asked
    handler = LogHandler(SimpleNamespace(**common), None)  # type: ignore[arg-type]
    handler.handle(logging.makeLogRecord(record))
    return capsys.readouterr().err


INFO, ERROR = {"levelno": logging.INFO}, {"levelno": logging.ERROR}
JOB_INFO = INFO | {"event": LogEvent.JOB_INFO, "msg": "rule dataset:"}
JOB_ERROR = ERROR | {"event": LogEvent.JOB_ERROR, "rule_name": "fits"}


@pytest.mark.parametrize(
    ("record", "shows"),
    [
        (JOB_INFO, ""),
        (INFO | {"event": LogEvent.SHELLCMD, "msg": "python x"}, ""),
        (JOB_ERROR | {"log": ["a.log"]}, "fits failed; log: a.log\n"),
        (JOB_ERROR, "fits failed\n"),
        (ERROR | {"msg": "RuleException:\nexit 1"}, ""),
        ({"msg": "Cannot restore a.json: no backup found.", "levelno": logging.WARNING}, ""),
        (ERROR | {"msg": "No space left on device"}, "No space left on device\n"),
        (INFO | {"msg": "Nothing to be done (all files)"}, "Nothing to be done (all files)\n"),
    ],
)
def test_the_terminal_shows_errors_alone_or_all_if_asked(capsys: Any, record: Any, shows: str) -> None:
    assert shown(capsys, record) == shows
    for asked in ("dryrun", "verbose", "debug_dag", "printshellcmds"):
        assert shown(capsys, JOB_INFO, **{asked: True}) == "rule dataset:\n"
