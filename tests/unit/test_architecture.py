# SPDX-License-Identifier: Apache-2.0
"""The house: floors that imports go down, a picture that is that of the code, and names in texts that exist."""

import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import architecture
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
    ("linux.counters", "tpcsweep.linux.signals"): "No cycles are allowed in tpcsweep.linux",
    ("linux.signals", "tpcsweep.linux.counters"): "No cycles are allowed in tpcsweep.linux",
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
