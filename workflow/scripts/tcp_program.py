"""Compile the program that simulates TCP with ns-3."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.studies.terena2005.simulation import SimulationError, build

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    build(Path(snakemake.output[0]))
except SimulationError as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
