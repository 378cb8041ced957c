# SPDX-License-Identifier: Apache-2.0
"""Compile the program that simulates TCP with ns-3."""

from pathlib import Path

from simulation import SimulationError, build
from tpcsweep.common.extras import MissingExtraError
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0], MissingExtraError, SimulationError):
    build(Path(snakemake.output[0]))
