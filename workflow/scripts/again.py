# SPDX-License-Identifier: Apache-2.0
"""Try once more what was left out or disturbed, and say what is left out still."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.testbeds.netns import machine

settings = load(snakemake.config, Path())
if settings.testbed.kind == "netns":
    machine.enter()

from tpcsweep.running import holes, runner
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], *runner.expected(settings), about=settings.name):
    holes.write(
        runner.finish(settings),
        len(settings.grid.cells),
        Path(snakemake.output.holes),
        Path(snakemake.output.front),
        Path(snakemake.params.front),
    )
