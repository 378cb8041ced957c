"""Say which key of the configuration a target needs that is not there."""

from pathlib import Path

from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.running.reporting import reported

with reported(snakemake.log[0], ConfigurationError):
    settings = load(snakemake.config, Path())
    keys = {
        "import": settings.needed_source,
        "compare": settings.needed_comparison,
        "plan": settings.run.needed_target,
    }
    keys[snakemake.rule]()
