# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep crate`."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli.common import Named, as_json, dataset_of, print_json, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpcsweep.configuration.loading import Configuration

METADATA = "ro-crate-metadata.json"


@click.command()
@click.argument("results", metavar="RESULTS", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o", "--output", metavar="FOLDER", type=click.Path(path_type=Path),
    help="Folder of the crate, by default RESULTS/crate. The ZIP file is FOLDER.zip.",
)  # fmt: skip
@click.option(
    "--sweep", metavar="NAME", type=Named("sweeps", "published"),
    help="Sweep that was measured, by default the one that the dataset names.",
)  # fmt: skip
@click.option(
    "--testbed", metavar="NAME", type=Named("testbeds"),
    help="Testbed of the sweep, by default the one that the dataset names.",
)  # fmt: skip
@as_json
def command(
    results: Path, output: Path | None, sweep: str | None, testbed: str | None, as_json: bool
) -> None:
    """Pack the results of a sweep for archives, as an RO-Crate: dataset, page, figures, configuration and software.

    config/CITATION.cff names the authors of the measurements and their licence.

    Example: tpcsweep crate results/demo
    """
    import xarray as xr

    from tpcsweep.archiving import CrateError, write_crate
    from tpcsweep.configuration import citation
    from tpcsweep.configuration.loading import ConfigurationError
    from tpcsweep.extras import MissingExtraError, require
    from tpcsweep.files import is_file

    with xr.open_dataset(dataset_of(results)) as opened:
        attributes = opened.attrs
    output = output or results / "crate"
    archive = output.with_name(f"{output.name}.zip")
    if output.exists() and not (output / METADATA).exists():
        raise click.UsageError(f"{output}: exists and is no crate. Remove it, or use -o with another folder.")
    with reported(ConfigurationError, MissingExtraError, CrateError):
        require("crate")
        study = configuration_of(results, attributes, sweep, testbed)
        cited = citation.read(citation.FILE, str(citation.FILE)) if is_file(citation.FILE) else None
        shutil.rmtree(output, ignore_errors=True)
        write_crate(results, study, cited, output, archive)
    if study is None:
        click.echo("The crate contains no sweep and no testbed: --sweep and --testbed name them.", err=True)
    if cited is None:
        click.echo(
            "Authors and licence are those of the software. config/CITATION.cff names those of the measurements.",
            err=True,
        )
    if as_json:
        print_json({"folder": str(output), "archive": str(archive)})
    else:
        click.echo(f"crate: {output.absolute()}\narchive: {archive.absolute()}")


def configuration_of(
    results: Path, attributes: Mapping[str, Any], sweep: str | None, testbed: str | None
) -> Configuration | None:
    """Load the sweep of a results folder, by options or by the dataset's attributes.

    None is returned for a dataset from elsewhere: a file of the same name here may differ from what was measured.
    """
    from tpcsweep.configuration.loading import load

    if not (sweep or (results / "cells").exists() or (results / "cells.jsonl").exists()):
        return None
    words = shlex.split(str(attributes.get("command", "")))
    told = dict(word.split("=", 1) for word in words if "=" in word)
    given = {"sweep": attributes["sweep"], "testbed": attributes["testbed"], **told}
    chosen = {"sweep": sweep or given["sweep"], "testbed": testbed or given["testbed"]}
    return load({**given, **chosen}, Path())
