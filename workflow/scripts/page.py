# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study."""

from pathlib import Path

from tpcsweep.analysis.page_sections import SECTIONS, keep_goals
from tpcsweep.pages import making
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    dataset, page = Path(snakemake.input.dataset), Path(snakemake.output.page)
    keep_goals(snakemake.input.goals, dataset)
    making.make_page(dataset, page, listed=True, analyses=SECTIONS)
