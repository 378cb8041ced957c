"""Try once more what was left out or disturbed, and say what is left out still."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.configuration.loading import load
from tpcsweep.running import holes, runner

if TYPE_CHECKING:
    from snakemake.script import snakemake

settings = load(snakemake.config, Path())
try:
    found = runner.end(settings)
except runner.expected(settings) as error:
    sys.exit(f"{settings.name}: {error}")
holes.write(
    found,
    len(settings.grid.cells),
    Path(snakemake.output.holes),
    Path(snakemake.output.front),
    Path(snakemake.params.front),
)
