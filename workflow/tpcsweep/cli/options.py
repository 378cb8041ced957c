# SPDX-License-Identifier: Apache-2.0
"""Shared options and output of commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import orjson
from click.shell_completion import CompletionItem

from tpcsweep.cli import frame

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tpcsweep.sweeps import units
    from tpcsweep.sweeps.study import SweepStudy

UNITLESS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")  # number without a unit
CONFIG = Path("config/config.yaml")
_FORMATS = (".pdf", ".png", ".svg")  # of figures
Function = TypeVar("Function", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
results_or_file = click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS|FILE.nc")


def output_option(metavar: str, help: str, **kind: bool) -> Callable[[Function], Function]:  # noqa: A002, click's name
    return click.option("-o", "--output", metavar=metavar, type=click.Path(path_type=Path, **kind), help=help)


class Named(click.types.StringParamType):
    """Name of a YAML file in folders of config/, or the path of a file."""

    name = "name"

    def __init__(self, *folders: str) -> None:
        self._folders = folders

    def shell_complete(
        self, _context: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the names of files below the current folder; the shell completes paths."""
        files = [file for folder in self._folders for file in sorted((CONFIG.parent / folder).glob("*.yaml"))]
        names = [CompletionItem(file.stem) for file in files if file.stem.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]


SWEEP, TESTBED = Named("sweeps", "published"), Named("testbeds")


class Amount(click.ParamType):  # type: ignore[type-arg]  # older click has no arguments
    """Quantity as text with its unit; the value is in base units. Plain numbers and shares need no unit."""

    name = "amount"

    def __init__(self, known: units.Quantity | str, *, several: bool = False) -> None:
        """Take a quantity, or the name of one in `sweeps.units`; with `several`, commas separate values."""
        self._known, self._several = known, several

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the number in base units, a list of several, or None for null; return other types unchanged."""
        from pydantic_core import PydanticCustomError

        from tpcsweep.sweeps import units

        if not isinstance(value, str):
            return value
        if self._several:
            return [Amount(self._known).convert(part.strip(), param, context) for part in value.split(",")]
        known: units.Quantity = getattr(units, self._known) if isinstance(self._known, str) else self._known
        unit, bare = known.dimension.base, UNITLESS.fullmatch(value) is not None
        if value == "null" and known.null:
            return None
        if bare and unit:
            self.fail(f"{value!r} has no unit. Use one, as in '{value} {unit}'.", param, context)
        number = float(value) if bare else value
        try:
            return known.read(number)
        except PydanticCustomError:
            meant = f"Did you mean {known.meant(number)}" if known.meant(number) else ""
            self.fail(f"{value!r} is not allowed. {meant}Use {known.allowed(bare=not unit)}.", param, context)


def study_options(function: Function) -> Function:
    """Add the options that select a sweep and a testbed; their defaults are in config/config.yaml."""
    for name, metavar, kind, text in (
        ("--results", "FOLDER", click.Path(), "Folder of results."),
        ("--testbed", "NAME", TESTBED, "Testbed: a file in config/testbeds, or a path."),
        ("--sweep", "NAME", SWEEP, "Sweep: a file in config/sweeps, or a path; NAME@TESTBED."),
    ):
        function = click.option(name, metavar=metavar, type=kind, help=text)(function)
    return function


def require_writable(folder: Path, file: str) -> None:
    """End the command if this user cannot write to a folder; `file` is an example for -o."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.ClickException(
            f"{folder}: user {os.geteuid()} cannot write to it. Give a file: -o {file}"
        )


def require_format(file: Path) -> None:
    """End the command unless a figure can be written to a file of this name."""
    if file.suffix not in _FORMATS:
        raise click.UsageError(f"-o {file}: the file's name must end with one of {', '.join(_FORMATS)}.")


def is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def settings(**options: str | None) -> dict[str, Any]:
    """Return the workflow's configuration: config/config.yaml of the current folder, then the options."""
    from tpcsweep.sweeps.problems import read_yaml

    given = read_yaml(CONFIG, str(CONFIG)) if CONFIG.is_file() else {"testbed": "netns"}
    if options.get("sweep") is not None:
        given.pop("dataset", None)
    return {**given, **{name: value for name, value in options.items() if value is not None}}


def load_study(**options: str | None) -> SweepStudy:
    """Load the sweep of the configuration and the options; a configuration error ends the command."""
    from tpcsweep.testbeds.loading import load

    given = settings(**options)
    if "sweep" not in given and not CONFIG.exists():
        raise click.UsageError(
            f"{Path.cwd()} has no {CONFIG}. Run the command in a folder that `tpcsweep init` made, or in a checkout; "
            "or give a sweep, as in --sweep smoke."
        )
    return load(given, Path())


def find_results_dataset(path: Path) -> Path:
    """Return the dataset of a results folder, or the file itself; end the command if it is unusable."""
    from tpcsweep.data.opening import require_dataset
    from tpcsweep.data.places import find_dataset

    file = find_dataset(path)
    require_dataset(file)
    return file


def answer(as_json: bool, content: Any, *shown: RenderableType | bytes) -> None:
    """Print the content as JSON (NaN and inf as null), or `shown`: lines, and tables as wide as the terminal.

    JSON and bytes are for other programs: UTF-8 on every terminal.
    """
    if as_json:
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
        return
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.on_broken_pipe = frame.end_without_reader  # type: ignore[method-assign]  # rich exits with 1
    for part in shown:
        if isinstance(part, str | bytes):
            click.echo(part)
        else:
            console.print(part)
