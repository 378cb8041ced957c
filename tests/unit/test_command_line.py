# SPDX-License-Identifier: Apache-2.0
"""docs/command-line.md is current and short, and pages name commands and rules that exist."""

import re

from docs import commands
from tests.support.workflow import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
RULES = {"all", "cells", "published"}


def named(program: str) -> set[str]:
    code = "\n".join(text for page in PAGES for text in CODE.findall(page.read_text()))
    return set(re.findall(rf"(?m)(?:`|^|&& |bin/|\$\(){program} ([a-z]\w*)(?![\w/])", code))


def test_the_page_is_current_and_short() -> None:
    assert commands.PAGE.read_text() == commands.made(), "run make docs"
    assert len(commands.PAGE.read_text().split()) <= 2500


def test_pages_name_commands_and_targets_that_exist() -> None:
    assert named("tpcsweep") - {*commands.COMMANDS} == set()
    rules = (ROOT / "workflow/Snakefile").read_text()
    assert set(re.findall(r"^rule (\w+):", rules, re.MULTILINE)) == RULES
    assert named("snakemake") - RULES == set()
