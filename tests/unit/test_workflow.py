# SPDX-License-Identifier: Apache-2.0
"""The workflow as Snakemake plans it, without running a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, finished


@pytest.mark.parametrize("listing", ["-n", "--summary", "--dag", "--list-rules"])
def test_a_listing_writes_nothing_wherever_results_are(listing: str, tmp_path: Path) -> None:
    below = tmp_path / "nowhere"
    results = os.path.relpath(below, ROOT) if listing == "-n" else below
    done = snakemake(listing, "--config", "sweep=smoke", f"results={results}")
    assert done.returncode == 0, done.stdout
    assert listing != "-n" or f"{results}/smoke/index.html" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_configfile_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"sweep: smoke\nresults: {tmp_path}/elsewhere\n")
    # By the command, as a user starts it; the others are started from a process that has Snakemake loaded.
    done = finished([sys.executable, "-m", "snakemake", "-n", "--configfile", str(tmp_path / "mine.yaml")])
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/elsewhere/smoke/index.html" in done.stdout


def test_the_profile_k8s_runs_a_sweep_on_the_testbed_kubernetes(tmp_path: Path) -> None:
    done = snakemake("--profile", "k8s", "-n", "--config", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/nodes@kubernetes/index.html" in done.stdout
    (tmp_path / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    # Another sweep on the command line leaves the testbed of the profile.
    other = [f"sweep={tmp_path}/mine.yaml", f"results={tmp_path}"]
    done = snakemake("--profile", "k8s", "-n", "--config", *other)
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/mine@kubernetes/index.html" in done.stdout


def test_the_keys_of_other_profiles_count() -> None:
    # The profile that Snakemake always reads wins over the others, key by key.
    always, k8s, slurm = (
        yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())
        for name in ("default", "k8s", "slurm")
    )
    assert not set(always) & (set(k8s) | set(slurm))


def test_wrong_input_is_refused_in_one_line_and_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("parameters:\n  rtt: 5 MiB\n")
    done = snakemake("-n", "--config", f"sweep={tmp_path}/bad.yaml")
    assert done.returncode != 0
    assert f"{tmp_path}/bad.yaml: parameters.rtt: given '5 MiB', allowed: a time" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_grid_with_holes_asks_for_the_cells_that_exist(tmp_path: Path) -> None:
    (tmp_path / "holes.yaml").write_text(
        "parameters: {rtt: [1, 2], streams: [1, 2]}\nexclude: [{rtt: 1, streams: 2}]\n"
    )
    done = snakemake("-n", "cells", "--config", f"sweep={tmp_path}/holes.yaml", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "rtt=2/streams=2" in done.stdout
    assert "rtt=1/streams=2" not in done.stdout


def test_a_dataset_from_elsewhere_takes_the_place_of_the_sweep(tmp_path: Path) -> None:
    done = snakemake("-n", "--config", "dataset=examples/surface.nc", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/surface/index.html" in done.stdout
    assert "measure_" not in done.stdout


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


def test_planning_loads_no_science(tmp_path: Path) -> None:
    assert loaded_by("-n", "--config", f"results={tmp_path}") == []
