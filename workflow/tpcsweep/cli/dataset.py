# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep dataset`."""

from __future__ import annotations

import os

import click

from tpcsweep.cli.common import DATASET, as_json, load_study, print_json, reported, study_options


@click.command()
@study_options
@as_json
def command(as_json: bool, **options: str | None) -> None:
    """Make the dataset of the cells that were measured so far. Nothing is measured.

    Exit codes: 0 the dataset is written, 2 no cell was measured, or a run is under way.

    Example: tpcsweep dataset --sweep surface
    """
    study = load_study(**options)
    from tpcsweep.dataset import DatasetError
    from tpcsweep.running import folding, results
    from tpcsweep.running.status import counted

    if not study.folder.is_dir():
        raise click.UsageError(f"{study.folder}: no cells yet. Run `{study.command}`.")
    output = study.folder / DATASET
    with reported(DatasetError, results.ResultsError):
        results.hold(study.folder)
        if not study.testbed.simulated:
            results.adopt(study)
        elif not study.cells_file.exists():
            raise DatasetError(f"{study.cells_file}: no such file. Run `{study.command}`.")
        folding.fold(study, output, os.cpu_count() or 1)
    status = counted(study)
    if as_json:
        print_json({"dataset": str(output), **status.to_dict()})
        return
    click.echo(f"dataset: {output.absolute()}: {status.measured + status.failed} of {status.cells} cells")
    if status.missing:
        click.echo(f"the others: {study.command}")
