# SPDX-License-Identifier: Apache-2.0
"""Measure on this machine's kernel the cases that have no file yet."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from tpcsweep.testbeds.netns import requirements

requirements.enter()

from pathlib import Path

from cases import MEASURED
from measurement import MeasurementError, measure_all
from tpcsweep.running.studies import exit_on_errors
from tpcsweep.testbeds.interface import TeardownError
from tpcsweep.testbeds.netns.requirements import MachineError

folder = Path("measured").absolute()
with exit_on_errors(snakemake.log[0], MachineError, MeasurementError, TeardownError, about="terena2005"):
    measure_all(MEASURED, folder, lambda text: print(text, flush=True))
print(f"{folder}: all {len(MEASURED)} cases are measured. Run snakemake -s studies/terena2005/Snakefile")
