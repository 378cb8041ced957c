# SPDX-License-Identifier: Apache-2.0
"""Measure the configured sweep in rounds, until its surface is known well enough."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

import sys
from pathlib import Path

from tpcsweep.adaptive.rounds import RoundError, Rounds, draw
from tpcsweep.configuration.loading import load
from tpcsweep.dataset import DatasetError
from tpcsweep.files import write_json
from tpcsweep.running import damaged
from tpcsweep.running.scripts import make, reported

settings = load(snakemake.config, Path())
listed = Path(snakemake.log[0]).with_name("adaptive_cells.json").resolve()


def measure(cells):
    """One job a deployment, as in every sweep."""
    write_json(listed, [cell.path for cell in cells])
    make(snakemake.params.inner, {**settings.run.data, "only": listed}, ["cells"])


rounds = Rounds(settings, measure, print)
with reported(snakemake.log[0], RoundError, DatasetError, about=settings.name), signals.interruptible():
    damaged.search(settings, map(settings.cell_file, settings.grid.cells))
    rounds.run()
draw(rounds.folder)
print(f"{settings.name}: {rounds.reason}: {rounds.folder / 'dataset.nc'}")
if rounds.failed:
    sys.exit(f"{settings.name}: these deployments failed: {', '.join(rounds.failed)}")
