"""Fit the simulated testbed's parameters to a measured dataset, and try them on cells that were left out."""

import sys
from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.testbeds.simulation import calibrating

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    observations, ratio = calibrating.observed(xr.load_dataset(snakemake.input.dataset))
    fitted = calibrating.calibrate(observations, ratio)
    calibrating.left_out(observations, ratio).to_csv(snakemake.output.table, index=False, float_format="%.5g")
except (calibrating.CalibrationError, NothingMeasuredError) as error:
    sys.exit(str(error))
calibrating.write(snakemake.output.parameters, fitted, ratio, observations)
