# SPDX-License-Identifier: Apache-2.0
"""Fit every model to the dataset and choose between them."""

import xarray as xr
from tpcsweep.models import MODELS, choose, fit, observe, saved
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], NothingMeasuredError, about=snakemake.input.dataset):
    observations = observe(xr.load_dataset(snakemake.input.dataset))
fits = {name: fit(model, observations) for name, model in MODELS.items()}
saved.write(snakemake.output.models, observations.label, fits, choose(MODELS, observations, fits))
