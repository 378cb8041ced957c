# SPDX-License-Identifier: Apache-2.0
"""Fit every model to a dataset, and choose between them."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

from pathlib import Path

import xarray as xr
from tpcsweep.models import fit_all
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0]), signals.interruptible():
    fit_all(xr.load_dataset(snakemake.input.dataset), Path(snakemake.output.models), snakemake.threads)
