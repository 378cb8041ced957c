# SPDX-License-Identifier: Apache-2.0
"""Make the dataset of data from elsewhere, or of a dataset from elsewhere."""

from pathlib import Path

import xarray as xr
from tpcsweep import dataset
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.extras import MissingExtraError
from tpcsweep.importing import datasets, outside
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], ConfigurationError, MissingExtraError):
    source = load(snakemake.config, Path()).needed_source()
    if source.settings is None:
        datasets.bring(source.file, Path(snakemake.output.dataset))
        summary = xr.load_dataset(snakemake.output.dataset)
    else:
        folded = outside.bring(source.settings, source.file, source.name)
        done = outside.history(source.settings, folded, source.file)
        dataset.write(folded, snakemake.output.dataset, done)
        summary = folded.summary
    dataset.write_table(summary, snakemake.output.table)
