# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.common import DATASET, Named, as_json, print_json, reported

if TYPE_CHECKING:
    from tpcsweep.configuration.imports import Import


@click.command("import")
@click.argument("source", type=Named("imports"))
@click.argument("table", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--results", metavar="FOLDER", type=click.Path(path_type=Path), default="results", show_default=True,
    help="Folder of results.",
)  # fmt: skip
@as_json
def command(source: str, table: Path | None, results: Path, as_json: bool) -> None:
    """Make a dataset of measurements from elsewhere.

    SOURCE is the name of a file in config/imports or the path of such a file, which describes the columns of a CSV or
    Parquet FILE; or a dataset of tpcsweep that ends in .nc or .zarr. The dataset is RESULTS/NAME/dataset.nc, with a
    table of cells beside it.

    Example: tpcsweep import nrp-wan-2020 measurements.csv
    """
    from tpcsweep.configuration.loading import ConfigurationError, load_dataset, load_import
    from tpcsweep.configuration.problems import refused
    from tpcsweep.configuration.sides import STORE, SUFFIX
    from tpcsweep.dataset import earlier
    from tpcsweep.extras import MissingExtraError

    with reported(ConfigurationError, MissingExtraError):
        if source.endswith((SUFFIX, STORE)):
            if table is not None:
                raise refused(source, f"with a table, {table}", "a dataset alone")
            study = load_dataset(source, results, Path(), "")
            folder = free(study.folder)
            earlier.copy_completed(study.file, folder / DATASET)
        else:
            name, settings = load_import(source, Path())
            file = table or (settings.file and Path(settings.file))
            if not file or not Path(file).is_file():
                allowed = "the path of a CSV or Parquet file: tpcsweep import SOURCE FILE"
                raise refused("file", repr(str(file)) if file else "nothing", allowed, source)
            folder = free(results / name)
            _fold(name, settings, Path(file), folder)
    dataset = folder / DATASET
    if as_json:
        print_json({"dataset": str(dataset), "table": str(folder / "cells.csv")})
    else:
        click.echo(f"dataset: {dataset.absolute()}")
        click.echo(f"figures, models and page: snakemake --config dataset={dataset}")


def free(folder: Path) -> Path:
    """Return a folder unless it contains the cells of a sweep."""
    if (folder / "cells").exists() or (folder / "cells.jsonl").exists():
        raise click.UsageError(
            f"{folder}: contains the cells of a sweep. Rename the file, or use --results with another folder."
        )
    return folder


def _fold(name: str, settings: Import, file: Path, folder: Path) -> None:
    """Make a dataset and its table of a table of measurements."""
    from tpcsweep import importing
    from tpcsweep.dataset import write, write_table

    folded = importing.import_table(settings, file, name)
    write(folded, folder / DATASET, importing.history_line(settings, folded, file))
    write_table(folded.summary, folder / "cells.csv")
