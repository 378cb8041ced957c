# SPDX-License-Identifier: Apache-2.0
"""Show the grid or what is there of it, remove what killed runs have left, or say which key `import` lacks."""

from pathlib import Path

from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.configuration.overview import show, table
from tpcsweep.running import status
from tpcsweep.running.runner import expected, reap
from tpcsweep.running.scripts import reported

settings = load(snakemake.config, Path())
with reported(snakemake.log[0], ConfigurationError, *expected(settings)):
    match snakemake.rule:
        case "grid":
            show(table(settings))
        case "status":
            show(status.table(settings))
        case "reap":
            for thing in reap(settings) or ["nothing was left"]:
                print("reaped:", thing)
        case "import":
            settings.needed_source()
