# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study."""

from pathlib import Path

from tpcsweep.pages import making

making.make(Path(snakemake.input.dataset), Path(snakemake.output.page))
