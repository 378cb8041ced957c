# SPDX-License-Identifier: Apache-2.0
"""Fit every model to a dataset, and choose between them."""

from pathlib import Path

import xarray as xr
from tpcsweep.models import fit_all

fit_all(xr.load_dataset(snakemake.input.dataset), Path(snakemake.output.models))
