# SPDX-License-Identifier: Apache-2.0
"""The workflow in another folder, as a module of another workflow; and as Snakemake's catalogue asks for it."""

import shutil
from pathlib import Path

import pytest
import xarray as xr
import yaml

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

MODULE = f"""
module tpcsweep:
    snakefile: {str(ROOT / "workflow/Snakefile")!r}
    config: config

use rule * from tpcsweep
"""


def planned(folder: Path, *arguments: str) -> str:
    done = snakemake("-c1", "-n", *arguments, folder=folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


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
    planned(elsewhere, "--quiet", "rules")
    done = snakemake("-c1", "-n", "--config", "sweep=mien", folder=elsewhere)
    assert "sweep: given 'mien', allowed: mine? one of" in done.stdout
    assert done.returncode != 0


def test_a_folder_without_sweeps_has_those_that_ship(elsewhere: Path) -> None:
    shutil.rmtree(elsewhere / "config")
    said = planned(elsewhere, "--config", "sweep=smoke", "testbed=netns")
    assert "results/smoke/index.html" in said


def test_rules_of_the_other_workflow_take_what_it_makes(elsewhere: Path) -> None:
    made = "results/mine@simulation/dataset.nc"
    rule = f'rule mine:\n    input: "{made}"\n    output: "mine.txt"\n    shell: "touch {{output}}"\n'
    (elsewhere / "Snakefile").write_text(f"{MODULE}\n{rule}")
    said = planned(elsewhere, "mine", *SIMULATED)
    assert "rule simulate:" in said and "rule mine:" in said


def test_the_catalogue_finds_what_it_looks_for() -> None:
    # https://snakemake.github.io/snakemake-workflow-catalog: "adding workflows". Its two checks are in `make lint`.
    files = [ROOT / "workflow/Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    assert len(files) > 1
    assert {"snakemake", "workflow"} <= set((ROOT / "README.md").read_text().lower().split())
    assert (ROOT / "config/README.md").read_text().startswith("# Configuration")
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    deployment = usage["software-stack-deployment"]
    assert set(deployment) == {"conda", "apptainer", "apptainer+conda"}
    assert all(isinstance(value, bool) for value in deployment.values())
