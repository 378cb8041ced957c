# SPDX-License-Identifier: Apache-2.0
"""Judge the published claims on a dataset."""

from pathlib import Path

from tpcsweep.claims.base import write_verdicts
from tpcsweep.claims.judging import judge
from tpcsweep.dataset import load
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    verdicts = judge(load(Path(snakemake.input.dataset)))
    write_verdicts(verdicts, snakemake.output.table, snakemake.output.verdicts)
