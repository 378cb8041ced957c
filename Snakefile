import sys
from pathlib import Path

from tpcsweep import configuration as configurations
from tpcsweep.checks import require
from tpcsweep.jobs import Jobs
from tpcsweep.problems import ConfigurationError
from tpcsweep.runner import begin, declare


configfile: "config/config.yaml"


try:
    SETTINGS = configurations.load(config, Path(workflow.basedir))
    if SETTINGS.measures:
        require(SETTINGS)
except ConfigurationError as error:
    sys.exit(str(error))

RESULTS = str(SETTINGS.folder)
JOBS = Jobs(SETTINGS)
CELLS = []
if SETTINGS.measures:
    SPECIFICATION = declare(SETTINGS)
    CELLS = [str(SETTINGS.cell_file(cell)) for cell in SETTINGS.grid.cells]

# A profile may raise this where testbeds do not share a machine.
workflow.global_resources.setdefault("testbed", 1)


rule all:
    default_target: True
    input:
        str(SETTINGS.product),
        # Named here too, so that a cell that was deleted is measured again.
        CELLS,


rule cells:
    input:
        CELLS,


onstart:
    if SETTINGS.measures:
        begin(SETTINGS)


if SETTINGS.measures:

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
