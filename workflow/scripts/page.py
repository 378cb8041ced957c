# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study."""

from pathlib import Path

from tpcsweep.pages import making

making.make_page(Path(snakemake.input.dataset), Path(snakemake.output.page))
