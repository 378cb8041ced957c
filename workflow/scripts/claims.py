# SPDX-License-Identifier: Apache-2.0
"""Judge the published claims on a dataset."""

import xarray as xr
from tpcsweep.claims import judge
from tpcsweep.claims.table import write_verdicts
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0]):
    verdicts = judge(xr.load_dataset(snakemake.input.dataset))
    write_verdicts(verdicts, snakemake.output.table, snakemake.output.verdicts)
