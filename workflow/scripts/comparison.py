# SPDX-License-Identifier: Apache-2.0
"""Compare two datasets."""

from pathlib import Path

from tpcsweep.comparing import comparison
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.running.scripts import reported

with reported(snakemake.log[0], ConfigurationError, comparison.ComparisonError):
    settings = load(snakemake.config, Path())
    base, new = settings.needed_comparison()
    compared = comparison.compare(
        comparison.load_side(base), comparison.load_side(new), (base.text, new.text)
    )
    comparison.write(compared, snakemake.output.json, snakemake.output.table, settings.run.fail_below)
