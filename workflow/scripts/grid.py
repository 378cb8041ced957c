"""Print the cells, deployments and expected duration of the configured sweep."""

from pathlib import Path

from rich.console import Console
from tpcsweep.configuration import load
from tpcsweep.overview import table

Console().print(table(load(snakemake.config, Path())))
