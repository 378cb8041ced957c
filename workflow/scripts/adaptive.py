"""Measure the configured sweep in rounds, until its surface is known well enough."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.adaptive.rounds import RoundError, Rounds, draw, list_cells
from tpcsweep.configuration.loading import load
from tpcsweep.linux.signals import interruptible
from tpcsweep.running.inner import command, start

if TYPE_CHECKING:
    from snakemake.script import snakemake

settings = load(snakemake.config, Path())
asked = snakemake.params
chosen = Path(snakemake.log[0]).with_name("adaptive_cells.json").resolve()
config = {**snakemake.config, "only": chosen}
argv = command(asked.python, asked.snakefile, config, asked.testbeds, asked.cores, ["cells"])


def measure(cells):
    """One job a deployment, as in every sweep."""
    list_cells(chosen, cells)
    start(argv)


rounds = Rounds(settings, measure, print)
try:
    with interruptible():
        rounds.run()
except RoundError as error:
    sys.exit(f"{settings.name}: {error}")
draw(rounds.folder)
print(f"{settings.name}: {rounds.reason}: {rounds.folder / 'dataset.nc'}")
if rounds.failed:
    sys.exit(f"{settings.name}: these deployments failed: {', '.join(rounds.failed)}")
