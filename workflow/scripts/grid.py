"""Print the cells, deployments and expected duration of the configured sweep."""

from pathlib import Path

from rich.console import Console
from tpcsweep.configuration import load
from tpcsweep.overview import table

console = Console()
console = console if console.is_terminal else Console(width=120)
console.print(table(load(snakemake.config, Path())))
