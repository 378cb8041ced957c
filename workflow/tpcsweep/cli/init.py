# SPDX-License-Identifier: Apache-2.0
"""The command `init`: a folder in which sweeps run without a checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from tpcsweep.cli.common import exit_on

PARTS = ("config", "profiles")
"""Folders that users change; the rules and notebooks remain in the package."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Make a folder for sweeps: Snakemake's entry, and copies of the configuration that ships.

    Nothing is overwritten: a folder that contains a Snakefile, config or profiles is refused. Exit codes: 0 the folder
    is made, 2 it is refused.

    Example: tpcsweep init sweeps
    """
    package = Path(__file__).parents[1] / "shipped"
    with exit_on():
        if found := [name for name in ("Snakefile", *PARTS) if (folder / name).exists()]:
            raise click.UsageError(f"{folder} already contains {', '.join(found)}. Give another folder.")
        for part in PARTS:
            shutil.copytree(package / part, folder / part)
        shutil.copy(package / "Snakefile", folder)
    click.echo(f"{folder.absolute()}: change config/, then run `snakemake` in that folder")
