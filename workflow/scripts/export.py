"""Write the dataset of the configured sweep for dashboards."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.exporting import ExportError, exposition, lines

if TYPE_CHECKING:
    from snakemake.script import snakemake

summary = xr.load_dataset(snakemake.input.dataset)
samples = xr.open_dataset(snakemake.input.dataset, group="samples")
try:
    monitoring, metrics = lines(summary, samples), exposition(summary)
except ExportError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
for file, found in ((snakemake.output.monitoring, monitoring), (snakemake.output.metrics, metrics)):
    with Path(file).open("w") as opened:
        opened.writelines(f"{line}\n" for line in found)
print("written:", *snakemake.output, sep="\n  ")
