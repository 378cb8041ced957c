# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study before its models are fitted."""

import sys
from pathlib import Path

from tpcsweep.analysis.page_sections import claims_section, effects_section
from tpcsweep.pages import making
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]):
    page = making.make_first_page(Path(snakemake.input.dataset), [claims_section, effects_section])
    if page is not None:
        sys.stderr.write(f"{snakemake.wildcards.study}: first page, without models: {page.absolute()}\n")
