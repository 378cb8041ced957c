# SPDX-License-Identifier: Apache-2.0
"""Fit the simulated testbed's parameters to a measured dataset, and try them on cells that were left out."""

import xarray as xr
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.running.scripts import reported
from tpcsweep.testbeds.simulation import calibrating

with reported(snakemake.log[0], calibrating.CalibrationError, NothingMeasuredError):
    observations, ratio = calibrating.observed(xr.load_dataset(snakemake.input.dataset))
    fitted = calibrating.calibrate(observations, ratio)
    calibrating.left_out(observations, ratio).to_csv(snakemake.output.table, index=False, float_format="%.5g")
calibrating.write(snakemake.output.parameters, fitted, ratio, observations)
