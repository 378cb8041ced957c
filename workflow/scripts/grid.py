"""Print the cells, deployments and expected duration of the configured sweep."""

from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.configuration.overview import show

show(load(snakemake.config, Path()))
