# SPDX-License-Identifier: Apache-2.0
"""The command `import`: datasets of measurements from elsewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from tpcsweep.cli.options import Named, answer, as_json


@click.command("import")
@click.argument("source", type=Named("imports"))
@click.argument("table", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--results", metavar="FOLDER", type=click.Path(path_type=Path), default="results", show_default=True,
    help="Folder of results.",
)  # fmt: skip
@as_json
def import_(source: str, table: Path | None, results: Path, as_json: bool) -> None:
    """Make a dataset of measurements from elsewhere.

    SOURCE is the name of a file in config/imports or the path of such a file, which describes the columns of a CSV or
    Parquet FILE; results of iperf3, flent, pScheduler or k8s-netperf; or a dataset of tpcsweep that ends in .nc or
    .zarr. The dataset is RESULTS/NAME/dataset.nc, with a table of cells in the same folder.

    Example: tpcsweep import nrp-wan-2020 measurements.csv
    """
    from tpcsweep.data import folding
    from tpcsweep.data import tables as dataset
    from tpcsweep.data.importing import table_import
    from tpcsweep.data.importing.programs import read_results
    from tpcsweep.data.opening import copy_dataset
    from tpcsweep.data.places import DATASET, STORE, SUFFIX, load_dataset
    from tpcsweep.sweeps.problems import refused
    from tpcsweep.sweeps.study import config_arguments
    from tpcsweep.testbeds.loading import load_import

    notes: list[str] = []
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
    answer(as_json, content, *(f"note: {note}" for note in notes), f"dataset: {made.absolute()}", more)


def _free(folder: Path) -> Path:
    if (folder / "cells").exists() or (folder / "cells.jsonl").exists():
        fix = "Rename the file, or use --results with another folder."
        raise click.UsageError(f"{folder}: contains the cells of a sweep. {fix}")
    return folder
