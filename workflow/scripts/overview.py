# SPDX-License-Identifier: Apache-2.0
"""List all studies in a results folder."""

from pathlib import Path

from tpcsweep import pages
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    pages.make_overview(Path(snakemake.output.page))
