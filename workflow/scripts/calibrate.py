# SPDX-License-Identifier: Apache-2.0
"""Fit the simulated testbed's parameters to a measured dataset, and try them on cells that were left out."""

import xarray as xr
from tpcsweep.dataset.spreadsheets import write_csv
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.running.scripts import reported
from tpcsweep.testbeds.simulation import calibrating

with reported(snakemake.log[0], calibrating.CalibrationError, NothingMeasuredError):
    observations, ratio = calibrating.observed(xr.load_dataset(snakemake.input.dataset))
    fitted = calibrating.calibrate(observations, ratio)
    write_csv(calibrating.left_out(observations, ratio), snakemake.output.table, digits=5)
calibrating.write(snakemake.output.parameters, fitted, ratio, observations)
