# SPDX-License-Identifier: Apache-2.0
"""Pack the results of the configured sweep for archives."""

import sys
from pathlib import Path

from tpcsweep.archiving import crate
from tpcsweep.configuration import citation
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.extras import MissingExtraError
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], ConfigurationError, MissingExtraError):
    settings = load(snakemake.config, Path())
    crate.write(settings, Path(snakemake.output.folder), Path(snakemake.output.archive))
print("written:", *snakemake.output, sep="\n  ")
if settings.citation is None:
    print(
        f"authors and licence are those of the software: {citation.FILE} says who measured, and what others may do",
        file=sys.stderr,
    )
