# SPDX-License-Identifier: Apache-2.0
"""Draw a published figure."""

from pathlib import Path

from tpcsweep.analysis.publications.catalogue import FIGURES, published_figure
from tpcsweep.analysis.publications.reproduction import make_figure
from tpcsweep.running.studies import Studies, exit_on_errors

name = snakemake.wildcards.study
figure = published_figure(Studies(snakemake.config, only=name)[name])
with exit_on_errors(snakemake.log[0]):
    make_figure(FIGURES[figure], Path(snakemake.input.dataset), Path(snakemake.output.figure))
