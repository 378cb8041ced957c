"""Measure what is stale of one deployment."""

import sys
from pathlib import Path

from tpcsweep.configuration import load
from tpcsweep.runner import EXPECTED, run

try:
    run(load(snakemake.config, Path()), snakemake.wildcards.deployment, Path(snakemake.log[0]).parent)
except EXPECTED as error:
    sys.exit(f"{snakemake.wildcards.deployment}: {error}")
