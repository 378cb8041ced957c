# SPDX-License-Identifier: Apache-2.0
"""The command `export`: a dataset in another format."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.options import find_results_dataset, output_option, results_or_file


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(("csv", "zarr")))
@results_or_file
@output_option("PATH", "File to write, by default standard output. Folder for zarr, by default FILE.zarr.")
def export(form: str, results: Path, output: Path | None) -> None:
    """Write a dataset in another format.

    csv is the table of cells. zarr contains the whole dataset, for object storage.

    Example: tpcsweep export csv results/demo -o demo.csv
    """
    from tpcsweep.common.files import write_text
    from tpcsweep.data import exporting
    from tpcsweep.data.opening import load
    from tpcsweep.data.tables import csv_text, table

    dataset = find_results_dataset(results)
    if form == "zarr":
        output = output or Path(f"{dataset.stem}.zarr")
        if output.exists():
            raise click.UsageError(f"{output}: exists. Remove it, or use -o with another path.")
        exporting.zarr(dataset, output)
    elif output is None:
        click.echo(csv_text(table(load(dataset))).encode(), nl=False)  # data are UTF-8 on every terminal
        return
    else:
        write_text(output, csv_text(table(load(dataset))))
    click.echo(f"written: {output.absolute()}")
