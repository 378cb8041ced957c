"""Measure on this machine's kernel what is not measured yet."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.studies.terena2005.cases import MEASURED
from tpcsweep.studies.terena2005.measurement import MeasurementError, measure_all
from tpcsweep.testbeds.netns.machine import MachineError
from tpcsweep.testbeds.netns.state import TeardownError

if TYPE_CHECKING:
    from snakemake.script import snakemake

folder = Path(snakemake.params.folder)
expected = (MachineError, MeasurementError, TeardownError)
try:
    measure_all(MEASURED, folder, lambda text: print(text, flush=True))
except expected as error:
    sys.exit(f"terena2005: {error}")
print(f"{folder}: all of {len(MEASURED)} are measured; snakemake terena2005 shows them")
