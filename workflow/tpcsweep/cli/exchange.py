# SPDX-License-Identifier: Apache-2.0
"""Commands that exchange datasets: import, export, and crates for archives."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpcsweep.sweeps.study import Configuration


@click.command("import")
@click.argument("source", type=options.Named("imports"))
@click.argument("table", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--results", metavar="FOLDER", type=click.Path(path_type=Path), default="results", show_default=True,
    help="Folder of results.",
)  # fmt: skip
@options.as_json
def import_(source: str, table: Path | None, results: Path, as_json: bool) -> None:
    """Make a dataset of measurements from elsewhere.

    SOURCE is the name of a file in config/imports or the path of such a file, which describes the columns of a CSV or
    Parquet FILE; results of iperf3, flent, pScheduler or k8s-netperf; or a dataset of tpcsweep that ends in .nc or
    .zarr. The dataset is RESULTS/NAME/dataset.nc, with a table of cells in the same folder.

    Example: tpcsweep import nrp-wan-2020 measurements.csv
    """
    from tpcsweep.common.extras import MissingExtraError
    from tpcsweep.data import folding
    from tpcsweep.data import tables as dataset
    from tpcsweep.data.importing import table_import
    from tpcsweep.data.importing.programs import read_results
    from tpcsweep.data.opening import copy_dataset
    from tpcsweep.data.places import DATASET, STORE, SUFFIX, load_dataset
    from tpcsweep.sweeps.problems import ConfigurationError, refused
    from tpcsweep.sweeps.study import config_arguments
    from tpcsweep.testbeds.loading import load_import

    notes: list[str] = []
    with options.exit_on(ConfigurationError, MissingExtraError):
        if source.endswith((SUFFIX, STORE)):
            if table is not None:
                raise refused(source, f"with a table, {table}", "a dataset alone")
            study = load_dataset(source, results, Path())
            folder = _free(study.folder)
            copy_dataset(study.file, folder / DATASET)
        else:
            if table is None and not source.endswith(".yaml") and Path(source).is_file():
                file = Path(source)
                settings, rows, skipped = read_results(file)
                stem = re.sub(r"(\.(json|flent|csv|txt|gz))+$", "", file.name, flags=re.IGNORECASE)
                name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-") or "imported"
                folder = _free(results / name)
                folded = table_import.import_rows(settings, rows, file, name, skipped)
            else:
                name, settings = load_import(source, Path())
                given = table or (Path(settings.file) if settings.file else None)
                if not given or not given.is_file():
                    allowed = "the path of a CSV or Parquet file: tpcsweep import SOURCE FILE"
                    raise refused("file", repr(str(given)) if given else "nothing", allowed, source)
                file, folder = given, _free(results / name)
                folded = table_import.import_table(settings, file, name)
            folding.write(folded, folder / DATASET, table_import.history_line(settings, folded, file))
            dataset.write_table(folded.summary, folder / "cells.csv")
            notes = table_import.import_notes(folded)
    made = folder / DATASET
    content = {"dataset": str(made), "table": str(folder / "cells.csv")} | ({"notes": notes} if notes else {})
    command = shlex.join(["snakemake", *config_arguments({"dataset": made})])
    more = f"figures, models and page: {command}"
    options.answer(
        as_json, content, *(f"note: {note}" for note in notes), f"dataset: {made.absolute()}", more
    )


def _free(folder: Path) -> Path:
    if (folder / "cells").exists() or (folder / "cells.jsonl").exists():
        fix = "Rename the file, or use --results with another folder."
        raise click.UsageError(f"{folder}: contains the cells of a sweep. {fix}")
    return folder


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(("csv", "zarr")))
@options.results_or_file
@options.output_option(
    "PATH", "File to write, by default standard output. Folder for zarr, by default FILE.zarr."
)
def export(form: str, results: Path, output: Path | None) -> None:
    """Write a dataset in another format.

    csv is the table of cells. zarr contains the whole dataset, for object storage.

    Example: tpcsweep export csv results/demo -o demo.csv
    """
    from tpcsweep.common.extras import MissingExtraError
    from tpcsweep.common.files import write_text
    from tpcsweep.data import exporting
    from tpcsweep.data.opening import load
    from tpcsweep.data.tables import csv_text, table

    dataset = options.find_results_dataset(results)
    with options.exit_on(MissingExtraError):
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


@click.command()
@click.argument("results", metavar="RESULTS", type=click.Path(exists=True, file_okay=False, path_type=Path))
@options.output_option("FOLDER", "Folder of the crate, by default RESULTS/crate. The ZIP file is FOLDER.zip.")
@click.option("--sweep", metavar="NAME", type=options.SWEEP, help="Sweep, by default that of the dataset.")
@click.option("--testbed", metavar="NAME", type=options.TESTBED, help="Testbed, by default the dataset's.")
@options.as_json
def crate(results: Path, output: Path | None, sweep: str | None, testbed: str | None, as_json: bool) -> None:
    """Pack the results of a sweep for archives, as an RO-Crate.

    It contains dataset, page, figures, configuration and versions of software. config/CITATION.cff names the authors
    of the measurements and their licence.

    Example: tpcsweep crate results/demo
    """
    from tpcsweep.common.extras import MissingExtraError
    from tpcsweep.data.opening import open_group
    from tpcsweep.running.archiving import write_crate
    from tpcsweep.sweeps import citation
    from tpcsweep.sweeps.problems import ConfigurationError

    with open_group(options.find_results_dataset(results)) as summary:
        attributes = summary.attrs
    output = output or results / "crate"
    archive = output.with_name(f"{output.name}.zip")
    if output.exists() and not (output / "ro-crate-metadata.json").exists():
        raise click.UsageError(f"{output}: exists and is no crate. Remove it, or use -o with another folder.")
    with options.exit_on(ConfigurationError, MissingExtraError):
        study = _configuration_of(results, attributes, sweep, testbed)
        cited = citation.read_in(Path())
        write_crate(results, study, cited, output, archive)
    if study is None:
        click.echo("The crate contains no sweep and no testbed: --sweep and --testbed name them.", err=True)
    if cited is None:
        told = "Authors and licence are those of the software. config/CITATION.cff names those of the measurements."
        click.echo(told, err=True)
    content = {"folder": str(output), "archive": str(archive)}
    options.answer(as_json, content, f"crate: {output.absolute()}\narchive: {archive.absolute()}")


def _configuration_of(
    results: Path, attributes: Mapping[str, Any], sweep: str | None, testbed: str | None
) -> Configuration | None:
    """Load the sweep of a results folder, by options or by the dataset's attributes.

    The result is None for an imported dataset, because a local file of the same name may differ from its sweep.
    """
    from tpcsweep.testbeds.loading import load

    if not (sweep or (results / "cells").exists() or (results / "cells.jsonl").exists()):
        return None
    words = shlex.split(str(attributes.get("command", "")))
    told = dict(word.split("=", 1) for word in words if "=" in word)
    given = {"sweep": attributes["sweep"], "testbed": attributes["testbed"], **told}
    chosen = {"sweep": sweep or given["sweep"], "testbed": testbed or given["testbed"]}
    return load({**given, **chosen}, Path())
