# SPDX-License-Identifier: Apache-2.0
"""The house: pictures and generated parts are current, names in texts exist, scripts stand."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest
from tpcsweep.running import studies

from docs import architecture, commands
from tests.support.workflow import ROOT

NAME = re.compile(r"(?<!/)\btpcsweep((?:\.[A-Za-z_][A-Za-z_0-9]*)+)")
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),  # not docs/adding: its examples do not exist
    *(ROOT / "notebooks").glob("*.ipynb"),
    *(ROOT / "studies").glob("*/*.ipynb"),
    *(ROOT / name / "README.md" for name in ("benchmarks", "config", "examples")),
    *(ROOT / "studies").glob("*/README.md"),
]


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


def test_pages_name_commands_and_targets_that_exist() -> None:
    assert named("tpcsweep") - {*commands.COMMANDS} == set()
    rules = (ROOT / "workflow/Snakefile").read_text()
    assert set(re.findall(r"^rule (\w+):", rules, re.MULTILINE)) == RULES
    assert named("snakemake") - RULES == set()


SCRIPTS = sorted(Path("workflow/scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_reports_a_full_disk(script: Path) -> None:
    *_, work = ast.parse(script.read_text()).body
    assert isinstance(work, ast.With)
    assert ast.unparse(work.items[0]).startswith("exit_on_errors(")


def test_a_full_disk_is_told_in_plain_words_and_other_refusals_keep_their_traceback(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit) as ended,
        studies.exit_on_errors(str(tmp_path / "no folder/log"), about="demo"),
    ):
        raise OSError(28, "No space left on device", "results/demo/dataset.nc")
    told = "demo: results/demo/dataset.nc: No space left on device: make room"
    assert str(ended.value.code).startswith(told)
    with pytest.raises(PermissionError), studies.exit_on_errors(str(tmp_path / "log"), about="demo"):
        raise PermissionError(13, "Permission denied")
    assert not (tmp_path / "log").exists()
