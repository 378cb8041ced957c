"""Print the answer to the question of the configuration."""

import json
from pathlib import Path

from rich.console import Console
from tpcsweep.planning.overview import table
from tpcsweep.planning.plan import Plan

console = Console()
console = console if console.is_terminal else Console(width=120)
console.print(table(Plan.from_dict(json.loads(Path(snakemake.input.answer).read_text()))))
print("written:", *snakemake.input, sep="\n  ")
