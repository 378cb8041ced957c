# SPDX-License-Identifier: Apache-2.0
"""The guarantees of a run: whole Snakemakes, on a testbed that only plays."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.data import cell_files
from tpcsweep.data.labels import STATUS
from tpcsweep.sweeps.study import cell_spec

from tests.support.commands import tpcsweep
from tests.support.fakes.project import Project
from tests.support.snakemakes import snakemake
from tests.support.wheels import BIN
from tests.support.workflow import HANGS, ROOT, gone, succeeded, wait_until

DATASET = "results/mine/dataset.nc"
ALL = ["rtt=5/streams=1", "rtt=5/streams=2", "rtt=20/streams=2", "rtt=20/streams=1"]
"""The cells in the order in which they are measured."""
DEPLOYMENTS = r"wildcards: deployment=(\S+)"
OUTPUTS = r"^rule (\w+):(?:\n    (?!output).*)*\n    output: (.+)"


@pytest.fixture
def small(tmp_path: Path) -> Project:
    return Project.at(tmp_path, parameters={"rtt": [5]})


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project.at(tmp_path_factory.mktemp("measured"))
    project.well("cells", DATASET)
    assert project.measured() == ALL
    return project


@pytest.fixture
def measured(template: Project, tmp_path: Path) -> Project:
    """A copy of a checkout whose cells are measured and folded."""
    shutil.copytree(template.folder.parent, tmp_path, symlinks=True, dirs_exist_ok=True)
    project = Project(tmp_path / "checkout")
    project.log()
    return project


def statuses(project: Project) -> list[str]:
    with xr.open_dataset(project.folder / DATASET) as dataset:
        return [STATUS[value] for value in dataset["status"].values.ravel()]


def not_measured(project: Project) -> list[dict[str, object]]:
    holes: list[dict[str, object]] = json.loads((project.results / "mine/not_measured.json").read_bytes())
    return holes


def killed(project: Project, cell: str) -> None:
    """Kill the job that measures when it comes to a cell."""
    snakemake, job = project.hanging(cell, "cells")
    os.kill(job, signal.SIGKILL)
    project.go_on()
    snakemake.join(60)
    assert snakemake.exitcode


def test_a_deleted_cell_is_measured_and_no_other(measured: Project) -> None:
    before = measured.contents()
    measured.file("rtt=20/streams=1").unlink()
    said = measured.well("cells")
    assert measured.log() == ["deploy rtt=20", "rtt=20/streams=1", "tear down rtt=20"]
    after = measured.contents()
    assert {cell for cell in before if before[cell] != after[cell]} == {"rtt=20/streams=1/repetition=1.json"}
    assert "Nothing to be done" in measured.well("-n", "cells")
    *_, last = said.splitlines()
    assert last == "mine: 4 of 4 cells measured"


def test_a_new_value_measures_its_cells_and_a_changed_parameter_all(measured: Project) -> None:
    before = measured.contents()
    measured.define(parameters={"streams": [1, 2, 4]})
    measured.well("cells")
    assert sorted(measured.measured()) == ["rtt=20/streams=4", "rtt=5/streams=4"]
    assert before.items() <= measured.contents().items()
    measured.define(parameters={"rtt": [5], "streams": [1, 2, 4], "bandwidth": 0.5})
    measured.well("cells")
    assert len(measured.measured()) == 3


def test_nothing_is_measured_again_for_a_new_version_another_place_or_other_times(measured: Project) -> None:
    before = measured.contents()
    for part in ("rules/measure.smk", "scripts/deployment.py", "Snakefile"):
        with (measured.folder / "workflow" / part).open("a") as file:
            file.write("\n# another version\n")
    rules = measured.folder / "workflow/rules/measure.smk"
    rules.write_text(rules.read_text().replace("study=group", "version=2, study=group"))
    assert "version=2" in rules.read_text()
    measured.folder = measured.folder.rename(measured.folder.with_name("moved"))
    for number, file in enumerate(sorted(measured.results.rglob("*.json"))):
        os.utime(file, (2e9 - number, 2e9 - number))
    assert "measure_mine" in measured.well("-n", "cells")  # Snakemake starts the jobs
    measured.well("cells")
    assert measured.log() == []
    assert measured.contents() == before
    shutil.rmtree(measured.folder / ".snakemake")
    assert "Nothing to be done" in measured.well("-n", "cells")


def test_a_run_in_another_order_measures_nothing_again(tmp_path: Path) -> None:
    project = Project.at(tmp_path, seed=None)
    project.well("cells", DATASET)
    assert sorted(project.measured()) == sorted(ALL)
    assert "Nothing to be done" in project.well("-n", "cells", DATASET)


def test_a_dry_run_lists_what_will_run_and_writes_nothing(measured: Project) -> None:
    measured.define(parameters={"rtt": [5, 20, 50]})
    measured.file("rtt=5/streams=2").unlink()

    def state() -> dict[str, int]:
        files = (file for part in ("results", "config") for file in (measured.folder / part).rglob("*"))
        return {str(file): file.stat().st_mtime_ns for file in files}

    before = state()
    said = measured.well("-n", "cells", DATASET)
    assert sorted(re.findall(DEPLOYMENTS, said)) == ["rtt=5", "rtt=50"]
    assert re.findall(r"^rule (\w+):", said, re.MULTILINE).count("dataset") == 1
    assert state() == before
    assert measured.log() == []


def test_whatever_is_deleted_is_made_again(measured: Project) -> None:
    study = measured.results / "mine"

    def planned(*deleted: str) -> set[str]:
        for name in deleted:
            (study / name).unlink()
        said = measured.well("-n", "--printshellcmds")  # without it long lists are cut
        found = re.findall(OUTPUTS, said, re.MULTILINE)
        for _, outputs in found:  # in the order of their making
            for output in outputs.split(", "):
                (measured.folder / output).parent.mkdir(parents=True, exist_ok=True)
                (measured.folder / output).touch()
        return {rule for rule, _ in found}

    assert {"first_page", "fits", "page"} <= planned()
    assert planned() == set()
    leaves = ("figures/limits.svg", "figures/model_errors.png", "figures/cpu.png", "notebooks/claims.ipynb")
    assert planned(*leaves) == {"limits", "models", "surface", "claims", "page", "overview"}
    assert {"fits", "verdicts", "page", "overview"} <= planned("models.json", "claims.csv")
    again = planned("dataset.nc")
    assert {"dataset", "surface", "fits", "page"} <= again
    assert "first_page" not in again  # until the new page is made, the old one remains


def test_what_a_killed_job_measured_is_adopted(small: Project) -> None:
    killed(small, "rtt=5/streams=2")
    kept = (small.results / "mine/staging/rtt=5/streams=1/repetition=1.json").read_bytes()
    assert small.measured() == [ALL[0]]
    assert not small.file("rtt=5/streams=1").exists()
    small.well("cells")
    assert small.measured() == [ALL[1]]
    assert small.file("rtt=5/streams=1").read_bytes() == kept
    assert not (small.results / "mine/staging").exists()
    assert len(small.contents()) == 2


@pytest.mark.parametrize("folded", [True, False])
def test_cells_of_another_specification_are_set_aside_and_measured_next(
    folded: bool, measured: Project
) -> None:
    # Snakemake restores the files of a killed job, and takes its changed params for satisfied.
    measured.define(parameters={"bandwidth": 0.5})
    killed(measured, "rtt=5/streams=2")
    assert measured.measured() == [ALL[0], *ALL[2:]]
    old = measured.file("rtt=5/streams=2").read_bytes()
    if folded:
        sweep = measured.folder / "config/sweeps/mine.yaml"
        # A process of its own, because it keeps the lock on the results.
        succeeded([f"{BIN}/tpcsweep", "dataset", "--sweep", str(sweep), "--results", str(measured.results)])
        [hole] = not_measured(measured)
        assert hole["cells"] == ["rtt=5/streams=2/repetition=1"]
        assert "specification" in str(hole["why"])
        aside = measured.file("rtt=5/streams=2").with_name("repetition=1.json.stale")
        assert aside.read_bytes() == old
        assert statuses(measured) == ["ok", "not_measured", "ok", "ok"]
    measured.well(DATASET)
    assert measured.measured() == [ALL[1]]
    study = measured.study()
    assert not any(
        cell_files.stale(study.cell_file(cell), cell_spec(study, cell)) for cell in study.grid.cells
    )


def test_cells_of_a_deployment_that_does_not_start_are_listed_and_measured_next(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    (project.fakes / "refused").write_text("rtt=5")
    said = project.well("cells", DATASET, code=1)
    assert project.log() == ["deploy rtt=5"] * 2 + ["deploy rtt=20", *ALL[2:], "tear down rtt=20"]
    assert statuses(project) == ["not_measured"] * 2 + ["ok"] * 2
    [hole] = not_measured(project)
    assert hole["why"] == "rtt asked 5 ms, found 9 ms"
    assert hole["deployment"] == "rtt=5"
    assert "2 not measured (rtt asked 5 ms, found 9 ms): snakemake --config sweep=mine" in said
    assert not any("rtt=5" in cell for cell in project.contents())
    (project.fakes / "refused").unlink()
    project.well("cells")
    assert project.measured() == ALL[:2]


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "edited": lambda file: file.write_bytes(file.read_bytes().replace(b'"status":"ok"', b'"status":"KO"')),
    "other JSON": lambda file: file.write_text("[]"),
    "without keys": lambda file: file.write_text(json.dumps({"spec": json.loads(file.read_bytes())["spec"]})),
    "another cell": lambda file: shutil.copyfile(str(file).replace("streams=1", "streams=2"), file),
    "a folder": _folder,
}


@pytest.mark.parametrize(
    ("damage", "targets"),
    [
        *((damage, ["cells", DATASET]) for damage in DAMAGES),
        ("emptied", [DATASET]),
        ("cut", ["results/mine/claims.json"]),
    ],
)
def test_a_damaged_cell_is_measured_by_the_very_next_run(
    damage: str, targets: list[str], measured: Project
) -> None:
    cell = measured.file("rtt=5/streams=1")
    before = measured.contents()
    times = cell.stat()
    DAMAGES[damage](cell)
    os.utime(cell, ns=(times.st_atime_ns, times.st_mtime_ns))  # older than the dataset
    if damage in ("cut", "a folder"):
        shutil.rmtree(measured.folder / ".snakemake")  # what Snakemake remembers does not matter
    assert re.findall(DEPLOYMENTS, measured.well("-n", *targets)) == ["rtt=5"]
    assert cell.exists()
    measured.well(*targets)
    assert measured.measured() == [ALL[0]]
    assert before.keys() == measured.contents().keys()
    assert statuses(measured) == ["ok"] * 4
    assert "Nothing to be done" in measured.well(*targets)


@pytest.mark.parametrize("moment", ["measuring", "measured", "folded"])
def test_a_cell_that_is_damaged_during_a_run_fails_it_and_is_measured_next(
    moment: str, measured: Project
) -> None:
    """While its deployment measures another cell, before the dataset is made, and after that."""
    victim = measured.file("rtt=5/streams=1")
    measured.file("rtt=5/streams=2").unlink()
    measured.file("rtt=20/streams=1").unlink()
    others = {"measuring": ALL[1], "measured": ALL[3]}
    targets = ("cells", DATASET) if moment != "folded" else ("cells", DATASET, "damaged")
    if moment == "folded":
        rule = f'rule damaged:\n    input: "{DATASET}"\n    shell: ": > {victim}"\n'
        with (measured.folder / "workflow/Snakefile").open("a") as file:
            file.write(f"\n\n{rule}")
        measured.well(*targets, code=1)
    else:
        process, _ = measured.hanging(others[moment], *targets)
        victim.write_bytes(b"")
        measured.go_on()
        process.join(HANGS)
        assert process.exitcode == 1
    assert sorted(measured.measured()) == sorted([ALL[1], ALL[3]])
    assert [hole["cells"] for hole in not_measured(measured)] == [["rtt=5/streams=1/repetition=1"]]
    assert victim.with_name(f"{victim.name}.damaged").read_bytes() == b""
    measured.well("cells", DATASET)
    assert measured.measured() == [ALL[0]]
    assert statuses(measured) == ["ok"] * 4


def test_a_run_that_is_killed_while_it_measures_a_damaged_cell_leaves_it_to_the_next(
    measured: Project,
) -> None:
    for number in range(2):
        measured.file("rtt=5/streams=1").write_bytes(b"")
        process, job = measured.hanging(ALL[0], "cells")
        os.kill(job if number else process.pid, signal.SIGKILL)
        wait_until(partial(gone, job), "the job ends with its Snakemake")
        measured.go_on()
        process.join(HANGS)
    # As Snakemake leaves it, if it is killed after the job.
    marker = measured.results / "mine/logs/rtt=5/.again"
    marker.touch()
    measured.well("cells")
    assert measured.measured() == [ALL[0]]
    assert len(measured.contents()) == 4


def test_two_runs_at_once_exclude_each_other_and_a_cell_deleted_meanwhile_loses_no_other(
    small: Project,
) -> None:
    snakemake, _ = small.hanging("rtt=5/streams=2", "cells", "--latency-wait", "0")
    second = small.run("cells")
    assert second.returncode
    assert f"results/mine: another snakemake (pid {snakemake.pid}) writes here" in second.stdout
    deleted = small.file("rtt=5/streams=1")
    small.go_on()
    while snakemake.is_alive() and not deleted.exists():
        pass
    deleted.unlink()
    snakemake.join(60)
    assert snakemake.exitcode  # Snakemake deletes the other output of the job
    assert small.contents() == {}
    assert small.measured() == ALL[:2]
    small.well("cells")
    assert small.measured() == []
    assert len(small.contents()) == 2


def test_a_parameter_that_changes_during_a_run_is_measured_by_none_of_its_jobs(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    snakemake, _ = project.hanging("rtt=5/streams=1", "cells")
    project.define(parameters={"bandwidth": "2 Gbit/s"})
    project.go_on()
    snakemake.join(HANGS)
    assert snakemake.exitcode
    assert "the configuration has changed since this run began" in project.output.read_text()
    assert project.measured() == ALL[:2]
    project.define()
    project.well("cells")
    assert project.measured() == ALL[2:]
    assert len(project.contents()) == 4


def test_a_killed_snakemake_ends_its_job_and_the_next_run_goes_on(small: Project) -> None:
    snakemake, job = small.hanging("rtt=5/streams=2", "cells")
    snakemake.kill()
    wait_until(lambda: gone(job), "the job ends with its Snakemake")
    assert small.log() == ["deploy rtt=5", ALL[0]]
    small.go_on()
    small.well("cells")
    assert small.measured() == [ALL[1]]


def test_a_run_can_be_watched_and_what_is_made_beside_it_changes_nothing(measured: Project) -> None:
    study = measured.results / "mine"
    for cell in (ALL[1], ALL[2], ALL[3]):
        measured.file(cell).unlink()
    process, _ = measured.hanging(ALL[3], "cells", DATASET)
    live = (study / "live.html").read_text()
    assert re.search(r"partial: \d of 4 cells", live)
    assert 'http-equiv="refresh"' in live
    asked = ["--sweep", str(measured.folder / "config/sweeps/mine.yaml"), "--results", str(measured.results)]
    said = tpcsweep("status", *asked).stdout
    assert "a run is under way" in said
    assert "measure them" not in said
    before = (study / "dataset.nc").stat().st_mtime_ns
    assert re.search(r"partial\.nc: [23] of 4 cells", tpcsweep("dataset", *asked).stdout)
    assert (study / "dataset.nc").stat().st_mtime_ns == before
    assert tpcsweep("page", study).stdout.strip() == str(study / "partial.html")
    measured.go_on()
    process.join(HANGS)
    assert process.exitcode == 0
    assert statuses(measured) == ["ok"] * 4
    assert not list(study.glob("partial.*"))
    ended = (study / "live.html").read_text()
    assert "4 of 4 cells measured" in ended
    assert 'http-equiv="refresh"' not in ended
    assert "Nothing to be done" in measured.well("-n", "cells", DATASET)


def test_a_run_that_is_stopped_says_so_and_how_to_go_on(small: Project) -> None:
    process, job = small.hanging(ALL[1], "cells")
    os.kill(job, signal.SIGINT)
    small.go_on()
    process.join(HANGS)
    assert process.exitcode == 1
    said = small.output.read_text()
    assert "\nmine: stopped by you: 1 of 2 cells kept; go on: snakemake --config sweep=mine" in said
    assert "file was missing" not in said
    assert "did not complete" not in said
    ended = (small.results / "mine/live.html").read_text()
    assert "stopped by you: 1 of 2 cells kept" in ended
    assert 'http-equiv="refresh"' not in ended


def test_two_sweeps_are_one_run_and_a_machine_that_lacks_something_measures_none(small: Project) -> None:
    small.define("other", parameters={"rtt": [5], "streams": 4})
    (small.fakes / "lacking").touch()
    refused = small.run("cells", sweep="mine,other")
    assert refused.returncode
    assert refused.stdout.splitlines()[-1] == "this machine lacks a program"
    (small.fakes / "lacking").unlink()
    assert small.log() == []
    said = small.well("cells", sweep="mine,other")
    assert sorted(small.measured()) == sorted([*ALL[:2], "rtt=5/streams=4"])
    assert "mine: 2 of 2 cells measured" in said
    assert "other: 1 of 1 cells measured" in said


@pytest.mark.parametrize("moved", ['prefix: "apart"', 'pathvars:\n        results="apart"'])
@pytest.mark.parametrize(
    ("target", "config"),
    [
        ("results/mine/cells/rtt=5/streams=1/repetition=1.json", ["testbed=netns"]),
        ("results/mine@simulation/cells.jsonl", ["testbed=simulation"]),
        ("results/surface/dataset.nc", ["testbed=netns", f"dataset={ROOT}/examples/surface.nc"]),
    ],
)
def test_a_module_whose_rules_have_other_paths_than_its_studies_does_no_work(
    moved: str, target: str, config: list[str], small: Project
) -> None:
    module = f"module tpcsweep:\n    snakefile: 'workflow/Snakefile'\n    config: config\n    {moved}\n"
    (small.folder / "Snakefile").write_text(f"{module}\nuse rule * from tpcsweep\n")
    folder = "apart/results" if "prefix" in moved else "apart"
    asked = ["-c1", target.replace("results", folder), "--config", "sweep=mine", *config]
    done = snakemake(*asked, folder=small.folder, env=small.env)
    assert done.returncode != 0
    fix = "set `results` in the module's config; prefix: and pathvars: are not supported"
    assert re.search(rf"{folder}/\S+ is not in the results folder results/\S+: {re.escape(fix)}", done.stdout)
    assert small.log() == []
    assert not [
        file for name in ("*.json", "*.jsonl", "*.nc") for file in small.folder.rglob(f"a*/**/{name}")
    ]
    assert not small.results.exists()
