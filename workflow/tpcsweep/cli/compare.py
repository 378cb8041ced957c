# SPDX-License-Identifier: Apache-2.0
"""The command `compare`: the throughput of two datasets."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.options import Amount, answer, as_json, output_option


@click.command()
@click.argument("base", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--fail-below",
    metavar="SHARE",
    type=Amount("RATIO"),
    help="Exit with 1 if the throughput of NEW is below this share of BASE, such as 0.95 or 95%.",
)
@output_option(
    "FOLDER", "Folder for comparison.json, cells.csv, figures and the notebook compare.html.", file_okay=False
)
@as_json
def compare(base: str, new: str, fail_below: float | None, output: Path | None, as_json: bool) -> None:
    """Compare the throughput of two datasets.

    The datasets are compared cell by cell and over all cells. BASE and NEW are results folders or paths of datasets,
    with values of axes after a colon for a part of one. The exit code is 1 if NEW is slower than --fail-below allows.

    \b
    Example: tpcsweep compare results/demo:cores=0.15 results/demo:cores=0.6
             tpcsweep compare --fail-below 95% before.nc after.nc
    """  # noqa: D301 (click needs the \b)
    from tpcsweep.common.extras import require_extra

    if output is not None:
        require_extra("notebooks")
    from tpcsweep.analysis import comparison
    from tpcsweep.analysis.sides import read_side

    one, other = comparison.load_side(read_side("base", base)), comparison.load_side(read_side("new", new))
    compared = comparison.compare(one, other, (base, new))
    if output is not None:
        from tpcsweep.running.notebooks import make_notebook

        comparison.write_files(compared, output / "comparison.json", output / "cells.csv", fail_below)
        values = {"base": base, "new": new, "figures": str(output / "figures")}
        make_notebook("compare", output / "compare.html", values)
    content = comparison.gated_content(compared, fail_below)
    pages = [] if output is None else [str((output / "compare.html").absolute())]
    answer(as_json, content, comparison.overview(compared), *pages)
    if failures := content["gate"]["failures"]:
        click.echo("\n".join(["NEW does not meet --fail-below:", *failures]), err=True)
        raise SystemExit(1)
