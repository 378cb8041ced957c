# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep page`."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.common import completed, dataset_of, reported


@click.command()
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS|FILE.nc")
@click.option(
    *("-o", "--output"),
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; by default index.html in the results folder, or NAME.html here for a file.",
)
def command(results: Path, output: Path | None) -> None:
    """Make the HTML page of a dataset.

    The page shows the findings, every cell with its time series, published claims and models. It is one file that
    needs no network. The command prints its path.

    Example: tpcsweep page examples/surface.nc
    """
    dataset = dataset_of(results)
    if output is None:
        output = Path(f"{results.stem}.html") if results == dataset else dataset.with_name("index.html")
    with completed(dataset) as whole, reported(OSError):
        from tpcsweep.pages import making

        making.make(dataset, output, whole)
    click.echo(output.absolute())
