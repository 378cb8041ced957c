# SPDX-License-Identifier: Apache-2.0
"""docs/command-line.md: generated from the code, current, and short."""

from __future__ import annotations

from docs import commands


def test_the_page_is_current() -> None:
    assert commands.PAGE.read_text() == commands.made(), "run make docs"


def test_the_page_is_short() -> None:
    assert len(commands.PAGE.read_text().split()) <= 2500


def test_every_command_has_an_example() -> None:
    sections = commands.commands().split("\n### ")
    assert len(sections) == len(commands.COMMANDS)
    assert [section for section in sections if "Example: tpcsweep " not in section] == []
