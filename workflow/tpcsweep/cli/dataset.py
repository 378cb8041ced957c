# SPDX-License-Identifier: Apache-2.0
"""The command `dataset`: the dataset of the cells measured so far."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tpcsweep.cli.options import (
    answer,
    as_json,
    is_same,
    load_study,
    output_option,
    require_writable,
    study_options,
)


@click.command()
@study_options
@output_option("FILE.nc", "File to write. By default dataset.nc in the folder of results.", dir_okay=False)
@as_json
def dataset(output: Path | None, as_json: bool, **options: str | None) -> None:
    """Make the dataset of the cells that were measured so far. Nothing is measured.

    While a run is under way, the file is partial.nc: the run itself makes dataset.nc. With -o, the folder of results is
    only read. Exit codes: 0 the dataset is written, 2 no cell was measured.

    Example: tpcsweep dataset --sweep surface
    """
    study = load_study(**options)
    from tpcsweep.running import run_lock, staging, study_dataset
    from tpcsweep.running.status import count_cells

    if not study.folder.is_dir():
        raise click.UsageError(f"{study.folder}: no cells yet. Run `{study.command}`.")
    if study.testbed.simulated and not study.cells_file.exists():
        raise click.ClickException(f"{study.cells_file}: no such file. Run `{study.command}`.")
    processes, running = os.cpu_count() or 1, False
    if output is not None and not is_same(output, study.folder / "dataset.nc"):
        study_dataset.fold_snapshot(study, output, processes)
    else:
        require_writable(study.folder, "FILE.nc")
        output = study.folder / "dataset.nc"
        try:
            run_lock.lock_results(study.folder)
            if not study.testbed.simulated:
                staging.adopt(study)
            study_dataset.fold_study(study, output, processes)
        except run_lock.HeldError:
            running, output = True, study.folder / study_dataset.PARTIAL
            study_dataset.fold_snapshot(study, output, processes)
    counts = count_cells(study)
    lines = [f"dataset: {output.absolute()}: {counts.measured + counts.failed} of {counts.cells} cells"]
    if running:
        lines.append(f"a run is under way: it makes {study.folder / 'dataset.nc'} at its end")
    elif counts.missing:
        lines.append(f"the others: {study.command}")
    answer(as_json, {"dataset": str(output), **counts.to_dict()}, *lines)
