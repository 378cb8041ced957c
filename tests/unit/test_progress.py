# SPDX-License-Identifier: Apache-2.0
"""The start, the lines, the state and the end of a run, and Snakemake's messages on the terminal."""

import contextlib
import dataclasses
import json
import logging
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_tpcsweep import LogHandler
from tpcsweep.common.files import write_json
from tpcsweep.common.signals import STOPPED
from tpcsweep.data import cell_files
from tpcsweep.measuring.steady import analyse
from tpcsweep.pages import making
from tpcsweep.running import hooks, run_lock, staging, status
from tpcsweep.running.changes import stale_lines
from tpcsweep.running.hooks import notify
from tpcsweep.running.progress import JobProgress, begin_progress
from tpcsweep.running.short_cells import short_lines
from tpcsweep.running.status import count_cells
from tpcsweep.running.studies import Studies
from tpcsweep.sweeps.parameters import BEFORE
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec

from tests.support import synthetic
from tests.support.projects import study_of
from tests.support.workflow import ROOT

JOBS, CELLS = 8, 25


def test_jobs_side_by_side_count_every_cell_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin_progress(tmp_path, JOBS * CELLS)

    def job(name: str) -> None:
        with JobProgress("demo", name, tmp_path) as shown:
            for cell in range(CELLS):
                shown.show_throughput(None, 0.1)
                shown.show_throughput(analyse(np.ones(100), 0.1, 0.95), 10.0)
                shown.end(f"streams={cell}", "ok", 1.5, [])

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(job, "abcdefgh"))
    lines = capsys.readouterr().err.splitlines()
    told = [f"demo: {job}: 25 cells" for job in "abcdefgh"]
    assert sorted(line.partition(", ")[0] for line in lines) == told
    assert any(f" {JOBS * CELLS}/{JOBS * CELLS} cells" in line for line in lines)


GOOD, NOTED = ("a", "ok", 1.5, []), ("b", "ok", 0.5, ["wide_interval"])
LOST = ("c", "failed", 9.0, ["disturbed"])


@pytest.mark.parametrize(
    ("ended", "skipped", "more", "line"),
    [
        ([GOOD], 0, 0, r"1 cell, 1\.5 Gbit/s, \d+ s · 1/1 cells"),
        # A second measurement of a cell replaces the first.
        ([("a", "failed", None, []), GOOD], 0, 0, r"1 cell, 1\.5 Gbit/s, \d+ s · 1/1 cells"),
        ([GOOD, NOTED], 0, 3, r"2 cells, 0\.5 to 1\.5 Gbit/s, \d+ s · 2/5 cells, about \d+ (s|min) left"),
        ([LOST], 2, 0, r"3 cells, 1 failed, 2 not measured, 1 machine disturbed, \d+ s · 3/3 cells"),
    ],
)
def test_a_line_says_what_became_of_every_cell(
    tmp_path: Path, capsys: Any, ended: list[Any], skipped: int, more: int, line: str
) -> None:
    begin_progress(tmp_path, len({cell for cell, *_ in ended}) + skipped + more)
    with JobProgress("demo", "rtt=5", tmp_path) as shown:
        for outcome in ended:
            shown.end(*outcome)
        if skipped:
            shown.skip(skipped, "no path")
    *before, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"demo: rtt=5: {line}", last)
    assert before == ["demo: rtt=5: 2 cells not measured: no path"] * bool(skipped)


def test_a_job_without_cells_and_one_that_fails_print_no_line(tmp_path: Path, capsys: Any) -> None:
    # As in a module, whose workflow did not begin the run.
    with JobProgress("demo", "rtt=5", tmp_path) as shown:
        shown.stage("deploying rtt=5")
    with pytest.raises(KeyError), JobProgress("demo", "rtt=5", tmp_path) as shown:
        shown.end("streams=1", "ok", 1.0, [])
        raise KeyError
    assert capsys.readouterr().err == ""
    shown.stage("waiting for another user's run")
    assert capsys.readouterr().err == "demo: waiting for another user's run\n"


WELL = synthetic.result()
REASON = "rtt asked 2 ms, found 9 ms"


def put(study: SweepStudy, number: int, **changes: Any) -> None:
    cell = study.grid.cells[number]
    cell_files.write_cell(study.cell_file(cell), cell_spec(study, cell), dataclasses.replace(WELL, **changes))


@pytest.fixture
def study(tmp_path: Path) -> SweepStudy:
    """Eight cells: one of another specification, one tried, one failed, four measured: flagged, noted, in staging."""
    found = study_of(tmp_path, parameters={"rtt": [1, 2], "streams": [1, 2, 3, 4]})
    outcomes = [{}, {"flags": ["not_steady"]}, {"flags": ["wide_interval"]}, {"status": "failed"}]
    for number, outcome in enumerate(outcomes):
        put(found, number, **outcome)
    tried, other = found.grid.cells[4:6]
    hole = staging.Hole(tried.deployment.path, (tried.path,), REASON)
    write_json(found.folder / staging.FILE, [hole._asdict()])
    spec = cell_spec(found, other)
    spec["parameters"]["bandwidth"] = 0.123
    cell_files.write_cell(found.cell_file(other), spec, WELL)
    staged, content = found.grid.cells[-1], synthetic.result(flags=["not_steady"])
    cell_files.write_cell(staging.staged_file(found, staged), cell_spec(found, staged), content)
    return found


def test_each_cell_is_counted_once_and_a_damaged_one_is_left_to_measure(study: SweepStudy) -> None:
    found = status.count_cells(study)
    assert (found.measured, found.flagged, found.failed) == (4, 2, 1)
    assert (found.not_measured, found.left, found.missing, found.cells) == (1, 2, 3, 8)
    # A cell in staging has no file to delete.
    assert status.flagged_files(study, "not_steady") == [study.cell_file(study.grid.cells[1])]
    file = study.cell_file(study.grid.cells[0])
    file.write_bytes(file.read_bytes()[:-5] + b"\0}}}}")
    found = status.count_cells(study)
    assert (found.measured, found.cells) == (3, 8)


def test_damaged_lines_of_simulated_cells_are_left_and_older_ones_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BEFORE, "encryption", "usual")
    found = study_of(tmp_path, "simulation", parameters={"streams": [1, 2, 3, 4]})
    specifications = [cell_spec(found, cell) for cell in found.grid.cells]
    del specifications[0]["parameters"]["encryption"]  # computed before there was such a parameter
    lines = [cell_files.format_cell(spec, WELL) for spec in specifications[:3]]
    found.cells_file.parent.mkdir(parents=True)
    found.cells_file.write_bytes(b"\n".join([lines[0], lines[1][:-9], lines[2]]))  # without the last cell
    counted = status.count_cells(found)
    assert (counted.measured, counted.left, counted.cells) == (2, 2, 4)


def test_the_table_has_the_reason_the_command_and_a_run_under_way(study: SweepStudy) -> None:
    def shown() -> str:
        console = Console(width=200)
        with console.capture() as capture:
            console.print(status.status_table(study, status.count_cells(study)))
        return capture.get()

    assert REASON in shown()
    assert study.command in shown().replace("\n", "")
    assert "a run is under way" not in shown()
    run_lock.lock_results(study.folder)
    assert "a run is under way: snakemake with pid" in shown()


def studies(folder: Path, sweep: str = "smoke", **config: Any) -> Studies:
    return Studies({"sweep": sweep, "testbed": "netns", "results": str(folder), **config}, ROOT)


def test_placeholders_without_a_fold_are_listed_and_measured_next(tmp_path: Path, capsys: Any) -> None:
    found = studies(tmp_path)
    [study] = found.sweeps
    put(study, 0)
    (study.folder / "index.html").touch()
    cell = study.grid.cells[1]
    staging.write_placeholder(study.cell_file(cell), cell_spec(study, cell), "no path")
    with pytest.raises(SystemExit, match=r"^1$"):
        hooks.end_run(found, well=True, published=False)
    said, page = capsys.readouterr().err.splitlines()
    assert said.startswith(
        "smoke: 1 of 2 cells measured; 1 not measured (no path): snakemake --config sweep=smoke "
    )
    assert page == f"page: {study.folder}/index.html"
    assert not study.cell_file(cell).exists()
    assert [hole.why for hole in staging.holes(study.folder)] == ["no path"]


@pytest.mark.parametrize(
    ("reasons", "said"), [(["no path"], "no path"), (["no path", "no disk"], "no path and 1 more reason")]
)
def test_a_reason_of_several_deployments_is_one(
    reasons: list[str], said: str, tmp_path: Path, capsys: Any
) -> None:
    found = studies(tmp_path, "demo")
    [study] = found.sweeps
    for number, cell in enumerate(study.grid.cells):
        reason = reasons[number % len(reasons)]
        staging.write_placeholder(study.cell_file(cell), cell_spec(study, cell), reason)
    with pytest.raises(SystemExit, match=r"^1$"):
        hooks.end_run(found, well=True)
    assert f"{len(study.grid.cells)} not measured ({said}): " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statuses", "rules"),
    [
        (("ok", "ok"), ""),
        (("ok", "failed"), ""),
        (("ok", "not_measured"), "any"),
        (("failed", "failed"), "any all"),
        (("failed", "not_measured"), "any all"),
    ],
)
def test_the_rule_for_the_exit_code(tmp_path: Path, statuses: tuple[str, ...], rules: str) -> None:
    for rule in ("any", "all", "none"):
        found = studies(tmp_path / rule, fail_on=rule)
        [study] = found.sweeps
        for number, kind in enumerate(statuses):
            if kind == "not_measured":
                cell = study.grid.cells[number]
                staging.write_placeholder(study.cell_file(cell), cell_spec(study, cell), "no path")
            else:
                put(study, number, status=kind)
        ends = pytest.raises(SystemExit, match=r"^1$") if rule in rules.split() else contextlib.nullcontext()
        with ends:
            hooks.end_run(found, well=True)
        # Snakemake runs no hook without jobs, so the next run measures the cells of a sweep without any result.
        retried = [
            number
            for number, kind in enumerate(statuses)
            if kind != "ok" and ("all" in rules or kind != "failed")
        ]
        assert list(staging.stale_cells(study)) == [study.grid.cells[number] for number in retried]
        listed = {path: hole.why for hole in staging.holes(study.folder) for path in hole.cells}
        assert set(listed) == {study.grid.cells[number].path for number in retried} and all(listed.values())
    with pytest.raises(ConfigurationError, match=r"fail_on.*any.*all.*none"):
        studies(tmp_path, fail_on="some")


@pytest.mark.parametrize("well", [True, False])
def test_the_end_of_many_sweeps_has_six_lines(tmp_path: Path, capsys: Any, well: bool) -> None:
    found = studies(tmp_path, "demo,matrix,mtu,smoke,tools,chep2024_fig4@simulation", notify="exit 3")
    for number in range(2):
        put(found.measured[3], number)
    put(found.measured[0], 0, flags=["disturbed"])
    put(found.measured[0], 1, status="failed")
    for name in ("index.html", "published.html"):
        (tmp_path / name).touch()
    hooks.end_run(found, well=well, published=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("demo: 1 of 24 cells measured, 1 with a warning, 1 failed")
    assert lines[2] == "and 4 more; 1 of 6 sweeps are complete"
    assert "notify: 'exit 3' ended with status 3" in lines[3]
    assert lines[4:] == [f"page: {tmp_path}/{name}" for name in ("index.html", "published.html")]


def test_a_testbed_is_tried_once_and_only_for_stale_cells(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv(staging.CLEARS_AT_END, "")  # and deleted afterwards
    tried: list[object] = []
    testbed = SimpleNamespace(require=tried.append, EXPECTED=(), warnings=lambda _: ["pair p: soon over"])
    monkeypatch.setattr(hooks.kinds, "load_testbed", lambda _: testbed)
    fresh = studies(tmp_path / "fresh")
    for number in range(2):
        put(fresh.sweeps[0], number)
    for found, count in ((fresh, 0), (studies(tmp_path / "stale", "smoke,demo"), 1)):
        hooks.begin_run(found)
        assert len(tried) == count
        assert capsys.readouterr().err == "smoke: pair p: soon over\n" * count


def test_a_command_has_no_input_and_the_run_in_its_environment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MINE", "kept")
    script = "import json, os, sys; json.dump([sys.stdin.read(), dict(os.environ)], sys.stdout)"
    [study] = studies(tmp_path).sweeps
    study.folder.mkdir()
    for page in ("", str(study.folder / "index.html")):
        if page:
            Path(page).touch()
        command = f"{sys.executable} -c {json.dumps(script)} >{tmp_path}/said"
        assert notify(study, command, "incomplete", count_cells(study)) == ""
        given, environment = json.loads((tmp_path / "said").read_text())
        assert (given, environment["MINE"], environment["TPCSWEEP_PAGE"]) == ("", "kept", page)
        assert environment["TPCSWEEP_STATUS"] == "incomplete"
        assert environment["TPCSWEEP_LEFT"] == environment["TPCSWEEP_CELLS"] == "2"
        assert Path(environment["TPCSWEEP_RESULTS"]) == study.folder
    assert "TPCSWEEP_SWEEP" not in os.environ


def shown(capsys: pytest.CaptureFixture[str], *records: dict[str, Any], **asked: bool) -> str:
    common = dict.fromkeys(("dryrun", "verbose", "debug_dag", "printshellcmds"), False) | asked
    handler = LogHandler(SimpleNamespace(**common), None)
    for record in records:
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


def test_stages_after_the_cells_say_when_they_begin_and_end(capsys: Any) -> None:
    def begin(rule: str, job: int) -> dict[str, Any]:
        return INFO | {
            "event": LogEvent.JOB_INFO,
            "rule_name": rule,
            "jobid": job,
            "wildcards": {"study": "demo"},
        }

    def end(job: int) -> dict[str, Any]:
        return INFO | {"event": LogEvent.JOB_FINISHED, "job_id": job}

    said = shown(capsys, begin("dataset", 1), begin("verdicts", 2), end(2), end(1), begin("fits", 3))
    assert re.fullmatch(r"demo: dataset …\ndemo: dataset: \d+ s\ndemo: models, which take longest …\n", said)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("Terminating processes on user request, this might take some time.", "stopping"),
        (
            "Will exit after finishing currently running jobs (scheduler).",
            "stopping after the jobs under way",
        ),
    ],
)
def test_a_run_that_its_user_stops_says_so_once_and_reports_no_failures(
    tmp_path: Path, monkeypatch: Any, capsys: Any, message: str, line: str
) -> None:
    monkeypatch.setenv(STOPPED, "")  # and deleted afterwards
    said = shown(capsys, INFO | {"msg": message}, INFO | {"msg": message}, JOB_ERROR)
    assert said.startswith(line) and said.count("\n") == 1
    found = studies(tmp_path)
    put(found.sweeps[0], 0)
    hooks.end_run(found, well=False)
    command = found.sweeps[0].command
    assert capsys.readouterr().err == f"smoke: stopped by you: 1 of 2 cells kept; go on: {command}\n"
    put(found.sweeps[0], 1)
    hooks.end_run(found, well=False)
    words = "smoke: 2 of 2 cells measured; stopped by you before the page was complete; go on: "
    assert capsys.readouterr().err == f"{words}{command}\n"


def test_a_dry_run_has_no_endless_lines(capsys: Any) -> None:
    files = ", ".join(
        f"results/demo/cells/origins=2/streams={number}/repetition=1.json" for number in range(60)
    )
    lines = shown(capsys, INFO | {"msg": f"rule default:\n    input: {files}\n    jobid: 0"}, dryrun=True)
    first, inputs, last, _ = lines.split("\n")
    assert (first, last) == ("rule default:", "    jobid: 0")
    assert len(inputs) < 200 and re.search(r"streams=1/.*… and 5\d more$", inputs)
    assert files in shown(capsys, INFO | {"msg": files}, dryrun=True, printshellcmds=True)


def test_what_makes_measured_cells_stale_is_said_before_they_are_measured(tmp_path: Path) -> None:
    def lines(rtt: object, **changes: object) -> list[str]:
        parameters = {"rtt": rtt, "streams": [1, 2], "bandwidth": "1 Gbit/s", **changes}
        return stale_lines(study_of(tmp_path, parameters=parameters))

    found = study_of(tmp_path, parameters={"rtt": [1, 2], "streams": [1, 2], "bandwidth": 1})
    assert lines([1, 2]) == []
    for number in range(4):
        put(found, number)
    assert lines([1, 2]) == lines([1, 2, 3]) == []
    [line] = lines([1, 2], bandwidth="2 Gbit/s")
    assert line.startswith(
        "4 cells measured with bandwidth 1 Gbit/s (now 2 Gbit/s): a run measures them again"
    )
    [line] = lines("1 ms")
    assert line.startswith(
        "2 missing cells are measured in folders rtt=…: write `rtt: [1 ms]`, with brackets"
    )


@pytest.mark.parametrize(
    ("rtt", "longest", "words"),
    [
        ("80 ms", "2 s", ["2 cells of at most 2 s may end without a byte: gfal-copy takes", "too_short"]),
        ("5 ms", "9 s", ["cells of at most 9 s get the flag too_short"]),
        ("5 ms", "10 s", []),
    ],
)
def test_cells_that_will_be_too_short_are_named(
    tmp_path: Path, rtt: str, longest: str, words: list[str]
) -> None:
    measurement = {"min_time": "1 s", "max_time": longest}
    study = study_of(tmp_path, parameters={"rtt": rtt, "streams": [1, 2]}, measurement=measurement)
    lines = short_lines(study)
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))


def test_a_first_page_replaces_older_ones_and_never_passes_for_the_whole_page(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(making, "make_page", lambda _dataset, page, **_options: page.write_text("first"))
    dataset, page = tmp_path / "dataset.nc", tmp_path / "index.html"
    dataset.touch()
    assert making.make_first_page(dataset, []) == page
    assert page.stat().st_mtime < dataset.stat().st_mtime
    page.write_text("whole")
    assert making.make_first_page(dataset, []) is None
    assert page.read_text() == "whole"
