# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study."""

from pathlib import Path

from tpcsweep import pages
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    pages.make_page(Path(snakemake.input.dataset), Path(snakemake.output.page), listed=True)
