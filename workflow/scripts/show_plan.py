# SPDX-License-Identifier: Apache-2.0
"""Print the answer to the question of the configuration."""

import json
from pathlib import Path

from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.configuration.overview import show
from tpcsweep.planning.overview import table
from tpcsweep.planning.plan import Plan
from tpcsweep.running.scripts import reported

settings = load(snakemake.config, Path())
with reported(snakemake.log[0], ConfigurationError):
    settings.run.needed_target()
show(table(Plan.from_dict(json.loads(Path(snakemake.input.answer).read_text()))))
print("written:", *snakemake.input, sep="\n  ")
