# SPDX-License-Identifier: Apache-2.0
"""Simulate one case with ns-3."""

from pathlib import Path

from cases import Case
from simulation import SimulationError, simulate
from tpcsweep.common.files import write_json
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0], SimulationError):
    outcome = simulate(Case(**snakemake.params.case), Path(snakemake.input.program).absolute())
write_json(Path(snakemake.output[0]), outcome)
