# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.common import as_json, dataset_of, print_json, reported

if TYPE_CHECKING:
    from tpcsweep.models.fit import Fit


@click.command()
@click.argument("source", metavar="RESULTS|FILE.nc", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o", "--output", metavar="FILE.yaml", type=click.Path(dir_okay=False, path_type=Path),
    help="Testbed to write, by default calibration.yaml in RESULTS or in the current folder. Cells that were "
    "predicted by the others are written to a CSV file beside it.",
)  # fmt: skip
@as_json
def command(source: Path, output: Path | None, as_json: bool) -> None:
    """Fit the parameters of the simulated testbed to a measured dataset.

    The testbed that is written simulates sweeps on the measured hardware: snakemake --config testbed=FILE.yaml

    Example: tpcsweep calibrate results/demo -o config/testbeds/ours.yaml
    """
    dataset = dataset_of(source)
    output = output or Path(source if source.is_dir() else "", "calibration.yaml")
    import xarray as xr

    from tpcsweep.dataset.tables import write_csv
    from tpcsweep.models.observations import NothingMeasuredError
    from tpcsweep.testbeds.simulation import calibrating

    with reported(calibrating.CalibrationError, NothingMeasuredError):
        observations, ratio = calibrating.observed(xr.load_dataset(dataset))
        fitted = calibrating.calibrate(observations, ratio)
        left_out = calibrating.left_out(observations, ratio)
    write_csv(left_out, output.with_suffix(".csv"), digits=5)
    calibrating.write(output, fitted, ratio, observations)
    if as_json:
        print_json({"testbed": str(output), "parameters": fitted.to_dict()["parameters"]})
        return
    _show(fitted)
    click.echo(f"testbed: {output.absolute()}")


def _show(fitted: Fit) -> None:
    """Print a row for each parameter."""
    from rich.table import Table

    from tpcsweep.configuration.overview import show

    table = Table("parameter", "value", "95 % interval", "unit", "note")
    for parameter in fitted.model.parameters:
        name = parameter.name
        table.add_row(
            name,
            f"{fitted.values[name]:.4g}",
            f"{fitted.low[name]:.4g} to {fitted.high[name]:.4g}",
            parameter.unit,
            fitted.reasons.get(name, ""),
        )
    show(table)
