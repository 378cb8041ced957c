# SPDX-License-Identifier: Apache-2.0
"""The workflow in another folder, as a module of another workflow; and as Snakemake's catalogue asks for it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import xarray as xr
import yaml

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, finished

MODULE = f"""
module tpcsweep:
    snakefile: {str(ROOT / "workflow/Snakefile")!r}
    config: config

use rule * from tpcsweep
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with a workflow of its own that has a sweep, and nothing else."""
    (tmp_path / "Snakefile").write_text(MODULE)
    sweeps = tmp_path / "config" / "sweeps"
    sweeps.mkdir(parents=True)
    (sweeps / "mine.yaml").write_text("parameters: {streams: [1, 2], rtt: 10 ms, bandwidth: 1 Gbps}\n")
    return tmp_path


SIMULATED = ("--config", "sweep=mine", "testbed=simulation")


def test_a_sweep_is_run_in_another_folder_and_its_rules_can_be_renamed(elsewhere: Path) -> None:
    (elsewhere / "Snakefile").write_text(MODULE.replace("from tpcsweep", "from tpcsweep as tpc_*"))
    made = "results/mine@simulation/notebooks/limits.html"
    done = snakemake("-c1", made, *SIMULATED, folder=elsewhere)
    assert done.returncode == 0, done.stdout
    with xr.open_dataset(elsewhere / "results/mine@simulation/dataset.nc") as dataset:
        assert dataset.throughput.notnull().all()
    assert (elsewhere / made).stat().st_size > 10_000


def test_a_deployed_folder_has_its_configuration(elsewhere: Path) -> None:
    # As snakedeploy makes it: with the configuration in whole, and a file for the workflow's.
    shutil.copytree(ROOT / "config", elsewhere / "config", dirs_exist_ok=True)
    (elsewhere / "config/config.yaml").write_text("sweep: mine\ntestbed: simulation\n")
    (elsewhere / "Snakefile").write_text(f'configfile: "config/config.yaml"\n{MODULE}')
    done = snakemake("-c1", "-n", "--quiet", "rules", folder=elsewhere)
    assert done.returncode == 0, done.stdout
    done = snakemake("-c1", "-n", "--config", "sweep=mien", folder=elsewhere)
    assert "sweep: given 'mien', allowed: mine? one of" in done.stdout
    assert done.returncode != 0


def test_a_folder_without_sweeps_has_those_that_ship(elsewhere: Path) -> None:
    shutil.rmtree(elsewhere / "config")
    done = snakemake("-c1", "-n", "--config", "sweep=smoke", "testbed=netns", folder=elsewhere)
    assert done.returncode == 0, done.stdout
    assert "results/smoke/index.html" in done.stdout


def test_rules_of_the_other_workflow_take_what_it_makes(elsewhere: Path) -> None:
    made = "results/mine@simulation/dataset.nc"
    rule = f'rule mine:\n    input: "{made}"\n    output: "mine.txt"\n    shell: "touch {{output}}"\n'
    (elsewhere / "Snakefile").write_text(f"{MODULE}\n{rule}")
    done = snakemake("-c1", "-n", "mine", *SIMULATED, folder=elsewhere)
    assert done.returncode == 0, done.stdout
    assert "rule simulate:" in done.stdout
    assert "rule mine:" in done.stdout


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
    # The two checks that it runs.
    linted = snakemake("--lint")
    assert linted.returncode == 0, linted.stdout
    files = [ROOT / "workflow/Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]
    formatted = finished([str(Path(sys.executable).with_name("snakefmt")), "--check", *map(str, files)])
    assert formatted.returncode == 0, formatted.stdout
