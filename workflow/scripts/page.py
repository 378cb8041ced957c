# SPDX-License-Identifier: Apache-2.0
"""Make the page of a study."""

from pathlib import Path

from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.pages import making
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], ConfigurationError):
    making.make_page(Path(snakemake.input.dataset), Path(snakemake.output.page), listed=True)
