# SPDX-License-Identifier: Apache-2.0
"""The command `init`: a folder for sweeps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

PARTS = ("config", "profiles")
"""Folders that `init` copies because users change them; rules and notebooks remain in the package."""
PROFILES = ("k8s", "slurm")
"""Links to profiles, so that `snakemake --profile k8s` finds them as in the checkout."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Make a folder for sweeps, with copies of the configuration.

    Nothing is overwritten: a folder that contains one of its files is refused. Exit codes: 0 the folder
    is made, 2 it is refused.

    Example: tpcsweep init sweeps
    """
    from tpcsweep.common.extras import missing_extras
    from tpcsweep.common.installation import PACKAGE, SHIPPED

    if existing := [name for name in ("Snakefile", *PARTS, *PROFILES) if os.path.lexists(folder / name)]:
        raise click.UsageError(f"{folder} already contains {', '.join(existing)}. Give another folder.")
    for part in PARTS:
        shutil.copytree(SHIPPED / part, folder / part)
    shutil.copy(PACKAGE / "pages/templates/Snakefile", folder)
    for name in PROFILES:
        (folder / name).symlink_to(f"profiles/{name}")
    click.echo(f"{folder.absolute()}: change config/, then run `snakemake` in that folder")
    for line in missing_extras(["measure"]):
        click.echo(f"first: {line}")
