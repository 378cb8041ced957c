"""Print the answer to the question of the configuration."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.planning.overview import table
from tpcsweep.planning.plan import Plan

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    load(snakemake.config, Path()).run.needed_target()
except ConfigurationError as error:
    sys.exit(str(error))
console = Console()
console = console if console.is_terminal else Console(width=120)
console.print(table(Plan.from_dict(json.loads(Path(snakemake.input.answer).read_text()))))
print("written:", *snakemake.input, sep="\n  ")
