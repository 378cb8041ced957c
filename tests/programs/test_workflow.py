# SPDX-License-Identifier: Apache-2.0
"""The workflow: short, of documented Snakemake only, as it is planned, and in another folder as a module."""

import ast
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import xarray as xr
import yaml
from tpcsweep.running.products import NOTEBOOKS
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.support import check

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, succeeded


def planned(*arguments: str, folder: Path = ROOT) -> str:
    done = snakemake("-c1", "-n", *arguments, folder=folder)
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


def test_every_listed_rule_has_a_description_of_its_own() -> None:
    listed = dict(re.findall(r"^(\w+)(?: \((.+)\))?$", snakemake("--list-rules").stdout, re.MULTILINE))
    described = [text for text in listed.values() if text]
    assert {rule for rule, text in listed.items() if not text} == {"default", "measure_demo"}
    # The rules of notebooks share a text.
    assert len(described) > 15 and len(set(described)) == len(described) - len(NOTEBOOKS) + 1


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
    one_study |= {notebook.name for notebook in NOTEBOOKS}
    assert slurm["groups"] == dict.fromkeys(one_study, "study")


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
    said = succeeded([sys.executable, str(script), "-n", "--configfile", str(tmp_path / "mine.yaml")])
    assert f"{tmp_path}/elsewhere/smoke/index.html" in said
    assert json.loads(said.splitlines()[-1]) == []


RULES = sorted((ROOT / "workflow/rules").glob("*.smk"))
STUDIES = sorted(ROOT.glob("studies/*/Snakefile"))
SNAKEFILES = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *RULES, *STUDIES]
MODULES = sorted([*ROOT.glob("workflow/scripts/*.py"), *ROOT.glob("workflow/tpcsweep/running/*.py")])
LOOPS = {
    "measure.smk": ["for group in STUDIES.deployment_groups:"],
    "mesh.smk": ["for mesh in STUDIES.meshes:"],
    "notebooks.smk": ["for notebook in NOTEBOOKS:"],
}
NAMED_TUPLE = {"_asdict", "_fields", "_replace"}
"""Public methods in spite of their names."""


def lines(file: Path) -> list[str]:
    """The lines of a Snakefile without comments."""
    return [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_workflow_is_short() -> None:
    assert len((ROOT / "workflow/Snakefile").read_text().splitlines()) <= 80
    assert sum(len(file.read_text().splitlines()) for file in RULES) <= 300
    assert lines(ROOT / "Snakefile")[0] == 'include: "workflow/Snakefile"'


@pytest.mark.parametrize("file", SNAKEFILES, ids=name)
def test_a_snakefile_is_a_table_of_rules(file: Path) -> None:
    text = "\n".join(lines(file))
    assert not re.findall(r"\._\w+", text), "an attribute that begins with an underscore"
    assert not re.findall(r"^ *(?:if|elif|else|while|try|match|def|run|shell)\b.*", text, re.MULTILINE)
    undocumented = r"\blambda\b|\.dag\b|get_argument_parser|sys\.|subprocess|os\.system|\bprint\("
    assert not re.findall(undocumented, text)
    # The copy that source_path makes of a study's notebook would not have the study's modules next to it.
    assert file.parent.parent.name != "studies" or "source_path" not in text
    loops = re.findall(r"^ *for .*:$", text, re.MULTILINE)
    assert loops == LOOPS.get(file.name, [])


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_a_script_uses_nothing_of_snakemake_but_the_object_that_it_gets(file: Path) -> None:
    nodes = [*ast.walk(ast.parse(file.read_text()))]
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {module for module in imports if module.partition(".")[0] == "snakemake"}
    # The user's own commands, for hosts and for the end of a run, are the only ones that are started.
    assert "subprocess" not in imports or file.name in ("hooks.py", "host_settings.py", "hosts.py")
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    of_others = {node.attr for node in attributes if ast.unparse(node.value) != "self"}
    assert not {name for name in of_others if re.match("_[^_]", name)} - NAMED_TUPLE
    assert not of_others & {"dag", "argv", "get_argument_parser", "system"}
    if "scripts" in file.parts:
        assert not [node for node in nodes if isinstance(node, ast.Lambda | ast.FunctionDef)]


def test_every_sweep_that_ships_is_planned(tmp_path: Path) -> None:
    studies = []
    for file in [*ROOT.glob("config/sweeps/*.yaml"), *ROOT.glob("config/published/*.yaml")]:
        config = {"sweep": file.stem, "results": f"{tmp_path}/results"}
        # Simulated if this machine cannot measure it, and left out if the model cannot either.
        own = (ROOT / f"config/testbeds/{file.stem}.yaml").exists()
        testbeds = (file.stem,) if own else ("netns", "simulation")
        found = [load({**config, "testbed": name}, ROOT) for name in testbeds]
        studies += [study for study in found if not check(study)][:1]
    assert len(studies) > 15
    asked = ",".join(f"{study.requested['sweep']}@{study.testbed_name}" for study in studies)
    done = snakemake(
        "-n", "cells", "--printshellcmds", "--config", f"sweep={asked}", f"results={tmp_path}/results"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    planned = set(re.findall(r"[^\s,]+\.jsonl?\b", done.stdout))
    for study in studies:
        files = [study.cells_file] if study.testbed.simulated else map(study.cell_file, study.grid.cells)
        assert set(map(str, files)) <= planned, study.folder
    assert not (tmp_path / "results").exists()


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
    (sweeps / "mine.yaml").write_text("parameters: {streams: [1, 2], rtt: 10 ms, bandwidth: 1 Gbit/s}\n")
    return tmp_path


def test_a_sweep_is_run_in_another_folder_and_renamed_rules_make_what_others_take(elsewhere: Path) -> None:
    made = "results/mine@simulation/notebooks/limits.html"
    rule = f'rule mine:\n    input: "{made}"\n    output: "mine.txt"\n    shell: "touch {{output}}"\n'
    renamed = MODULE.replace("from tpcsweep", "from tpcsweep as tpc_*")
    (elsewhere / "Snakefile").write_text(f"{renamed}\n{rule}")
    asked = "--config", "sweep=mine", "testbed=simulation"
    done = snakemake("-c1", "mine", *asked, folder=elsewhere)
    assert done.returncode == 0, done.stdout
    assert "rule tpc_simulate:" in done.stdout and (elsewhere / "mine.txt").exists()
    with xr.open_dataset(elsewhere / "results/mine@simulation/dataset.nc") as dataset:
        assert dataset.throughput.notnull().all()
    assert (elsewhere / made).stat().st_size > 10_000


def test_a_deployed_folder_has_its_configuration(elsewhere: Path) -> None:
    # As snakedeploy makes it: with the configuration in whole, and a file for the workflow's.
    shutil.copytree(ROOT / "config", elsewhere / "config", dirs_exist_ok=True)
    (elsewhere / "config/config.yaml").write_text("sweep: mine\ntestbed: simulation\n")
    (elsewhere / "Snakefile").write_text(f'configfile: "config/config.yaml"\n{MODULE}')
    planned("--quiet", "rules", folder=elsewhere)
    done = snakemake("-c1", "-n", "--config", "sweep=mien", folder=elsewhere)
    assert "sweep: given 'mien', allowed: mine? or another of" in done.stdout.splitlines()[-1]
    assert done.returncode != 0


def test_a_folder_without_sweeps_has_those_that_ship(elsewhere: Path) -> None:
    shutil.rmtree(elsewhere / "config")
    said = planned("--config", "sweep=smoke", "testbed=netns", folder=elsewhere)
    assert "results/smoke/index.html" in said
