"""Remove what killed runs have left on the configured testbed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.configuration.loading import load
from tpcsweep.running.runner import expected, reap

if TYPE_CHECKING:
    from snakemake.script import snakemake

settings = load(snakemake.config, Path())
try:
    for what in reap(settings) or ["nothing was left"]:
        print("reaped:", what)
except expected(settings) as error:
    sys.exit(str(error))
