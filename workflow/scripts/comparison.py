"""Compare two datasets."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.comparing import comparison
from tpcsweep.configuration.loading import ConfigurationError, load

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    settings = load(snakemake.config, Path())
    base, new = settings.needed_comparison()
    found = comparison.compare(comparison.load_side(base), comparison.load_side(new), (base.text, new.text))
    comparison.write(found, snakemake.output.json, snakemake.output.table, settings.run.fail_below)
except (ConfigurationError, comparison.ComparisonError) as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
