# SPDX-License-Identifier: Apache-2.0
"""List all studies in a results folder."""

from pathlib import Path

from tpcsweep.pages import making
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    making.make_overview(Path(snakemake.output.page))
