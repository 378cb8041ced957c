# SPDX-License-Identifier: Apache-2.0
"""The command `calibrate`: the simulated testbed, fitted to a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from tpcsweep.cli.options import (
    answer,
    as_json,
    exit_on,
    find_results_dataset,
    output_option,
    results_or_file,
)


@click.command()
@results_or_file
@output_option(
    "FILE.yaml",
    "Testbed to write, by default calibration.yaml in RESULTS or in the current folder. Cells that were predicted "
    "by the others are written to a CSV file beside it.",
    dir_okay=False,
)
@as_json
def calibrate(results: Path, output: Path | None, as_json: bool) -> None:
    """Fit the simulated testbed to a measured dataset.

    The testbed that is written simulates sweeps on the measured hardware: snakemake --config testbed=FILE.yaml

    Example: tpcsweep calibrate results/demo -o config/testbeds/ours.yaml
    """
    dataset = find_results_dataset(results)
    output = output or Path(results if results.is_dir() else "", "calibration.yaml")
    from rich.table import Table

    from tpcsweep.dataset import load
    from tpcsweep.dataset.tables import write_csv
    from tpcsweep.models.observations import NothingMeasuredError
    from tpcsweep.testbeds.simulation import calibrating

    with exit_on(calibrating.CalibrationError, NothingMeasuredError):
        observations, ratio = calibrating.observed(load(dataset))
        fitted = calibrating.calibrate(observations, ratio)
        left_out = calibrating.predict_left_out(observations, ratio)
    write_csv(left_out, output.with_suffix(".csv"), digits=5)
    calibrating.save_testbed(output, fitted, ratio, observations)
    content = {"testbed": str(output), "parameters": fitted.to_dict()["parameters"]}
    table = Table("parameter", "value", "95 % interval", "unit", "note")
    for row in fitted.parameter_rows(digits=4):
        table.add_row(*(row[column] for column in ("name", "value", "interval", "unit", "reason")))
    answer(as_json, content, table, f"testbed: {output.absolute()}")
