# SPDX-License-Identifier: Apache-2.0
"""The command `page`: the HTML page of a dataset."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tpcsweep.cli.options import (
    find_results_dataset,
    is_same,
    output_option,
    require_writable,
    results_or_file,
)


@click.command()
@results_or_file
@output_option(
    "FILE",
    "File to write; by default index.html in the results folder, or results/NAME.html for a file.",
    dir_okay=False,
)
@click.option(
    "--goals",
    type=click.Path(path_type=Path),
    metavar="GOALS.csv",
    help="Rates that the links of a mesh must reach, with the columns source, destination and Gbit/s; by default those "
    "of the run's testbed.",
)
def page(results: Path, output: Path | None, goals: Path | None) -> None:
    """Make the HTML page of a dataset.

    The page shows the findings, every cell with its time series, published claims and models. It is one file that
    needs no network. The command prints its path. While a run is under way in RESULTS, the page shows the cells so far,
    and its file is partial.html next to their dataset partial.nc.

    Example: tpcsweep page examples/surface.nc
    """
    from tpcsweep.analysis.page_sections import SECTIONS, goals_section
    from tpcsweep.common.extras import missing_extras
    from tpcsweep.pages import making

    tables = [goals] if goals else []
    if (current := _dataset_of_run(results, output)) is not None:
        dataset, output, of_run = current
        tables = tables or of_run
    else:
        dataset = find_results_dataset(results)
        if output is None and results == dataset:
            output = _page_of_file(dataset)
        elif output is None:
            require_writable(dataset.parent, "FILE.html")
            output = dataset.with_name(making.PAGE)

    making.make_page(dataset, output, analyses=[*SECTIONS, *map(goals_section, tables)])
    for line in missing_extras(["models"]):
        click.echo(f"The page has no models, and no claims that were not judged before: {line}", err=True)
    click.echo(output.absolute())


def _dataset_of_run(results: Path, page: Path | None) -> tuple[Path, Path, list[Path]] | None:
    """Write the dataset of the cells so far of the run in a folder; None without a run.

    Returns the dataset with its page and the tables of goals. Snakemake's own page is never replaced.
    """
    from tpcsweep.data.places import RESULTS
    from tpcsweep.running.status import run_under_way
    from tpcsweep.running.study_dataset import PARTIAL, fold_snapshot
    from tpcsweep.testbeds.loading import load

    for folder in (results, RESULTS / results):
        if "config" in (run := run_under_way(folder)):
            break
    else:
        return None
    if page is None or is_same(page, folder / "index.html"):
        require_writable(folder, "FILE.html")
        page = (folder / PARTIAL).with_suffix(".html")
    dataset = page.with_name(PARTIAL if page.parent == folder else f"{page.stem}.{PARTIAL}")
    study = load(run["config"] | {"results": str(folder.absolute().parent)}, Path(run["root"]))
    fold_snapshot(study, dataset, os.cpu_count() or 1)
    return dataset, page, [Path(run["root"], table) for table in study.testbed.goal_tables]


def _page_of_file(dataset: Path) -> Path:
    """Return results/NAME.html for the page of a file, which is no page of a sweep or of all sweeps."""
    from tpcsweep.data.places import DATASET, RESULTS

    name = dataset.resolve().parent.name if dataset.name == DATASET else dataset.stem
    return RESULTS / (f"{name}.html" if name != "index" else "index.nc.html")
