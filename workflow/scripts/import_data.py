"""Make the dataset of data from elsewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep import dataset
from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.extras import MissingExtraError
from tpcsweep.importing import outside

if TYPE_CHECKING:
    from snakemake.script import snakemake

try:
    source = load(snakemake.config, Path()).needed_source()
    folded = outside.bring(source.settings, source.file, source.name)
    dataset.write(folded, snakemake.output.dataset, outside.history(source.settings, folded, source.file))
    dataset.write_table(folded.summary, snakemake.output.table)
except (ConfigurationError, MissingExtraError) as error:
    Path(snakemake.log[0]).write_text(f"{error}\n")
    sys.exit(str(error))
