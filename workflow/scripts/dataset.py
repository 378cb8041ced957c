# SPDX-License-Identifier: Apache-2.0
"""Make the dataset of a study."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.configuration.loading import ConfigurationError, Imported
from tpcsweep.dataset import DatasetError, earlier
from tpcsweep.extras import MissingExtraError
from tpcsweep.running import folding
from tpcsweep.running.scripts import reported
from tpcsweep.running.studies import ChangedError, Studies, require_unchanged

studies = Studies(snakemake.config)
study, output = studies[snakemake.wildcards.study], Path(snakemake.output.dataset)
expected = (ChangedError, DatasetError, ConfigurationError, MissingExtraError)
with reported(snakemake.log[0], *expected, about=study.name), signals.interruptible():
    require_unchanged(studies.attributes(snakemake.wildcards), snakemake.params.attributes)
    if isinstance(study, Imported):
        earlier.copy_completed(study.file, output)
    else:
        folding.fold(study, output, snakemake.threads)
