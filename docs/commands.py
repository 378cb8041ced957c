# SPDX-License-Identifier: Apache-2.0
"""Write the generated parts of the pages: keys, parameters, limits, flags, commands, and the times of sweeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from tpcsweep.cli import main
from tpcsweep.cli.grid import grid_summary
from tpcsweep.cli.plan import QuestionCommand
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.importing.import_settings import Axis, Import
from tpcsweep.data.variables import LIMIT_REMEDIES, LIMITS
from tpcsweep.pages.limit_colours import LIMIT_LETTERS
from tpcsweep.sweeps.parameters import Parameters, about_support
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.sweeps.units import Quantity, show
from tpcsweep.testbeds.kubernetes.placements import Origin, Placement, Role, Side
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair, Paths
from tpcsweep.testbeds.loading import WorkflowSettings, load
from tpcsweep.testbeds.netns.settings import Netns

DOCS = Path(__file__).parent
COMMON = {"--sweep", "--testbed", "--results", "--json", "--help"}
"""Options that the page describes once for all commands."""
INHERITED: Mapping[Any, Collection[str]] = {
    Side: Placement.model_fields,
    Placement: Role.model_fields,
    Origin: Role.model_fields,
}
"""Keys that the table of another model contains."""


def table(header: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [header, "|" + "---|" * (header.count("|") - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def settings(*models: type[BaseModel]) -> str:
    """Return a table of the keys of models, with defaults and descriptions."""
    rows = [
        (f"`{name}`", _default(field), " ".join((field.description or "").split()))
        for model in models
        for name, field in model.model_fields.items()
        if name not in INHERITED.get(model, ())
    ]
    return table("| key | default | meaning |", rows)


def parameters() -> str:
    """Return a table of the parameters of a cell, with the testbeds that support each and its sysctls."""
    rows = [
        (f"`{name}`", _default(field), " ".join((field.description or "").split()), about_support(name))
        for name, field in Parameters.model_fields.items()
    ]
    return table("| key | default | meaning | testbeds |", rows)


def _default(field: FieldInfo) -> str:
    dimension = next((item.dimension for item in field.metadata if isinstance(item, Quantity)), None)
    unit = f" ({dimension.base})" if dimension and dimension.base else ""
    if field.is_required():
        return f"needed{unit}"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, bool):
        return f"{json.dumps(value)}{unit}"
    if value in ("", (), {}) or (isinstance(value, BaseModel) and not value.model_fields_set):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(value)
    return show(value, dimension) if dimension else str(value)


def limits() -> str:
    rows = [
        (letters, f"`{limit}`", LIMITS[limit], LIMIT_REMEDIES[limit])
        for limit, letters in LIMIT_LETTERS.items()
    ]
    return table("| letters | limit | time in which | remedy |", rows)


def flags() -> str:
    rows = []
    for name, flag in FLAGS.items():
        reasons = "; or ".join(meaning for _, meaning in flag.reasons.values())
        rows.append((f"`{name}`", flag.grade, f"{reasons}{reasons and ': '}{flag.meaning}", flag.remedy))
    return table("| flag | grade | meaning | remedy |", rows)


def sweeps() -> str:
    """Return the page's table of sweeps with its first columns, and the size and time of each from its grid."""
    page = (DOCS / "shipped-sweeps.md").read_text()
    header, _, *rows = page.partition("made by commands.py -->\n")[2].partition("\n<!-- end")[0].splitlines()

    def completed(row: str) -> Iterable[str]:
        name, *written = row.strip("| ").split(" | ")[:3]
        study = load({"sweep": name.strip("`"), "testbed": "netns"}, DOCS.parent)
        size = f"{len(study.grid.cells)}, {len(study.grid.deployments)}"
        return name, *written, size, grid_summary(study).rpartition("about ")[2].replace(" min to", " to")

    return table(header, map(completed, rows))


def commands() -> str:
    """Return a table of the commands of `tpcsweep` with purpose and options of their own, and all examples."""
    group = click.Context(main, info_name="tpcsweep", **main.context_settings)
    rows, examples = [], []
    for name in main.list_commands(group):
        command = main.get_command(group, name)
        assert command is not None and command.help is not None
        purpose, *_ = command.help.split("\n\n")
        example = command.help.partition("Example: ")[2].split("\n\n")[0]
        examples += [line.strip() for line in example.strip().splitlines()]
        rows.append((f"`{name}`", " ".join(purpose.split()), ", ".join(_options(command))))
    return (
        table("| command | purpose | options of its own |", rows)
        + "\n\n```\n"
        + "\n".join(examples)
        + "\n```"
    )


def _options(command: click.Command) -> Iterable[str]:
    asked = Parameters.model_fields if isinstance(command, QuestionCommand) else {}
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in asked and COMMON.isdisjoint(option.opts):
            yield f"`{max(option.opts, key=len)}`"
    if asked:
        yield "`--PARAMETER VALUE`"


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "command-line.md": {
        "keys": partial(settings, WorkflowSettings),
        "commands": commands,
        "netns": partial(settings, Netns),
        "kubernetes": partial(settings, Kubernetes),
        "paths": partial(settings, Paths),
        "pair": partial(settings, Pair),
        "placement": partial(settings, Role, Placement),
        "side": partial(settings, Side),
        "origin": partial(settings, Origin),
    },
    "sweeps.md": {"parameters": parameters, "measurement": partial(settings, Measurement)},
    "data.md": {"import": partial(settings, Import), "columns": partial(settings, Axis)},
    "shipped-sweeps.md": {"sweeps": sweeps},
    "reading-the-page.md": {"limits": limits, "flags": flags},
}
"""By page the parts that it contains, each behind a comment with its name."""


def made(page: str) -> str:
    """Return the text of a page with its generated parts renewed."""
    text = (DOCS / page).read_text()
    for name, part in PARTS[page].items():
        before, mark, rest = text.partition(f"<!-- {name}, made by commands.py -->\n")
        assert mark, f"docs/{page} has no place for {name}"
        text = f"{before}{mark}{part()}\n{rest[rest.index('<!-- end -->') :]}"
    return text


if __name__ == "__main__":
    for page in PARTS:
        (DOCS / page).write_text(made(page))
