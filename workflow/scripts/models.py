# SPDX-License-Identifier: Apache-2.0
"""Fit every model to the dataset and choose between them."""

from pathlib import Path

import xarray as xr
from tpcsweep.configuration.loading import load
from tpcsweep.models import MODELS, choose, fit, observe, saved
from tpcsweep.models.observations import NothingMeasuredError
from tpcsweep.pages import making
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], NothingMeasuredError, about=snakemake.input.dataset):
    observations = observe(xr.load_dataset(snakemake.input.dataset))
fits = {name: fit(model, observations) for name, model in MODELS.items()}
saved.write(snakemake.output.models, observations.label, fits, choose(MODELS, observations, fits))
# The page shows models that are there, and does not depend on them: they take minutes, and an extra.
settings = load(snakemake.config, Path())
if (settings.folder / making.PAGE).exists():
    making.make(settings)
