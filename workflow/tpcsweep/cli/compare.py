# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli.common import as_json, print_json, reported

if TYPE_CHECKING:
    from tpcsweep.comparing.comparison import Comparison


def _share(context: click.Context, param: click.Parameter, value: str | None) -> Any:
    from tpcsweep.cli.quantities import Amount
    from tpcsweep.configuration import bounds

    return None if value is None else Amount(bounds.RATIO).convert(value, param, context)


@click.command()
@click.argument("base", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--fail-below",
    metavar="SHARE",
    callback=_share,
    help="Exit with 1 if the throughput of NEW is below this share of BASE, such as 0.95 or 95%.",
)
@click.option(
    *("-o", "--output"),
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for comparison.json, cells.csv, figures and the notebook compare.html.",
)
@as_json
def command(base: str, new: str, fail_below: float | None, output: Path | None, as_json: bool) -> None:
    """Compare the throughput of two datasets.

    The datasets are compared cell by cell and over all cells. BASE and NEW are results folders or paths of datasets,
    with values of axes after a colon for a part of one. The exit code is 1 if NEW is slower than --fail-below allows.

    \b
    Example: tpcsweep compare results/demo:cores=0.15 results/demo:cores=0.6
             tpcsweep compare --fail-below 95% before.nc after.nc
    """  # noqa: D301 (click needs the \b)
    from tpcsweep.comparing import comparison
    from tpcsweep.configuration.problems import ConfigurationError
    from tpcsweep.configuration.sides import side

    with reported(ConfigurationError, comparison.ComparisonError, OSError):
        sides = side("base", base), side("new", new)
        datasets = [comparison.load_side(one) for one in sides]
        found = comparison.compare(datasets[0], datasets[1], (base, new))
        if output is not None:
            _write(found, output, base, new, fail_below)
    content = comparison.content(found, fail_below)
    if as_json:
        print_json(content)
    else:
        from tpcsweep.configuration.overview import show

        show(comparison.overview(found))
        if output is not None:
            click.echo((output / "compare.html").absolute())
    if failures := content["gate"]["failures"]:
        click.echo("\n".join(["NEW is slower than --fail-below allows:", *failures]), err=True)
        raise SystemExit(1)


def _write(found: Comparison, folder: Path, base: str, new: str, fail_below: float | None) -> None:
    """Write the files of a comparison."""
    from tpcsweep.comparing.comparison import write
    from tpcsweep.running.notebooks import make

    write(found, folder / "comparison.json", folder / "cells.csv", fail_below)
    values = {"base": base, "new": new, "figures": str(folder / "figures")}
    make("compare", folder / "compare.html", values)
