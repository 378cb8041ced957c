# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep claims`."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.common import as_json, completed, dataset_of, print_json, reported


@click.command()
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS|FILE.nc")
@click.option("--all", "every", is_flag=True, help="List the claims that the dataset cannot test, too.")
@as_json
def command(results: Path, every: bool, as_json: bool) -> None:
    """Judge each published claim on a dataset.

    A claim holds, does not hold, or is not decided. With --json every verdict is printed, with its evidence.

    Example: tpcsweep claims results/demo
    """
    with completed(dataset_of(results)) as whole:
        import xarray as xr

        from tpcsweep.claims import judge

        with reported(OSError):
            verdicts = judge(xr.load_dataset(whole))
    if as_json:
        print_json([verdict.to_dict() for verdict in verdicts])
        return
    from tpcsweep.claims.table import for_terminal
    from tpcsweep.configuration.overview import show

    show(for_terminal(verdicts, every))
