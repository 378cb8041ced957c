# SPDX-License-Identifier: Apache-2.0
"""The house: imports go down, pictures and generated parts are current, names in texts exist, scripts stand."""

import ast
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tpcsweep.running import scripts

from docs import architecture, commands
from tests.support.workflow import ROOT, finished

NAME = re.compile(r"(?<!/)\btpcsweep((?:\.[A-Za-z_][A-Za-z_0-9]*)+)")
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),  # not docs/adding: its examples do not exist
    *(ROOT / "notebooks").glob("*.ipynb"),
    *(ROOT / "studies").glob("*/*.ipynb"),
    *(ROOT / name / "README.md" for name in ("benchmarks", "config", "examples")),
    *(ROOT / "studies").glob("*/README.md"),
]


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make lint` says of the imports of the package in a checkout or a copy, wherever it is installed."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return finished(command, cwd=folder, env={"PYTHONPATH": f"{folder / 'workflow'}:{folder}"})


def test_imports_go_down_the_floors_and_in_no_circle() -> None:
    done = linted(ROOT)
    assert done.returncode == 0, done.stdout


REFUSED = {
    ("variables", "tpcsweep.models"): "tpcsweep.variables is not allowed to import tpcsweep.models",
    ("claims.base", "tpcsweep.published"): "tpcsweep.claims is not allowed to import tpcsweep.published",
    ("linux.commands", "tpcsweep.linux.signals"): "No cycles are allowed in tpcsweep.linux",
    ("linux.signals", "tpcsweep.linux.commands"): "No cycles are allowed in tpcsweep.linux",
    ("tools.curl", "numpy"): "tpcsweep.client is not allowed to import numpy",
    ("loose", "json"): "- tpcsweep.loose",
}
"""What `make lint` says of a module that imports another one late."""


def test_an_arrow_up_a_circle_and_a_package_without_a_floor_are_refused(tmp_path: Path) -> None:
    package = tmp_path / "tpcsweep"
    shutil.copytree(ROOT / "workflow/tpcsweep", package, ignore=lambda *_: {"__pycache__"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, imported in REFUSED:
        with (package / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n\ndef late():\n    import {imported}\n")
    done = linted(tmp_path)
    assert done.returncode == 1
    assert [said for said in REFUSED.values() if said not in done.stdout] == []


def test_the_picture_and_the_table_are_those_of_the_code() -> None:
    stale = [str(file) for file, text in architecture.made().items() if file.read_text() != text]
    assert not stale, "run make docs"


def test_every_package_says_what_it_is_about() -> None:
    assert [room for floor in architecture.floors() for room in floor if not architecture.about(room)] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_texts_exist(text: Path) -> None:
    missing = []
    for name in sorted({match[0] for match in NAME.finditer(text.read_text())}):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert not missing


def test_the_functions_on_the_way_of_a_cell_exist() -> None:
    text = (ROOT / "docs/developing.md").read_text()
    way = text.partition("## The way of a cell")[2].partition("\n## ")[0]
    names = set(re.findall(r"`(\w+(?:\.\w+)+)`", way)) - {"not_measured.json"}
    assert len(names) > 20
    for name in names:
        pkgutil.resolve_name(f"tpcsweep.{name}")


def test_the_tests_that_show_guarantees_exist() -> None:
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", (ROOT / "docs/developing.md").read_text())
    assert len(named) > 10
    assert [test for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
RULES = {"all", "cells", "published"}


def named(program: str) -> set[str]:
    code = "\n".join(text for page in PAGES for text in CODE.findall(page.read_text()))
    return set(re.findall(rf"(?m)(?:`|^|&& |bin/|\$\(){program} ([a-z]\w*)(?![\w/])", code))


@pytest.mark.parametrize("page", commands.PARTS)
def test_generated_parts_are_current(page: str) -> None:
    assert (commands.DOCS / page).read_text() == commands.made(page), "run make docs"


def test_the_reference_is_short() -> None:
    assert len((commands.DOCS / "command-line.md").read_text().split()) <= 2800


def test_pages_name_commands_and_targets_that_exist() -> None:
    assert named("tpcsweep") - {*commands.COMMANDS} == set()
    rules = (ROOT / "workflow/Snakefile").read_text()
    assert set(re.findall(r"^rule (\w+):", rules, re.MULTILINE)) == RULES
    assert named("snakemake") - RULES == set()


SCRIPTS = sorted(Path("workflow/scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_everything_that_a_script_imports_is_there(script: Path) -> None:
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tpcsweep"):
            for name in node.names:
                if not hasattr(importlib.import_module(node.module), name.name):
                    importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_reports_a_full_disk(script: Path) -> None:
    *_, work = ast.parse(script.read_text()).body
    assert isinstance(work, ast.With)
    assert ast.unparse(work.items[0]).startswith("reported(")


def test_a_full_disk_is_told_in_plain_words_and_other_refusals_keep_their_traceback(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended, scripts.reported(str(tmp_path / "no folder/log"), about="demo"):
        raise OSError(28, "No space left on device", "results/demo/dataset.nc")
    told = "demo: results/demo/dataset.nc: No space left on device: make room"
    assert str(ended.value.code).startswith(told)
    with pytest.raises(PermissionError), scripts.reported(str(tmp_path / "log"), about="demo"):
        raise PermissionError(13, "Permission denied")
    assert not (tmp_path / "log").exists()
