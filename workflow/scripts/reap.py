"""Remove what killed runs have left on the configured testbed."""

from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.running.reporting import reported
from tpcsweep.running.runner import expected, reap

settings = load(snakemake.config, Path())
with reported(snakemake.log[0], *expected(settings)):
    for thing in reap(settings) or ["nothing was left"]:
        print("reaped:", thing)
