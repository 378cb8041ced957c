# SPDX-License-Identifier: Apache-2.0
"""The commands of `tpcsweep`: help, completion, answers and exit codes."""

import json
import os
import re
import shlex
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
import xarray as xr
import yaml
from click.shell_completion import BashComplete
from tpcsweep.cli import main
from tpcsweep.common.files import write_text
from tpcsweep.running import progress, run_lock, staging
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds import interface, kinds
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.netns.requirements import MachineError

from tests.support import synthetic
from tests.support.commands import COMMANDS, tpcsweep
from tests.support.workflow import ROOT

EXAMPLE = str(ROOT / "examples/surface.nc")


def failed(*arguments: str) -> str:
    done = tpcsweep(*arguments)
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.fixture
def study(root: Path, monkeypatch: pytest.MonkeyPatch) -> SweepStudy:
    """A sweep of four cells, in the current folder; nothing is measured."""
    monkeypatch.chdir(root)
    sweep = "parameters: {rtt: [5, 20], streams: [1, 2], tcp_buffer: 4 MiB}\n"
    Path("config/sweeps/one.yaml").rename("config/sweeps/probe.yaml").write_text(sweep)
    Path("config/config.yaml").write_text("sweep: probe\ntestbed: one\n")
    return load({"sweep": "probe", "testbed": "one"}, Path())


def fill(study: SweepStudy, cells: int) -> None:
    for cell in study.grid.cells[:cells]:
        spec = cell_spec(study, cell)
        synthetic.write_cell(study.cell_file(cell), spec)


def test_the_list_of_commands_cuts_no_description() -> None:
    listed = tpcsweep("--help").stdout.splitlines()[-len(COMMANDS) :]
    assert [line for line in listed if line.endswith("...")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_every_option_has_help(name: str) -> None:
    done = tpcsweep(name, "--help")
    assert done.exit_code == 0
    assert "Example: tpcsweep" in " ".join(done.stdout.split())
    context = click.Context(main)
    command = main.get_command(context, name)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("hist", ["history"]),
        ("check --sweep pr", ["probe"]),
        ("check --testbed ", ["one"]),
        ("export z", ["zarr"]),
    ],
)
@pytest.mark.usefixtures("study")
def test_a_shell_completes_commands_and_names(words: str, completed: list[str]) -> None:
    *before, last = words.split(" ")
    found = BashComplete(main, {}, "tpcsweep", "_TPCSWEEP_COMPLETE").get_completions(before, last)
    assert [item.value for item in found] == completed


def test_a_sweep_that_can_run_has_no_findings(study: SweepStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds.load_testbed("netns"), "require", lambda _: None)
    done = tpcsweep("check")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "probe: all checks passed")
    told = json.loads(tpcsweep("check", "--json").stdout)
    row = {"subject": "one", "check": "can deploy", "status": "ok", "reason": ""}
    fields = {"pair": "", "role": "", "door": "", "seconds": None}
    assert (told["study"], told["findings"], told["changes"]) == ("probe", [row | fields], [])
    assert not study.folder.exists()


@pytest.mark.usefixtures("study")
def test_everything_that_keeps_a_sweep_from_its_testbed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Mock(side_effect=MachineError("the netns testbed cannot run on this machine"))
    monkeypatch.setattr(kinds.load_testbed("netns"), "require", refused)
    parameters = "{tool: [curl, globus-url-copy], copy_mode: push, tcp_streams: 2}"
    Path("config/sweeps/probe.yaml").write_text(f"parameters: {parameters}\n")
    monkeypatch.setenv("PATH", "/nowhere")
    done = tpcsweep("check", "--json")
    assert done.exit_code == 1
    lines = [found["reason"] for found in json.loads(done.stdout)["findings"]]
    assert any(line.startswith("config/sweeps/probe.yaml: parameters.tcp_streams: given 2") for line in lines)
    assert any(line.startswith("the extra globus") for line in lines)
    assert lines[-1] == "the netns testbed cannot run on this machine"
    assert "can run" not in tpcsweep("check").stdout
    alone = json.loads(tpcsweep("check", "one", "--json").stdout)
    assert [found["reason"] for found in alone["findings"]] == lines[-1:]


@pytest.mark.usefixtures("study")
def test_a_testbed_with_checks_of_its_own_yields_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [interface.Finding("a", "list", "ok", "3 [ms]")]
    rows += [interface.Finding("b", "delete", "failed", "HTTP 403")]
    monkeypatch.setattr(kinds.load_testbed("netns"), "check", lambda _: iter(rows), raising=False)
    done = tpcsweep("check", "one")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "one: 1 of 2 checks failed")
    assert "3 [ms]" in done.stdout
    assert "HTTP 403" in done.stdout
    rows[1] = interface.Finding("b", "delete", "warning", "soon over")
    done = tpcsweep("check", "one")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "one: no check failed, 1 with a warning")
    assert "b: delete: failed, now warning" in done.stdout
    rows[1] = interface.Finding("b", "delete", "skipped", "no right")
    done = tpcsweep("check", "one")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "one: no check failed, 1 not looked at")
    rows.pop()
    assert "b: delete: skipped, now not checked" in tpcsweep("check", "one").stdout
    assert "--pair: testbed one is not of kind endpoints" in failed("check", "one", "--pair", "p")


def test_a_folder_without_a_configuration_names_the_command_that_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["grid"], ["status"], ["check", "netns"], ["reap"]):
        assert (
            f"{tmp_path} has no config/config.yaml. Run the command in a folder that `tpcsweep init`"
            in failed(*command)
        )
    assert tpcsweep("grid", "--sweep", "smoke").exit_code == 0


@pytest.mark.usefixtures("study")
def test_reaped_deployments_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("os.geteuid", lambda: 1000)
        assert (
            tpcsweep("reap").stdout
            == "reaped: nothing was left of this user. For leftovers of root run it as root.\n"
        )
    left = ["demo, rtt=5, pid 7"]
    monkeypatch.setattr(kinds.load_testbed("netns"), "reap", lambda _: left)
    assert tpcsweep("reap").stdout == "reaped: demo, rtt=5, pid 7\n"
    assert json.loads(tpcsweep("reap", "--json").stdout) == {"testbed": "one", "reaped": left}
    left.clear()
    assert tpcsweep("reap").stdout == "reaped: nothing was left\n"


def test_the_dataset_contains_the_cells_so_far(study: SweepStudy) -> None:
    assert "no cells yet. Run `snakemake --config sweep=probe" in failed("dataset")
    fill(study, 1)
    cell = study.grid.cells[1]
    spec = cell_spec(study, cell)
    synthetic.write_cell(staging.staged_file(study, cell), spec)
    done = tpcsweep("dataset")
    assert done.exit_code == 0, done.output
    assert "dataset.nc: 2 of 4 cells\nthe others: snakemake --config sweep=probe" in done.stdout
    assert int((xr.load_dataset(study.folder / "dataset.nc").status > 0).sum()) == 2
    assert (study.folder / "cells.csv").is_file()


def test_beside_a_run_dataset_page_and_status_show_the_cells_so_far(
    study: SweepStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(study, 1)
    cell = study.grid.cells[1]
    spec = cell_spec(study, cell)
    synthetic.write_cell(staging.staged_file(study, cell), spec)
    damaged = study.cell_file(study.grid.cells[2])
    damaged.parent.mkdir(parents=True)
    damaged.touch()
    run_lock.lock_results(study.folder)  # this process holds the folder to its end
    config = {"config": study.requested, "root": str(Path.cwd())}
    progress.begin_progress(study.folder, 4, **config)
    with progress.JobProgress("probe", "rtt=5", study.folder) as shown:
        shown.end(cell.path, "ok", 0.5, [])
        said = tpcsweep("status").stdout
    assert re.search(r"1 of its 4 cells done, about \d+ s left, until about \d\d:\d\d\n", said)
    assert said.endswith(f"last cells: {cell.path} 0.5 Gbit/s\nbeing measured: rtt=5\n")
    before = {file: file.stat().st_mtime_ns for file in study.folder.rglob("*") if file.is_file()}
    assert "partial.nc: 2 of 4 cells\na run is under way" in tpcsweep("dataset").stdout
    assert tpcsweep("page", study.folder).stdout == f"{(study.folder / 'partial.html').absolute()}\n"
    assert "partial: 2 of 4 cells" in (study.folder / "partial.html").read_text()
    made = {study.folder / name for name in ("partial.nc", "partial.nc.sha256", "partial.html")}
    after = {file: file.stat().st_mtime_ns for file in study.folder.rglob("*") if file.is_file()}
    assert after.keys() == before.keys() | made
    assert {file: after[file] for file in before} == before
    # For readers without the right to write.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != study.folder or not mode & os.W_OK)
    assert "cannot write to it. Give a file: -o FILE.nc" in failed("dataset")
    assert "cannot write to it. Give a file: -o FILE.html" in failed("page", str(study.folder))
    assert tpcsweep("dataset", "-o", "mine.nc").exit_code == 0
    assert xr.load_dataset("mine.nc").attrs["partial"] == "2 of 4 cells"
    assert tpcsweep("page", study.folder, "-o", "here.html").exit_code == 0
    assert 'href="here.partial.nc"' in Path("here.html").read_text()
    assert {file for file in study.folder.rglob("*") if file.is_file()} == after.keys()


@pytest.mark.usefixtures("study")
def test_a_dataset_is_imported_under_the_name_of_its_file() -> None:
    Path("results/surface/cells").mkdir(parents=True)
    assert "results/surface: contains the cells of a sweep" in failed("import", EXAMPLE)
    told = json.loads(tpcsweep("import", EXAMPLE, "--results", "others", "--json").stdout)
    assert told == {"dataset": "others/surface/dataset.nc", "table": "others/surface/cells.csv"}
    assert Path(told["table"]).is_file()
    assert "limit" in xr.load_dataset(told["dataset"])
    # The command for what follows is one that a shell and Snakemake take as it stands.
    *_, line = tpcsweep("import", EXAMPLE, "--results", "an odd place").stdout.splitlines()
    assert shlex.split(line)[-1] == "dataset=an odd place/surface/dataset.nc"


@pytest.mark.usefixtures("study")
def test_a_table_is_imported_by_a_description_of_its_columns() -> None:
    Path("spring.csv").write_text("n,rate\n1,2\n1,2\n4,5\n")
    variables = "variables: {throughput: {column: rate, unit: Gbit/s}}"
    Path("spring.yaml").write_text(f"axes: {{streams: {{column: n}}}}\n{variables}\n")
    alike = "rows alike with an earlier one in all columns count as repetitions: 1, first row 2"
    notes = [alike]
    *told, _, more = tpcsweep("import", "spring.yaml", "spring.csv").stdout.splitlines()
    assert told == [f"note: {note}" for note in notes]
    assert more.endswith("snakemake --config dataset=results/spring/dataset.nc")
    assert json.loads(tpcsweep("import", "spring.yaml", "spring.csv", "--json").stdout)["notes"] == notes
    made = xr.load_dataset("results/spring/dataset.nc")
    assert json.loads(str(made.provenance_record.values[0]))["notes"] == notes
    allowed = "allowed: the path of a CSV or Parquet file: tpcsweep import SOURCE FILE"
    assert f"spring.yaml: file: given nothing, {allowed}" in failed("import", "spring.yaml")
    assert f"file: given 'no.csv', {allowed}" in failed("import", "spring.yaml", "no.csv")
    assert "import: given 'none', allowed: " in failed("import", "none")


def test_a_dataset_is_exported_to_the_terminal_and_to_files(tmp_path: Path) -> None:
    done = tpcsweep("export", "csv", EXAMPLE, "-o", str(tmp_path / "cells.csv"))
    assert done.stdout == f"written: {tmp_path}/cells.csv\n"
    assert (tmp_path / "cells.csv").read_text() == tpcsweep("export", "csv", EXAMPLE).stdout
    store = str(tmp_path / "surface.zarr")
    assert tpcsweep("export", "zarr", EXAMPLE, "-o", store).exit_code == 0
    assert "exists. Remove it" in failed("export", "zarr", EXAMPLE, "-o", store)
    assert "it is no file of NetCDF 4" in failed("export", "csv", str(tmp_path / "cells.csv"))


def test_a_crate_contains_the_sweep_of_the_results(study: SweepStudy) -> None:
    fill(study, 4)
    assert tpcsweep("dataset").exit_code == 0
    crate = Path("results/probe/crate")
    for name in ("ro-crate-metadata.json", "of-before"):
        write_text(crate / name, "")
    done = tpcsweep("crate", "results/probe")
    assert done.exit_code == 0, done.output
    assert not (crate / "of-before").exists()
    assert done.stdout.splitlines()[1] == f"archive: {Path('results/probe/crate.zip').absolute()}"
    assert (crate / "config/sweeps/probe.yaml").is_file()
    packed = yaml.safe_load((crate / "config/config.yaml").read_text())
    assert packed == {"sweep": "probe", "testbed": "one"}
    assert "Authors and licence are those of the software" in done.stderr


@pytest.mark.usefixtures("study")
def test_a_crate_of_a_dataset_from_elsewhere_contains_no_sweep() -> None:
    tpcsweep("import", EXAMPLE)
    Path("results/surface/crate").mkdir()
    assert "exists and is no crate" in failed("crate", "results/surface")
    done = tpcsweep("crate", "results/surface", "-o", "packed", "--json")
    assert json.loads(done.stdout) == {"folder": "packed", "archive": "packed.zip"}
    assert not Path("packed/config").exists()
    assert "The crate contains no sweep" in done.stderr
