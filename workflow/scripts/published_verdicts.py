# SPDX-License-Identifier: Apache-2.0
"""Collect the verdicts on all published claims."""

from pathlib import Path

from tpcsweep.published.report import write
from tpcsweep.studies.terena2005.runs import read_folder
from tpcsweep.studies.terena2005.table import verdicts

folder = Path(snakemake.output.table).parent
write(folder, [Path(file) for file in snakemake.input.figures], verdicts(read_folder(folder / "terena2005")))
