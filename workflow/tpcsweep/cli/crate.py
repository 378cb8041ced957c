# SPDX-License-Identifier: Apache-2.0
"""The command `crate`: the results of a sweep, packed for archives."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli.options import SWEEP, TESTBED, answer, as_json, find_results_dataset, output_option

if TYPE_CHECKING:
    from tpcsweep.sweeps.study import SweepStudy


@click.command()
@click.argument("results", metavar="RESULTS", type=click.Path(exists=True, file_okay=False, path_type=Path))
@output_option("FOLDER", "Folder of the crate, by default RESULTS/crate. The ZIP file is FOLDER.zip.")
@click.option("--sweep", metavar="NAME", type=SWEEP, help="Sweep, by default that of the dataset.")
@click.option("--testbed", metavar="NAME", type=TESTBED, help="Testbed, by default the dataset's.")
@as_json
def crate(results: Path, output: Path | None, sweep: str | None, testbed: str | None, as_json: bool) -> None:
    """Pack the results of a sweep for archives, as an RO-Crate.

    It contains dataset, page, figures, configuration and versions of software. config/CITATION.cff names the authors
    of the measurements and their licence.

    Example: tpcsweep crate results/demo
    """
    from tpcsweep.data.opening import open_group
    from tpcsweep.running.archiving import write_crate
    from tpcsweep.sweeps import citation

    with open_group(find_results_dataset(results)) as summary:
        attributes = summary.attrs
    output = output or results / "crate"
    archive = output.with_name(f"{output.name}.zip")
    if output.exists() and not (output / "ro-crate-metadata.json").exists():
        raise click.UsageError(f"{output}: exists and is no crate. Remove it, or use -o with another folder.")
    study = _configuration_of(results, attributes, sweep, testbed)
    cited = citation.read_in(Path())
    write_crate(results, study, cited, output, archive)
    if study is None:
        click.echo("The crate contains no sweep and no testbed: --sweep and --testbed name them.", err=True)
    if cited is None:
        note = "Authors and licence are those of the software. config/CITATION.cff names those of the measurements."
        click.echo(note, err=True)
    content = {"folder": str(output), "archive": str(archive)}
    answer(as_json, content, f"crate: {output.absolute()}\narchive: {archive.absolute()}")


def _configuration_of(
    results: Path, attributes: Mapping[str, Any], sweep: str | None, testbed: str | None
) -> SweepStudy | None:
    """Load the sweep of a results folder, by options or by the dataset's attributes.

    The result is None for an imported dataset, because a local file of the same name may differ from its sweep.
    """
    from tpcsweep.testbeds.loading import load

    if not (sweep or (results / "cells").exists() or (results / "cells.jsonl").exists()):
        return None
    words = shlex.split(str(attributes.get("command", "")))
    arguments = dict(word.split("=", 1) for word in words if "=" in word)
    given = {"sweep": attributes["sweep"], "testbed": attributes["testbed"], **arguments}
    chosen = {"sweep": sweep or given["sweep"], "testbed": testbed or given["testbed"]}
    return load({**given, **chosen}, Path())
