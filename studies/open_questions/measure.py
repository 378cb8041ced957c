# SPDX-License-Identifier: Apache-2.0
"""Run the experiments with netem in user-mode Linux."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from experiments import measure
from tpcsweep.common.files import write_json
from tpcsweep.running.studies import exit_on_errors
from uml import UmlError

file = Path(snakemake.params.file)
with exit_on_errors(snakemake.log[0], UmlError, about="open_questions"), signals.interruptible():
    write_json(file, measure())
print(f"{file.absolute()}: all experiments are measured. Run snakemake -s studies/open_questions/Snakefile")
