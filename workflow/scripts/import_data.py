# SPDX-License-Identifier: Apache-2.0
"""Make the dataset of data from elsewhere."""

from pathlib import Path

from tpcsweep import dataset
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.extras import MissingExtraError
from tpcsweep.importing import outside
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], ConfigurationError, MissingExtraError):
    source = load(snakemake.config, Path()).needed_source()
    folded = outside.bring(source.settings, source.file, source.name)
    dataset.write(folded, snakemake.output.dataset, outside.history(source.settings, folded, source.file))
    dataset.write_table(folded.summary, snakemake.output.table)
