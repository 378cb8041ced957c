"""Measure what is stale of one deployment."""

from pathlib import Path

from tpcsweep.configuration import load
from tpcsweep.runner import run

run(load(snakemake.config, Path()), snakemake.wildcards.deployment, Path(snakemake.log[0]).parent)
