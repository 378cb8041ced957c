# SPDX-License-Identifier: Apache-2.0
"""Judge the published claims on a dataset."""

import xarray as xr
from tpcsweep.claims import judge, write_json, write_table

verdicts = judge(xr.load_dataset(snakemake.input.dataset))
write_table(verdicts, snakemake.output.table)
write_json(verdicts, snakemake.output.verdicts)
