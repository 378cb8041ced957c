"""Fit every model to the dataset and choose between them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.models import MODELS, choose, fit, observe, saved
from tpcsweep.models.observations import NothingMeasuredError

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    observations = observe(xr.load_dataset(snakemake.input.dataset))
except NothingMeasuredError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(f"{snakemake.input.dataset}: {error}")
fits = {name: fit(model, observations) for name, model in MODELS.items()}
saved.write(snakemake.output.models, observations.label, fits, choose(MODELS, observations, fits))
