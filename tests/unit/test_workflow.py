# SPDX-License-Identifier: Apache-2.0
"""The workflow as Snakemake sees it, without running a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import xarray as xr
import yaml
from tpcsweep.configuration.loading import Configuration, load, wanted
from tpcsweep.configuration.problems import quoted
from tpcsweep.configuration.sweep import Cell
from tpcsweep.configuration.testbeds import DISK
from tpcsweep.dataset import STATUS
from tpcsweep.running import holes
from tpcsweep.running.results import leave_out, publish, read
from tpcsweep.testbeds.netns.limits import this_machine

from tests.support import synthetic
from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, finished


@pytest.mark.parametrize("sweep", [path.stem for path in sorted((ROOT / "config/sweeps").glob("*.yaml"))])
def test_every_sweep_that_ships_can_be_planned(sweep: str, tmp_path: Path) -> None:
    machine = this_machine(DISK)
    if sweep == "tcp" and "bbr" not in machine.congestion_controls:
        pytest.skip("this kernel has no bbr")
    if sweep == "nodes" and machine.cpus < 2:
        pytest.skip("this machine has one CPU")  # on its own testbed it is planned with the profile k8s
    done = snakemake("-n", "--config", f"sweep={sweep}", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/{sweep}/report.html" in done.stdout


def test_the_default_target_can_be_planned_with_results_beside_it() -> None:
    done = snakemake("-n", "--config", "sweep=smoke", "results=results/nowhere")
    assert done.returncode == 0, done.stdout
    assert "results/nowhere/smoke/front.rst" in done.stdout
    assert not (ROOT / "results/nowhere").exists()


def test_planning_makes_no_folder_wherever_results_are_to_be(tmp_path: Path) -> None:
    below = tmp_path / "nowhere"
    for results in (below, os.path.relpath(below, ROOT)):
        done = snakemake("-n", "--config", "sweep=smoke", f"results={results}")
        assert done.returncode == 0, done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_notebooks_of_a_sweep_are_in_its_report_alone(tmp_path: Path) -> None:
    figure = f"{tmp_path}/mtu/figures/curves.png"
    done = snakemake("-n", "--config", "sweep=mtu", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    [report] = re.findall(r"^rule report:\n +input: (.+)$", done.stdout, re.MULTILINE)
    assert {figure, f"{tmp_path}/mtu/notebooks/curves.html"} <= set(report.split(", "))
    assert "curves" not in snakemake("-n", "--config", "sweep=smoke", f"results={tmp_path}").stdout


def test_a_dataset_is_exported_beside_it(tmp_path: Path) -> None:
    done = snakemake("-n", "export", "--config", "sweep=smoke", "measure=true", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "deployment_1" in done.stdout
    for name in ("monitoring.csv", "openmetrics.txt"):
        assert f"{tmp_path}/smoke/export/{name}" in done.stdout


def test_a_configfile_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"sweep: smoke\nresults: {tmp_path}/elsewhere\n")
    # By the command, as a user starts it; the others are started from a process that has Snakemake loaded.
    done = finished([sys.executable, "-m", "snakemake", "-n", "--configfile", str(tmp_path / "mine.yaml")])
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/elsewhere/smoke/report.html" in done.stdout


def test_the_profile_k8s_runs_a_sweep_on_the_testbed_kubernetes(tmp_path: Path) -> None:
    done = snakemake("--profile", "k8s", "-n", "--config", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/nodes@kubernetes/report.html" in done.stdout


def test_another_sweep_on_the_command_line_leaves_the_testbed_of_the_profile_k8s(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    other = [f"sweep={tmp_path}/mine.yaml", f"results={tmp_path}"]
    done = snakemake("--profile", "k8s", "grid", "--config", *other)
    assert done.returncode == 0, done.stdout
    assert "mine on kubernetes: 2 cells in 1 deployment (2 streams, 1 repetition)" in done.stdout
    done = snakemake("--profile", "k8s", "-n", "--config", *other, "testbed=kubernetes-netem")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/mine@kubernetes-netem/report.html" in done.stdout


def test_the_profile_slurm_puts_simulations_into_the_queue_many_in_a_job(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {rtt: [1, 2, 3]}\n")
    mine = ["--config", f"sweep={tmp_path}/mine.yaml", f"results={tmp_path}", "testbed=simulation"]
    for size, jobs in ((20, 1), (2, 2)):
        done = snakemake("--profile", "slurm", "-n", "--group-components", f"simulation={size}", *mine)
        assert done.returncode == 0, done.stdout
        assert done.stdout.count("Group job simulation") == jobs
        # From the dataset to the report.
        assert done.stdout.count("Group job results") == 1
    assert "Group job" not in snakemake("-n", *mine).stdout


def test_what_is_deployed_here_does_not_go_into_a_queue(tmp_path: Path) -> None:
    done = snakemake("--profile", "slurm", "-n", "--config", "sweep=smoke", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "deployment" in done.stdout
    assert "Group job simulation" not in done.stdout
    assert done.stdout.count("Group job results") == 1


def test_the_keys_of_other_profiles_count() -> None:
    # The profile that Snakemake always reads wins over the others, key by key.
    always, k8s, slurm = (
        yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
        for name in ("default", "k8s", "slurm")
    )
    assert k8s["resources"] == {"testbed": 1}
    assert not set(always) & (set(k8s) | set(slurm))


def test_wrong_input_is_refused_in_one_line_and_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("parameters:\n  rtt: 5 MiB\n")
    done = snakemake("-n", "--config", f"sweep={tmp_path}/bad.yaml")
    assert done.returncode != 0
    assert f"{tmp_path}/bad.yaml: parameters.rtt: given '5 MiB', allowed: a time" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_configuration_that_nests_is_refused_before_snakemake_reads_it(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("sweep: " + "[" * 20_000)
    done = snakemake("-n", "--directory", str(tmp_path))
    assert done.returncode != 0
    assert (
        "config/config.yaml: line 1: given lists and mappings in each other, allowed: at most 50"
        in done.stdout
    )
    assert "Traceback" not in done.stdout


def test_a_grid_with_holes_asks_for_the_cells_that_exist(tmp_path: Path) -> None:
    (tmp_path / "holes.yaml").write_text(
        "parameters: {rtt: [1, 2], streams: [1, 2]}\nexclude: [{rtt: 1, streams: 2}]\n"
    )
    done = snakemake("-n", "cells", "--config", f"sweep={tmp_path}/holes.yaml", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "rtt=2/streams=2" in done.stdout
    assert "rtt=1/streams=2" not in done.stdout


def test_a_large_sweep_names_its_deployments_and_not_each_cell(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text("parameters: {rtt: [1, 2], streams: [1, 2, 4, 8, 16]}\n")
    given = ["--config", f"sweep={tmp_path}/large.yaml", f"results={tmp_path}"]
    done = snakemake("-n", "--quiet", "reason", *given)
    assert done.returncode == 0, done.stdout
    assert "deployment rtt=2, 5 cells in it" in done.stdout
    assert "streams=" not in done.stdout


def test_a_cell_off_the_grid_is_unknown(tmp_path: Path) -> None:
    wanted = f"{tmp_path}/smoke/cells/deployment=only/streams=99/repetition=1.json"
    done = snakemake("-n", wanted, "--config", "sweep=smoke", f"results={tmp_path}")
    assert done.returncode != 0
    assert f"given {wanted!r}, allowed: in {tmp_path}/smoke/cells/deployment=only: " in done.stdout
    assert "Traceback" not in done.stdout


def test_what_is_asked_for_in_vain_is_said_before_anything_else(tmp_path: Path) -> None:
    asked = ["modles", "claims", "--config", "sweep=smoke", "rtt=5", f"results={tmp_path}"]
    done = snakemake("-n", *asked)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-2:] == [
        "--config: rtt: given 5, allowed: nothing here, as it is for snakemake plan and snakemake recommendations "
        "alone: parameters of the sweep are in its file, config/sweeps/smoke.yaml",
        "command line: target: given 'modles', allowed: models? what `snakemake help` lists",
    ]
    done = snakemake("grid", "--config", "target=5", f"results={tmp_path}")
    assert "target: given 5, allowed: nothing here" in done.stdout
    page = f"{tmp_path}/smoke/notebooks/limit.html"
    done = snakemake("-n", page, "--config", "sweep=smoke", f"results={tmp_path}")
    assert f"given {page!r}, allowed: in {tmp_path}/smoke/notebooks: limits.html? " in done.stdout


def test_results_that_cannot_be_written_are_refused_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for target in ("cells", "published"):
        done = snakemake(target, "--config", "sweep=smoke", f"results={tmp_path}/file")
        assert done.returncode != 0
        assert (
            f"{tmp_path}/file is no folder: have results elsewhere by --config results=FOLDER" in done.stdout
        )
        assert "Traceback" not in done.stdout


def test_a_configuration_that_cannot_be_found_or_read_is_told_so(tmp_path: Path) -> None:
    for name in ("x" * 5000 + ".yaml", f"{tmp_path}/none/mine.yaml"):
        done = snakemake("-n", "--config", f"sweep={name}")
        assert f"sweep: given {quoted(name)}, allowed: " in done.stdout
        assert "Traceback" not in done.stdout


def test_a_comparison_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/dataset.nc").touch()
    sides = ["base=demo:cores=0.1", "new=demo:cores=0.4"]
    done = snakemake("-n", "compare", "--config", *sides, f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/comparisons/demo-cores=0.1_vs_demo-cores=0.4/comparison.json" in done.stdout
    assert "deployment_" not in done.stdout


def test_data_from_elsewhere_take_the_place_of_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "wan.csv").write_text("tool,streams,rtt_ms,throughput_gibit_per_s\n")
    done = snakemake(
        "-n", "--config", "source=nrp-wan-2020", f"file={tmp_path}/wan.csv", f"results={tmp_path}"
    )
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/nrp-wan-2020/report.html" in done.stdout
    assert "deployment_" not in done.stdout


def test_the_grid_is_shown_as_a_table(tmp_path: Path) -> None:
    done = snakemake("grid", "--config", "sweep=matrix", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "matrix on netns: 72 cells in 12 deployments" in done.stdout
    assert "redirector, direct" in done.stdout


@pytest.mark.parametrize("stream", ["", "2>&1"])
def test_a_grid_ends_with_whoever_reads_it_and_writes_nothing(stream: str, tmp_path: Path) -> None:
    # More than a pipe holds.
    (tmp_path / "large.yaml").write_text(
        yaml.safe_dump({"parameters": {"rtt": [*range(40)], "bandwidth": [n / 100 for n in range(1, 21)]}})
    )
    asked = f"grid --config sweep={tmp_path}/large.yaml results={tmp_path}/results"
    done = finished(["bash", "-c", f"{sys.executable} -m snakemake {asked} {stream} | head -n 40"], 60)
    assert "large on netns: 800 cells" in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("listing", [["-n"], ["--summary"], ["--dag"], ["--list"], ["-n", "grid"]])
def test_what_lists_writes_nothing(listing: list[str], tmp_path: Path) -> None:
    done = snakemake(*listing, "--config", "sweep=smoke", f"results={tmp_path}/results")
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "results").exists()


def test_a_dry_run_lists_the_deployments_that_would_run(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {rtt: [1, 2, 3, 4], streams: [1, 2], bandwidth: 0.5}\n")
    asked = {"sweep": f"{tmp_path}/mine.yaml", "testbed": "netns", "results": f"{tmp_path}/results"}
    configuration = load(asked, ROOT)
    for cell in configuration.grid.cells:
        path, spec = configuration.cell_file(cell), wanted(configuration, cell)
        if cell.path.startswith("rtt=2/streams=1"):
            spec["parameters"]["bandwidth"] = 1.0
        if cell.path.startswith("rtt=3/streams=2"):
            leave_out(path, spec, "no path")
        else:
            publish(path, spec, {}, tmp_path / "rescued")
    configuration.cell_file(configuration.grid.cells[-1]).unlink()
    done = snakemake("-n", "cells", "--config", *(f"{key}={value}" for key, value in asked.items()))
    assert done.returncode == 0, done.stdout
    planned = re.findall(r"deployment (rtt=\d), 2 cells in it", done.stdout)
    assert sorted(planned) == ["rtt=2", "rtt=3", "rtt=4"]


@dataclass(frozen=True)
class Partly:
    """A sweep of four cells, one of which is not there."""

    folder: Path
    configuration: Configuration

    @property
    def given(self) -> list[str]:
        run = self.configuration.run
        return ["--config", f"sweep={run.sweep}", f"results={run.results}"]

    def put(self, cells: Iterable[Cell]) -> None:
        for one in cells:
            spec = wanted(self.configuration, one)
            path = self.configuration.cell_file(one)
            publish(path, spec, synthetic.cell(spec), self.folder / "rescued")

    def statuses(self) -> list[str]:
        with xr.open_dataset(self.configuration.folder / "dataset.nc") as dataset:
            return [STATUS[value] for value in dataset["status"].values.ravel()]


@pytest.fixture
def partly(tmp_path: Path) -> Partly:
    (tmp_path / "mine.yaml").write_text("parameters: {rtt: [5, 20], streams: [1, 2]}\n")
    asked = {"sweep": f"{tmp_path}/mine.yaml", "testbed": "netns", "results": f"{tmp_path}/results"}
    partly = Partly(tmp_path, load(asked, ROOT))
    partly.put(partly.configuration.grid.cells[:-1])
    return partly


FRONT = ROOT / "workflow/report/workflow.rst"
SAID = "mine: 3 of 4 cells are there; the others are left out (--config measure=true measures them first)\n"


def test_what_is_made_of_a_dataset_is_made_of_the_cells_that_are_there(partly: Partly) -> None:
    done = snakemake("export", *partly.given)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(SAID) == 1
    assert partly.statuses() == ["ok", "ok", "ok", "not_measured"]
    again = snakemake("-n", "export", *partly.given)
    assert "Nothing to be done" in again.stdout
    assert loaded_by("-n", "export", *partly.given) == []
    measured = snakemake("-n", "export", *partly.given, "measure=true")
    assert "deployment rtt=20, 2 cells in it" in measured.stdout
    assert SAID not in measured.stdout
    partly.put(partly.configuration.grid.cells[-1:])
    done = snakemake("export", *partly.given)
    assert SAID not in done.stdout
    assert partly.statuses() == ["ok"] * 4


@pytest.fixture
def complete(partly: Partly) -> Partly:
    """The same sweep with all its cells and a dataset of them, so that nothing is to be done."""
    configuration = partly.configuration
    partly.put(configuration.grid.cells)
    holes.write([], 4, configuration.folder / "not_measured.json", configuration.folder / "front.rst", FRONT)
    assert snakemake("export", *partly.given).returncode == 0
    assert "Nothing to be done" in snakemake("-n", f"{configuration.folder}/dataset.nc", *partly.given).stdout
    return partly


@pytest.mark.parametrize("target", ["dataset.nc", "cells.csv"])
def test_a_cell_that_was_deleted_is_measured_for_what_is_made_of_it(complete: Partly, target: str) -> None:
    configuration = complete.configuration
    configuration.cell_file(configuration.grid.cells[-1]).unlink()
    done = snakemake("-n", f"{configuration.folder}/{target}", *complete.given)
    assert "deployment rtt=20, 2 cells in it" in done.stdout
    assert "deployment rtt=5" not in done.stdout
    assert "fold 4 cells" in done.stdout


def test_a_folder_in_a_cells_place_is_measured_anew(complete: Partly) -> None:
    file = complete.configuration.cell_file(complete.configuration.grid.cells[-1])
    file.unlink()
    file.mkdir()
    done = snakemake("-n", *complete.given)
    assert done.returncode == 0, done.stdout
    assert "deployment rtt=20, 2 cells in it" in done.stdout


def test_a_dataset_that_was_damaged_is_made_anew(complete: Partly) -> None:
    dataset = complete.configuration.folder / "dataset.nc"
    content, made = dataset.read_bytes(), dataset.stat()
    for damaged in (b"", content[:-100], content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]):
        dataset.write_bytes(damaged)
        os.utime(dataset, ns=(made.st_atime_ns, made.st_mtime_ns))
        assert "fold 4 cells" in snakemake("-n", str(dataset), *complete.given).stdout
    assert snakemake("export", *complete.given).returncode == 0
    assert complete.statuses() == ["ok"] * 4
    assert "Nothing to be done" in snakemake("-n", str(dataset), *complete.given).stdout


def test_a_damaged_cell_is_left_out_of_what_is_there_and_said_at_the_end(partly: Partly) -> None:
    configuration = partly.configuration
    file = configuration.cell_file(configuration.grid.cells[1])
    file.write_bytes(file.read_bytes().replace(b'"status":"ok"', b'"status":"KO"'))
    done = snakemake("export", *partly.given)
    assert done.returncode == 1
    assert partly.statuses() == ["ok", "not_measured", "ok", "not_measured"]
    assert file.with_name(f"{file.name}.damaged").exists()
    last = done.stdout[done.stdout.rindex("mine: files of cells that were damaged:") :]
    assert f"{file} was damaged (changed after it was written" in last
    assert f"-- {file}" in last  # the command that measures it
    assert "deployment rtt=5, 2 cells in it" in snakemake("-n", "cells", *partly.given).stdout


@pytest.mark.parametrize("profile", [[], ["--profile", "k8s"]])
def test_what_was_made_by_an_older_script_is_current(profile: list[str], partly: Partly) -> None:
    partly.put(partly.configuration.grid.cells)
    config = [*partly.given, "testbed=netns"]
    assert snakemake("export", *config).returncode == 0
    folder = partly.configuration.folder
    files = [*folder.glob("cells/**/*.json"), folder / "cells.csv", folder / "dataset.nc"]
    for year, file in enumerate([*files, *folder.glob("export/*")], start=1):
        os.utime(file, (year * 3e7, year * 3e7))
    for target in ("cells", "export"):
        assert "Nothing to be done" in snakemake("-n", *profile, target, *config).stdout


def test_a_front_page_that_came_with_results_is_not_run(partly: Partly) -> None:
    partly.put(partly.configuration.grid.cells)
    folder, owned = partly.configuration.folder, partly.folder / "owned"
    assert snakemake("export", *partly.given).returncode == 0
    (folder / "front.rst").write_text(f"{{{{ cycler.__init__.__globals__.os.system('touch {owned}') }}}}\n")
    hole = {"deployment": "rtt=5", "cells": ["rtt=5/streams=1"], "why": "{{ 6 * 7 }} <b>", "command": "x"}
    (folder / "not_measured.json").write_text(json.dumps([hole]))
    report = partly.folder / "report.html"
    done = snakemake("--report", str(report), *partly.given, "--", f"{folder}/cells.csv")
    assert done.returncode == 0, done.stdout
    assert not owned.exists()
    assert "{{ 6 * 7 }} &lt;b&gt;" in report.read_text()


def test_cells_of_another_specification_are_not_there(partly: Partly) -> None:
    (partly.folder / "mine.yaml").write_text(
        "parameters: {rtt: [5, 20], streams: [1, 2], bandwidth: 0.5 Gbit/s}\n"
    )
    done = snakemake("-n", "models", *partly.given)
    assert done.returncode != 0
    [line] = [line for line in done.stdout.splitlines() if line.startswith("mine: ")]
    assert line == (
        f"mine: none of its 4 cells is there; snakemake --config sweep={partly.folder}/mine.yaml testbed=netns "
        f"results={partly.folder}/results -- cells measures them"
    )


def test_what_is_made_of_a_dataset_needs_no_machine_that_can_measure_it(partly: Partly) -> None:
    (partly.folder / "mine.yaml").write_text("parameters: {rtt: [5, 20, 1000], streams: [1, 2]}\n")
    assert "3 of 6 cells are there" in snakemake("-n", "models", *partly.given).stdout
    assert "parameters.rtt[2]: given 1000 ms" in snakemake("-n", "cells", *partly.given).stdout


def test_of_a_job_that_fails_nothing_is_said_of_cells_that_there_were_none_of(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    asked = {"sweep": f"{tmp_path}/mine.yaml", "testbed": "simulation", "results": f"{tmp_path}/results"}
    configuration = load(asked, ROOT)
    (configuration.folder / "logs" / "deployment=only" / "simgrid.log").mkdir(
        parents=True
    )  # a log in a job's way
    done = snakemake("cells", "--config", *(f"{key}={value}" for key, value in asked.items()))
    assert done.returncode != 0
    assert "IsADirectoryError" in done.stdout
    assert "no backup found" not in done.stdout


def test_a_cell_that_was_edited_is_set_aside_and_simulated_again_in_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    asked = {"sweep": f"{tmp_path}/mine.yaml", "testbed": "simulation", "results": f"{tmp_path}/results"}
    configuration = load(asked, ROOT)
    target = f"{configuration.folder}/dataset.nc"
    command = (target, "--config", *(f"{key}={value}" for key, value in asked.items()))
    done = snakemake(*command)
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in snakemake("-n", *command).stdout
    file = configuration.cell_file(configuration.grid.cells[0])
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"status":"ok"', b'"status":"KO"'))
    done = snakemake(*command)
    assert done.returncode == 0, done.stdout
    assert f"{file} was damaged (changed after it was written" in done.stdout
    assert read(file)["summary"] == orjson.loads(whole)["summary"]
    with xr.open_dataset(target) as dataset:
        assert (dataset["status"] == STATUS.index("ok")).all()
    assert "Nothing to be done" in snakemake("-n", *command).stdout


def loaded_by(*arguments: str) -> list[str]:
    """Heavy libraries that a Snakemake has loaded by its end, beside those of its plugins: Slurm's loads pandas."""
    code = """
import json, sys
from snakemake.cli import get_argument_parser, main
get_argument_parser()
plugins = set(sys.modules)
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = "kubernetes", "matplotlib", "pandas", "scipy", "sklearn", "xarray"
print(json.dumps([name for name in heavy if name not in plugins and sys.modules.get(name)]))
"""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "snakemake")  # what the command is called
        script.write_text(code)
        done = subprocess.run(
            [sys.executable, str(script), *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("listing", ["-n", "grid"])
def test_planning_loads_no_science(listing: str, tmp_path: Path) -> None:
    assert loaded_by(listing, "--config", f"results={tmp_path}") == []


def test_a_figure_has_nothing_to_do_with_the_configured_sweep(tmp_path: Path) -> None:
    # config/sweeps/nodes.yaml asks for 0 ms, which these paths do not have.
    pairs = [{"rtt": f"{rtt} ms", "source": {}, "destination": {}} for rtt in (5, 10, 20, 40, 60, 80, 120)]
    mine = {"kind": "kubernetes", "image": "x", "paths": {"kind": "nodes", "pairs": pairs}}
    mine |= {"bandwidth": "100 Gbit/s", "mtu": 9000, "memory": "2 TB"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine))
    asked = ["--config", f"testbed={tmp_path}/mine.yaml", f"results={tmp_path}/results"]
    done = snakemake("--profile", "k8s", "-n", "chep2024_fig4", *asked)
    assert done.returncode == 0, done.stdout
    assert "nodes.yaml" in snakemake("--profile", "k8s", "-n", *asked).stdout
    assert not (tmp_path / "results").exists()


def test_a_dry_run_of_a_figure_says_what_would_be_refused(tmp_path: Path) -> None:
    asked = ["--config", "testbed=netns", "scale=1/1000000", f"results={tmp_path}/results"]
    done = snakemake("-n", "chep2024_fig4", *asked)
    assert done.returncode != 0
    assert "parameters.file_size: given 4 GB × 1/1000000 = 4000 B, allowed: 1 MiB or more" in done.stdout
    assert not (tmp_path / "results").exists()
