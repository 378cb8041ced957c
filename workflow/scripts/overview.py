# SPDX-License-Identifier: Apache-2.0
"""List all studies in a results folder."""

from pathlib import Path

from tpcsweep.running import overview
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    overview.list_sweeps(Path(snakemake.output.page).parent)
