# SPDX-License-Identifier: Apache-2.0
"""The workflow uses documented Snakemake only, is short, and plans every sweep that ships."""

import ast
import re
from pathlib import Path

import pytest
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import load

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

RULES = sorted((ROOT / "workflow/rules").glob("*.smk"))
STUDIES = sorted(ROOT.glob("studies/*/Snakefile"))
SNAKEFILES = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *RULES, *STUDIES]
MODULES = sorted([*ROOT.glob("workflow/scripts/*.py"), *ROOT.glob("workflow/tpcsweep/running/*.py")])
NAMED_TUPLE = {"_asdict", "_replace"}
"""Public methods in spite of their names."""


def lines(file: Path) -> list[str]:
    """The lines of a Snakefile without comments."""
    return [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_the_workflow_is_short() -> None:
    assert len((ROOT / "workflow/Snakefile").read_text().splitlines()) <= 80
    assert sum(len(file.read_text().splitlines()) for file in RULES) <= 500
    assert lines(ROOT / "Snakefile")[0] == 'include: "workflow/Snakefile"'


@pytest.mark.parametrize("file", SNAKEFILES, ids=name)
def test_a_snakefile_is_a_table_of_rules(file: Path) -> None:
    text = "\n".join(lines(file))
    assert not re.findall(r"\._\w+", text), "an attribute that begins with an underscore"
    assert not re.findall(r"^ *(?:if|elif|else|while|try|match|def|run|shell)\b.*", text, re.MULTILINE)
    undocumented = r"\blambda\b|\.dag\b|get_argument_parser|sys\.|subprocess|os\.system|\bprint\("
    assert not re.findall(undocumented, text)
    # The copy that source_path makes of a study's notebook would not have the study's modules beside it.
    assert file.parent.parent.name != "studies" or "source_path" not in text
    loops = re.findall(r"^ *for .*", text, re.MULTILINE)
    assert loops == (["for deployments in STUDIES.deployments:"] if file.name == "measure.smk" else [])


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_a_script_uses_nothing_of_snakemake_but_the_object_that_it_gets(file: Path) -> None:
    nodes = [*ast.walk(ast.parse(file.read_text()))]
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {module for module in imports if module.partition(".")[0] == "snakemake"}
    # The user's own command for the end of a run is the only one that is started.
    assert "subprocess" not in imports or file.name == "hooks.py"
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
        here = load({**config, "testbed": "netns"}, ROOT)
        # Simulated if this machine cannot measure it.
        studies.append(load({**config, "testbed": "simulation"}, ROOT) if check(here) else here)
    asked = ",".join(f"{study.asked['sweep']}@{study.testbed_name}" for study in studies)
    done = snakemake("-n", "cells", "--config", f"sweep={asked}", f"results={tmp_path}/results")
    assert done.returncode == 0, done.stdout[-3000:]
    planned = set(re.findall(r"[^\s,]+\.jsonl?\b", done.stdout))
    for study in studies:
        files = [study.cells_file] if study.testbed.simulated else map(study.cell_file, study.grid.cells)
        assert set(map(str, files)) <= planned, study.folder
    assert not (tmp_path / "results").exists()
