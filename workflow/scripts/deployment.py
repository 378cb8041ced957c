"""Measure what is stale of one deployment."""

import sys
from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.running.runner import expected, run

settings = load(snakemake.config, Path())
try:
    run(settings, snakemake.wildcards.deployment, Path(snakemake.log[0]).parent)
except expected(settings) as error:
    sys.exit(f"{snakemake.wildcards.deployment}: {error}")
