# SPDX-License-Identifier: Apache-2.0
"""Draw a published figure."""

from pathlib import Path

from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.published import FIGURES, figure_of
from tpcsweep.published.base import make_figure
from tpcsweep.running.studies import Studies, reported

figure = figure_of(Studies(snakemake.config)[snakemake.wildcards.study])
with reported(snakemake.log[0], ConfigurationError):
    make_figure(FIGURES[figure], Path(snakemake.input.dataset), Path(snakemake.output.figure))
