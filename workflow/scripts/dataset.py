"""Fold the cells of the configured sweep into its dataset."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep import dataset
from tpcsweep.configuration import loading as configuration
from tpcsweep.linux.signals import interruptible

if TYPE_CHECKING:
    from snakemake.script import snakemake

settings = configuration.load(snakemake.config, Path())
given = set(snakemake.input.cells)
cells = (cell for cell in settings.grid.cells if str(settings.cell_file(cell)) in given)
wanted = (configuration.wanted(settings, cell) for cell in cells)
try:
    with interruptible():
        folded = dataset.fold(
            snakemake.input.cells,
            settings.grid.axes,
            wanted,
            snakemake.threads,
            snakemake.params.attributes,
        )
        dataset.write(folded, snakemake.output.dataset)
        dataset.write_table(folded.summary, snakemake.output.table)
except dataset.DatasetError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
