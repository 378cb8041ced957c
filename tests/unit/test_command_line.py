# SPDX-License-Identifier: Apache-2.0
"""Generated parts of pages are current, and pages name commands, rules and messages that exist."""

import re

import pytest

from docs import commands
from tests.support.workflow import ROOT

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
