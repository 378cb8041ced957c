# SPDX-License-Identifier: Apache-2.0
"""Make the dataset of a study."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.common.extras import MissingExtraError
from tpcsweep.data.reduction import DatasetError
from tpcsweep.running.run_lock import ResultsError
from tpcsweep.running.studies import Studies, exit_on_errors, require_planned
from tpcsweep.running.study_dataset import make_dataset

name = snakemake.wildcards.study
studies = Studies(snakemake.config, only=name)
study = studies[name]
expected = DatasetError, MissingExtraError, ResultsError
with exit_on_errors(snakemake.log[0], *expected, about=study.name), signals.interruptible():
    now = studies.attributes(snakemake.wildcards)
    require_planned(study, snakemake.output[0], now, snakemake.params.attributes)
    make_dataset(study, Path(snakemake.output.dataset), snakemake.threads)
