# SPDX-License-Identifier: Apache-2.0
"""Fold the cells of the configured sweep into its dataset."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

from functools import partial
from pathlib import Path

from tpcsweep import dataset
from tpcsweep.configuration import loading as configuration
from tpcsweep.running import damaged
from tpcsweep.running.scripts import reported

settings = configuration.load(snakemake.config, Path())
files = set(snakemake.input.cells)
cells = (cell for cell in settings.grid.cells if str(settings.cell_file(cell)) in files)
wanted = (configuration.wanted(settings, cell) for cell in cells)
with reported(snakemake.log[0], dataset.DatasetError), signals.interruptible():
    folded = dataset.fold(
        snakemake.input.cells,
        settings.grid.axes,
        wanted,
        snakemake.threads,
        settings.attributes,
        partial(damaged.set_aside, settings),
    )
    dataset.write(folded, snakemake.output.dataset)
    dataset.write_table(folded.summary, snakemake.output.table)
