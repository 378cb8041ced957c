# SPDX-License-Identifier: Apache-2.0
"""Write the generated parts of docs/command-line.md: the keys of the configuration and the help of each command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
from tpcsweep.cli import COMMANDS, main
from tpcsweep.configuration.loading import WorkflowSettings

PAGE = Path(__file__).with_name("command-line.md")


def keys() -> str:
    """Return the table of the keys that Snakemake reads."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in WorkflowSettings.model_fields.items():
        default = "needed" if field.is_required() else json.dumps(field.default).strip('"')
        lines.append(f"| `{name}` | {default} | {' '.join(field.description.split())} |")
    return "\n".join(lines)


def commands() -> str:
    """Return a section for each command of `tpcsweep`: its help."""
    group = click.Context(main, info_name="tpcsweep", terminal_width=100, **main.context_settings)
    sections = []
    for name in COMMANDS:
        command = main.get_command(group, name)
        assert command is not None
        text = re.sub(r" +$", "", command.get_help(click.Context(command, group, name)), flags=re.MULTILINE)
        sections.append(f"### {name}\n\n```\n{text}\n```")
    return "\n\n".join(sections)


def made() -> str:
    """Return the text of the page with its generated parts renewed."""
    text = PAGE.read_text()
    for name, part in (("keys", keys()), ("commands", commands())):
        marks = rf"(?s)(?<=<!-- {name}, made by commands.py -->\n).*?(?=<!-- end -->)"
        text = re.sub(marks, f"{part}\n".replace("\\", r"\\"), text, count=1)
    return text


if __name__ == "__main__":
    PAGE.write_text(made())
