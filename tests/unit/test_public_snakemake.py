# SPDX-License-Identifier: Apache-2.0
"""The workflow uses documented Snakemake only, is short, and plans every sweep that ships."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration, load

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

RULES = sorted((ROOT / "workflow/rules").glob("*.smk"))
SNAKEFILES = [
    ROOT / "Snakefile",
    ROOT / "workflow/Snakefile",
    *RULES,
    *sorted(ROOT.glob("studies/*/Snakefile")),
]
MODULES = [
    *sorted((ROOT / "workflow/scripts").glob("*.py")),
    *sorted((ROOT / "workflow/tpcsweep/running").glob("*.py")),
]
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
    assert not re.findall(
        r"\blambda\b|\.dag\b|get_argument_parser|sys\.|subprocess|os\.system|\bprint\(", text
    )
    # The copy that source_path makes of a study's notebook would not have the study's modules beside it.
    assert file.parent.parent.name != "studies" or "source_path" not in text
    loops = re.findall(r"^ *for .*", text, re.MULTILINE)
    assert loops == (["for deployments in STUDIES.deployments:"] if file.name == "measure.smk" else [])


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_a_script_uses_nothing_of_snakemake_but_the_object_that_it_gets(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert not {module for module in _imports(tree) if module.partition(".")[0] == "snakemake"}
    # The user's own command for the end of a run is the only one that is started.
    assert "subprocess" not in _imports(tree) or file.name == "hooks.py"
    of_others = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert not {node.attr for node in of_others if re.match("_[^_]", node.attr)} - NAMED_TUPLE
    assert not {node.attr for node in of_others} & {"dag", "argv", "get_argument_parser", "system"}
    if "scripts" in file.parts:
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Lambda | ast.FunctionDef)]


def _imports(tree: ast.Module) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def test_every_sweep_that_ships_is_planned(tmp_path: Path) -> None:
    studies = [*_shipped(tmp_path)]
    asked = ",".join(f"{study.asked['sweep']}@{study.testbed_name}" for study in studies)
    done = snakemake("-n", "cells", "--config", f"sweep={asked}", f"results={tmp_path}/results")
    assert done.returncode == 0, done.stdout[-3000:]
    planned = set(re.findall(r"[^\s,]+\.jsonl?\b", done.stdout))
    for study in studies:
        files = [study.cells_file] if study.testbed.simulated else map(study.cell_file, study.grid.cells)
        assert set(map(str, files)) <= planned, study.folder
    assert not (tmp_path / "results").exists()


def _shipped(folder: Path) -> Iterator[Configuration]:
    """Yield each sweep that ships on this machine if it can measure it, and otherwise on a simulated testbed."""
    for file in sorted((ROOT / "config").glob("sweeps/*.yaml")) + sorted(
        (ROOT / "config").glob("published/*.yaml")
    ):
        config = {"sweep": file.stem, "results": f"{folder}/results"}
        here = load({**config, "testbed": "netns"}, ROOT)
        yield load({**config, "testbed": "simulation"}, ROOT) if check(here) else here
