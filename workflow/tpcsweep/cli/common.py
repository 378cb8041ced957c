# SPDX-License-Identifier: Apache-2.0
"""Options, errors and output that several commands share."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tpcsweep.configuration.loading import Configuration

CONFIG = Path("config/config.yaml")
DATASET = "dataset.nc"
Function = TypeVar("Function", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


class Named(click.types.StringParamType):
    """The name of a YAML file in folders of config/, or the path of a file."""

    name = "name"

    def __init__(self, *folders: str) -> None:
        """`folders` are those that are completed from."""
        self._folders = folders

    def shell_complete(
        self, _context: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the names of files below the current folder; paths are completed by the shell."""
        files = [file for folder in self._folders for file in sorted((CONFIG.parent / folder).glob("*.yaml"))]
        names = [CompletionItem(file.stem) for file in files if file.stem.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]


def study_options(function: Function) -> Function:
    """Add the options that select a sweep and a testbed; their defaults are in config/config.yaml."""
    for option in (
        click.option("--results", metavar="FOLDER", type=click.Path(), help="Folder of results."),
        click.option(
            "--testbed",
            metavar="NAME",
            type=Named("testbeds"),
            help="Testbed: a file in config/testbeds, or a path.",
        ),
        click.option(
            "--sweep",
            metavar="NAME",
            type=Named("sweeps", "published"),
            help="Sweep: a file in config/sweeps, or a path; NAME@TESTBED.",
        ),
    ):
        function = option(function)
    return function


def settings(**options: str | None) -> dict[str, Any]:
    """Return the workflow's configuration: config/config.yaml of the current folder, and options over it."""
    from tpcsweep.configuration import yaml_file

    given = yaml_file.read(CONFIG, str(CONFIG)) if CONFIG.is_file() else {"testbed": "netns"}
    if options.get("sweep") is not None:
        given.pop("dataset", None)
    return {**given, **{name: value for name, value in options.items() if value is not None}}


def load_study(**options: str | None) -> Configuration:
    """Load the sweep that the configuration and the options name; a configuration error ends the command."""
    from tpcsweep.configuration.loading import ConfigurationError, load

    with reported(ConfigurationError):
        return load(settings(**options), Path())


def dataset_of(path: Path) -> Path:
    """Return the dataset of a results folder, or the path itself if it is a file.

    Raises:
        click.ClickException: if there is none, or the file is not a dataset of tpcsweep.
    """
    from tpcsweep.configuration.problems import ConfigurationError
    from tpcsweep.configuration.sides import find_dataset
    from tpcsweep.dataset.earlier import require_dataset

    with reported(ConfigurationError):
        file = find_dataset(path)
        require_dataset(file)
    return file


@contextlib.contextmanager
def completed(file: Path) -> Iterator[Path]:
    """Lend a dataset with every variable that datasets have today: the file itself, or a temporary copy.

    Raises:
        click.ClickException: for a file that is not a dataset.
    """
    from tpcsweep.configuration.problems import ConfigurationError
    from tpcsweep.dataset import earlier

    with contextlib.ExitStack() as stack:
        with reported(ConfigurationError):
            whole = stack.enter_context(earlier.completed(file))
        yield whole


@contextlib.contextmanager
def reported(*expected: type[Exception]) -> Iterator[None]:
    """Turn expected errors into one message and exit code 2."""
    try:
        yield
    except expected as error:
        raise click.ClickException(str(error)) from error


click.ClickException.exit_code = 2


def print_json(content: Any) -> None:
    """Print plain values."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
