"""Simulate one case with ns-3."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.studies.terena2005.cases import Case
from tpcsweep.studies.terena2005.simulation import SimulationError, simulate

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    found = simulate(Case(**snakemake.params.case), Path(snakemake.input.program))
except SimulationError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
Path(snakemake.output[0]).write_text(json.dumps(found, indent=1))
