import sys
from pathlib import Path

from tpcsweep import configuration as configurations
from tpcsweep.checks import extras, require
from tpcsweep.jobs import Jobs
from tpcsweep.problems import ConfigurationError
from tpcsweep.runner import begin, declare
from tpcsweep.targets import of_configured_sweep, requested


configfile: "config/config.yaml"


try:
    SETTINGS = configurations.load(config, Path(workflow.basedir))
    REQUESTED = requested(sys.argv)
    # Else nothing of the configured sweep is checked, written or locked: what is asked for has another one, or none.
    MEASURES = SETTINGS.measures and of_configured_sweep(
        REQUESTED, SETTINGS.run.results
    )
    if MEASURES:
        require(SETTINGS)
except ConfigurationError as error:
    sys.exit(str(error))

RESULTS = str(SETTINGS.folder)
JOBS = Jobs(SETTINGS)
CELLS = []
if MEASURES:
    SPECIFICATION = declare(SETTINGS)
    CELLS = [str(SETTINGS.cell_file(cell)) for cell in SETTINGS.grid.cells]

# A profile may raise this where testbeds do not share a machine.
workflow.global_resources.setdefault("testbed", 1)


include: "workflow/rules/extras.smk"


rule all:
    default_target: True
    input:
        str(SETTINGS.product),
        # Named here too, so that a cell that was deleted is measured again.
        CELLS,
    # Without a message Snakemake names every cell's file, of 10⁵ too.
    message:
        f"{SETTINGS.product} is there"


rule cells:
    input:
        CELLS,
    message:
        f"{len(CELLS)} cells are in {RESULTS}/cells"


onstart:
    if MEASURES and begin(SETTINGS):
        need(extras(SETTINGS))


if MEASURES:

    include: "workflow/rules/measure.smk"
    include: "workflow/rules/dataset.smk"
    include: "workflow/rules/adaptive.smk"


include: "workflow/rules/import.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/open_questions.smk"
include: "workflow/rules/terena2005.smk"
include: "workflow/rules/published.smk"
