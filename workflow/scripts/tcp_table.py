# SPDX-License-Identifier: Apache-2.0
"""Write the one table of terena2005."""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
from tpcsweep.dataset.spreadsheets import write_csv
from tpcsweep.studies.terena2005.runs import read
from tpcsweep.studies.terena2005.table import markdown, rows

table = rows(read([*snakemake.input.simulated, *snakemake.input.measured]))
write_csv(pd.DataFrame(map(asdict, table)), snakemake.output.csv, digits=None)
Path(snakemake.output.markdown).write_text(markdown(table))
