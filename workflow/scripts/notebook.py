# SPDX-License-Identifier: Apache-2.0
"""Run a notebook with its rule's inputs and params as parameters."""

from pathlib import Path

from tpcsweep.running import notebooks
from tpcsweep.running.scripts import reported, written_to

values = {**snakemake.input, **snakemake.params}
with reported(snakemake.log[0], notebooks.NotebookError), written_to(snakemake.log[0]):
    notebooks.run(Path(snakemake.input.notebook), Path(snakemake.output.notebook), values)
