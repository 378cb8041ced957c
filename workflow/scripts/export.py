# SPDX-License-Identifier: Apache-2.0
"""Write the dataset of the configured sweep for dashboards."""

from pathlib import Path

import xarray as xr
from tpcsweep.exporting import ExportError, exposition, lines
from tpcsweep.running.scripts import reported

summary = xr.load_dataset(snakemake.input.dataset)
samples = xr.open_dataset(snakemake.input.dataset, group="samples")
with reported(snakemake.log[0], ExportError):
    texts = lines(summary, samples), exposition(summary)
for file, text in zip(snakemake.output, texts, strict=True):
    with Path(file).open("w") as opened:
        opened.writelines(f"{line}\n" for line in text)
print("written:", *snakemake.output, sep="\n  ")
