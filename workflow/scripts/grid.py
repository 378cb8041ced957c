"""Print the cells, deployments and expected duration of the configured sweep."""

from pathlib import Path

from tpcsweep.configuration import load
from tpcsweep.overview import show

show(load(snakemake.config, Path()))
