# SPDX-License-Identifier: Apache-2.0
"""The workflow in another folder, as a module of another workflow; and as Snakemake's catalogue asks for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
import yaml

from tests.support.workflow import ROOT

MODULE = f"""
module tpcsweep:
    snakefile: {str(ROOT / "workflow/Snakefile")!r}
    config: config

use rule * from tpcsweep
"""


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in another folder, as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with a workflow of its own that has a sweep, and nothing else."""
    (tmp_path / "Snakefile").write_text(MODULE)
    sweeps = tmp_path / "config" / "sweeps"
    sweeps.mkdir(parents=True)
    (sweeps / "mine.yaml").write_text("parameters: {streams: [1, 2], rtt: 10 ms, bandwidth: 1 Gbps}\n")
    return tmp_path


def test_a_sweep_is_run_to_its_page_in_another_folder(elsewhere: Path) -> None:
    config = ("--config", "sweep=mine", "testbed=simulation")
    done = snakemake(elsewhere, *config)
    assert done.returncode == 0, done.stdout
    results = elsewhere / "results" / "mine@simulation"
    assert xr.load_dataset(results / "dataset.nc").throughput.notnull().all()
    for name in ("index.html", "notebooks/surface.html", "figures/limits.svg"):
        assert (results / name).stat().st_size > 10_000
    assert "Nothing to be done" in snakemake(elsewhere, "-n", *config).stdout


def test_a_deployed_folder_has_its_configuration(elsewhere: Path) -> None:
    # As snakedeploy makes it: the whole configuration, and the workflow's own file.
    shutil.copytree(ROOT / "config", elsewhere / "config", dirs_exist_ok=True)
    (elsewhere / "config/config.yaml").write_text("sweep: mine\ntestbed: simulation\n")
    (elsewhere / "Snakefile").write_text(f'configfile: "config/config.yaml"\n{MODULE}')
    done = snakemake(elsewhere, "-n")
    assert done.returncode == 0, done.stdout
    assert "results/mine@simulation/index.html" in done.stdout
    done = snakemake(elsewhere, "-n", "--config", "sweep=mien")
    assert "sweep: given 'mien', allowed: mine? one of" in done.stdout
    assert done.returncode != 0


def test_a_folder_without_sweeps_has_those_that_ship_and_rules_may_be_renamed(elsewhere: Path) -> None:
    shutil.rmtree(elsewhere / "config")
    (elsewhere / "Snakefile").write_text(MODULE.replace("from tpcsweep", "from tpcsweep as tpc_*"))
    done = snakemake(elsewhere, "-n", "--config", "sweep=smoke", "testbed=netns")
    assert done.returncode == 0, done.stdout
    assert {"rule tpc_measure_smoke:", "rule tpc_page:"} <= set(
        done.stdout.replace("localrule", "rule").splitlines()
    )
    done = snakemake(elsewhere, "-n")
    assert "sweep: given nothing, allowed: this key is needed" in done.stdout


def test_rules_of_the_other_workflow_take_what_it_makes(elsewhere: Path) -> None:
    made = "results/mine@simulation/dataset.nc"
    rule = f'rule mine:\n    input: "{made}"\n    output: "mine.txt"\n    shell: "touch {{output}}"\n'
    (elsewhere / "Snakefile").write_text(f"{MODULE}\n{rule}")
    done = snakemake(elsewhere, "-n", "mine", "--config", "sweep=mine", "testbed=simulation")
    assert done.returncode == 0, done.stdout
    assert {"rule simulate:", "rule dataset:", "rule mine:"} <= set(done.stdout.splitlines())


def test_the_catalogue_finds_what_it_looks_for() -> None:
    # https://snakemake.github.io/snakemake-workflow-catalog: "adding workflows"
    assert (ROOT / "workflow/Snakefile").is_file()
    assert list((ROOT / "workflow/rules").glob("*.smk"))
    assert {"snakemake", "workflow"} <= set((ROOT / "README.md").read_text().lower().split())
    assert (ROOT / "config/README.md").read_text().startswith("# Configuration")
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["software-stack-deployment"]) == {"conda", "apptainer", "apptainer+conda"}
    assert all(isinstance(value, bool) for value in usage["software-stack-deployment"].values())


def test_the_catalogue_finds_nothing_to_say_of_it() -> None:
    # The two checks that it runs, as it runs them.
    rules = sorted((ROOT / "workflow/rules").glob("*.smk"))
    for command in (
        ["snakemake", "--lint"],
        ["snakefmt", "--check", "-v", ROOT / "workflow/Snakefile", *rules],
    ):
        done = subprocess.run(
            [Path(sys.executable).with_name(command[0]), *command[1:]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
