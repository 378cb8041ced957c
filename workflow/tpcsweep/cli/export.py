# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep export`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tpcsweep.cli.common import dataset_of, reported

FORMATS = ("openmetrics", "csv", "monitoring", "zarr")


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("source", metavar="RESULTS|FILE.nc", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o", "--output", metavar="PATH", type=click.Path(path_type=Path),
    help="File to write, by default standard output. Folder for zarr, by default FILE.zarr.",
)  # fmt: skip
def command(form: str, source: Path, output: Path | None) -> None:
    """Write a dataset in another format.

    openmetrics has a gauge for each figure and cell, for Prometheus and Grafana. csv is the table of cells. monitoring
    has two lines a cell in the format of the US ATLAS load tests of 2007. zarr contains the whole dataset, for object
    storage.

    Example: tpcsweep export openmetrics results/demo -o demo.txt
    """
    from tpcsweep.exporting import ExportError
    from tpcsweep.extras import MissingExtraError

    dataset = dataset_of(source)
    with reported(ExportError, MissingExtraError, OSError):
        if form == "zarr":
            from tpcsweep.exporting import zarr

            store = output or Path(f"{dataset.stem}.zarr")
            if store.exists():
                raise click.UsageError(f"{store}: exists. Remove it, or use -o with another path.")
            zarr(dataset, store)
            click.echo(f"written: {store.absolute()}")
            return
        text = _text(form, dataset)
        if output is None:
            sys.stdout.write(text)
        else:
            from tpcsweep.files import write_text

            write_text(output, text)
            click.echo(f"written: {output.absolute()}")


def _text(form: str, dataset: Path) -> str:
    import xarray as xr

    from tpcsweep import exporting
    from tpcsweep.dataset.tables import csv_text, table

    summary = xr.load_dataset(dataset)
    if form == "csv":
        return csv_text(table(summary))
    if form == "openmetrics":
        return "".join(f"{line}\n" for line in exporting.exposition(summary))
    with xr.open_dataset(dataset, group="samples") as samples:
        return "".join(f"{line}\n" for line in exporting.lines(summary, samples))
