# SPDX-License-Identifier: Apache-2.0
"""The workflow as Snakemake plans it, without running a job."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, finished


def planned(*arguments: str) -> str:
    done = snakemake("-n", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("listing", ["-n", "--summary", "--dag", "--list-rules"])
def test_a_listing_writes_nothing_wherever_results_are(listing: str, tmp_path: Path) -> None:
    below = tmp_path / "nowhere"
    results = os.path.relpath(below, ROOT) if listing == "-n" else below
    done = snakemake(listing, "--config", "sweep=smoke", f"results={results}")
    assert done.returncode == 0, done.stdout
    assert listing != "-n" or f"{results}/smoke/index.html" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_profile_k8s_runs_a_sweep_on_the_testbed_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    # Another sweep on the command line leaves the testbed of the profile.
    for sweep, name in (([], "nodes"), ([f"sweep={tmp_path}/mine.yaml"], "mine")):
        said = planned("--profile", "k8s", "--config", f"results={tmp_path}", *sweep)
        assert f"{tmp_path}/{name}@kubernetes/index.html" in said


def test_profiles_have_keys_of_their_own_and_slurms_groups_every_rule_that_computes_for_a_study() -> None:
    # The profile that Snakemake always reads wins over the others, key by key.
    profiles = (ROOT / f"profiles/{name}/config.yaml" for name in ("default", "k8s", "slurm"))
    always, k8s, slurm = (yaml.safe_load(profile.read_text()) for profile in profiles)
    assert not set(always) & (set(k8s) | set(slurm))
    rules = "".join(file.read_text() for file in (ROOT / "workflow/rules").glob("*.smk"))
    _, *parts = re.split(r"^ *(?:use )?rule\b(?: \w+ as)? ?(\w*)", rules, flags=re.MULTILINE)
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    one_study = {name for name, text in texts.items() if "/{study}/logs/" in text and "localrule" not in text}
    assert set(slurm["groups"]) == one_study


def test_wrong_input_is_refused_in_one_line_and_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("parameters:\n  rtt: 5 MiB\n")
    done = snakemake("-n", "--config", f"sweep={tmp_path}/bad.yaml")
    assert done.returncode != 0
    assert f"{tmp_path}/bad.yaml: parameters.rtt: given '5 MiB', allowed: a time" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("name", ["007", "1e3", "nan", "0x1F"])
def test_names_and_paths_are_looked_for_as_typed(name: str, tmp_path: Path) -> None:
    (tmp_path / "config/sweeps").mkdir(parents=True)
    (tmp_path / "config/config.yaml").write_text("testbed: simulation\n")
    (tmp_path / f"config/sweeps/{name}.yaml").write_text("parameters: {rtt: [1, 2]}\n")
    results = f"{name} #3: it's [a], é"
    config = ["--snakefile", str(ROOT / "Snakefile"), "--config", f"sweep={name}"]
    done = snakemake("-n", "cells", *config, f"results={results}", folder=tmp_path)
    assert f"{results}/{name}@simulation/cells.jsonl" in done.stdout


def test_a_dataset_replaces_the_sweep_and_a_grid_with_holes_has_the_cells_that_exist(
    tmp_path: Path,
) -> None:
    said = planned("--config", "dataset=examples/surface.nc", f"results={tmp_path}")
    assert f"{tmp_path}/surface/index.html" in said and "measure_" not in said
    sweep = "parameters: {rtt: [1, 2], streams: [1, 2]}\nexclude: [{rtt: 1, streams: 2}]\n"
    (tmp_path / "holes.yaml").write_text(sweep)
    said = planned("cells", "--config", f"sweep={tmp_path}/holes.yaml", f"results={tmp_path}")
    assert "rtt=2/streams=2" in said and "rtt=1/streams=2" not in said


def test_planning_honours_a_configfile_and_loads_no_science(tmp_path: Path) -> None:
    """Plugins may load heavy libraries: Slurm's loads pandas."""
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
    script = tmp_path / "snakemake"  # what the command is called
    script.write_text(code)
    (tmp_path / "mine.yaml").write_text(f"sweep: smoke\nresults: {tmp_path}/elsewhere\n")
    # As a user starts it; the others are started from a process that has Snakemake loaded.
    done = finished([sys.executable, str(script), "-n", "--configfile", str(tmp_path / "mine.yaml")])
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/elsewhere/smoke/index.html" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []
