import sys
from pathlib import Path

from tpcsweep.configuration import loading as configurations
from tpcsweep.configuration.checks import require
from tpcsweep.running.holes import NoCellsError, foldable
from tpcsweep.running.jobs import DEPLOYMENT, Jobs, deploys
from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.running.runner import begin, conclude, expected
from tpcsweep.running.targets import of_configured_sweep, of_what_is_there, requested


configfile: "config/config.yaml"


try:
    SETTINGS = configurations.load(config, Path(workflow.basedir))
    REQUESTED = requested(sys.argv)
    # Else nothing of the configured sweep is checked, written or locked: what is asked for has another one, or none.
    MEASURES = SETTINGS.measures and of_configured_sweep(
        REQUESTED, SETTINGS.run.results
    )
    # Else none of it is measured either: what is asked for is made of the cells that are there.
    COMPLETES = MEASURES and (
        SETTINGS.run.measure
        or not of_what_is_there(REQUESTED, SETTINGS.run.results, SETTINGS.folder)
    )
    CELLS = []
    if COMPLETES:
        require(SETTINGS)
        CELLS = [str(SETTINGS.cell_file(cell)) for cell in SETTINGS.grid.cells]
    elif MEASURES:
        THERE, OTHERS = foldable(SETTINGS)
        CELLS = [str(file) for file in THERE]
        if OTHERS:
            print(OTHERS, file=sys.stderr)
    if MEASURES and REQUESTED == ["grid"]:
        # Now, when nothing is planned, written or locked yet; and here, as few runs ask for it.
        from tpcsweep.configuration.overview import show

        show(SETTINGS)
        sys.exit()
except (ConfigurationError, NoCellsError) as error:
    sys.exit(str(error))

RESULTS = str(SETTINGS.folder)
JOBS = Jobs(SETTINGS, workflow)

# The first page of the report; of what is measured, with the cells first that could not be.
HOW = "simulated" if SETTINGS.measures and SETTINGS.testbed.simulated else "workflow"
FRONT = str(Path(workflow.basedir, "workflow", "report", f"{HOW}.rst"))
FRONT_PAGE = f"{RESULTS}/front.rst" if SETTINGS.measures else FRONT

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
    if MEASURES:
        try:
            # With conda, jobs have an environment of their own, which is not looked into.
            begin(
                SETTINGS,
                try_testbed=not IN_CONDA and deploys(workflow.dag.needrun_jobs()),
            )
        except expected(SETTINGS) as error:
            sys.exit(str(error))


onsuccess:
    if MEASURES and (left := conclude(SETTINGS)):
        sys.exit(left)


onerror:
    if MEASURES and (left := conclude(SETTINGS)):
        print(left, file=sys.stderr)


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


# Snakemake loads pandas, in half a second and 70 MB, to see whether parameters are data frames. None are.
sys.modules.setdefault("pandas", None)
