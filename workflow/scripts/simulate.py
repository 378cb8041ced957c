# SPDX-License-Identifier: Apache-2.0
"""Compute the cells of a simulated study."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.running.studies import Studies, exit_on_errors, require_planned
from tpcsweep.testbeds.simulation.testbed import simulate

name = snakemake.wildcards.study
study = Studies(snakemake.config, only=name)[name]
with exit_on_errors(snakemake.log[0], about=study.name), signals.interruptible():
    require_planned(study, snakemake.output[0])
    simulate(study, Path(snakemake.output[0]), snakemake.threads)
