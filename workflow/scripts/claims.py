"""Judge the published claims on a dataset."""

from typing import TYPE_CHECKING

import xarray as xr
from tpcsweep.claims import judge
from tpcsweep.claims.table import write_json, write_table

if TYPE_CHECKING:
    from snakemake.script import snakemake

verdicts = judge(xr.load_dataset(snakemake.input.dataset))
write_table(verdicts, snakemake.output.table)
write_json(verdicts, snakemake.output.verdicts)
