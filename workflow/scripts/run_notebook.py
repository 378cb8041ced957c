# SPDX-License-Identifier: Apache-2.0
"""Run a notebook with the inputs and params of its rule as parameters, and export it as HTML."""

from pathlib import Path

from tpcsweep.dataset.opening import require_dataset
from tpcsweep.running import notebooks
from tpcsweep.running.studies import exit_on_errors, redirected_to_log

values = {**snakemake.input, **snakemake.params, **snakemake.params.get("axes", {})}
with exit_on_errors(snakemake.log[0], notebooks.NotebookError), redirected_to_log(snakemake.log[0]):
    if "dataset" in values:
        require_dataset(Path(values["dataset"]))
    notebooks.run_notebook(Path(snakemake.input.notebook), Path(snakemake.output.notebook), values)
    notebooks.export_notebook(Path(snakemake.output.notebook), Path(snakemake.output.html))
