# SPDX-License-Identifier: Apache-2.0
"""Write the dataset of the configured sweep as a Zarr store."""

from pathlib import Path

from tpcsweep import exporting
from tpcsweep.extras import MissingExtraError
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], MissingExtraError):
    exporting.zarr(Path(snakemake.input.dataset), Path(snakemake.output.store))
print("written:", snakemake.output.store)
