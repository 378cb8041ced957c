# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

from tpcsweep.configuration import loading as configurations
from tpcsweep.configuration.checks import require
from tpcsweep.running.holes import NoCellsError, foldable
from tpcsweep.running.internals import Internals, requested, spare_pandas
from tpcsweep.configuration.problems import ConfigurationError
from tpcsweep.published.figures import FIGURES
from tpcsweep.running.rules import DEPLOYMENT, Jobs, Targets
from tpcsweep.running.runner import begin, conclude, expected

# What the command line or a profile says: config.yaml names the testbed of sweeps, not of published figures.
GIVEN = dict(config)


configfile: "config/config.yaml"


try:
    SETTINGS = configurations.load(config, Path(workflow.basedir))
    PUBLISHED = f"{SETTINGS.run.results}/published"
    TARGETS = Targets(requested(sys.argv), FIGURES, Path(PUBLISHED))
    # Else nothing of the configured sweep is checked, written or locked: what is asked for has another one, or none.
    MEASURES = SETTINGS.measures and TARGETS.of_configured_sweep
    # Else none of it is measured either: what is asked for is made of the cells that are there.
    COMPLETES = MEASURES and (
        SETTINGS.run.measure or not TARGETS.of_what_is_there(SETTINGS.folder)
    )
    CELLS = []
    if COMPLETES:
        require(SETTINGS)
        CELLS = [str(SETTINGS.cell_file(cell)) for cell in SETTINGS.grid.cells]
    elif MEASURES:
        FILES, LEFT_OUT = foldable(SETTINGS)
        CELLS = [str(file) for file in FILES]
        if LEFT_OUT:
            print(LEFT_OUT, file=sys.stderr)
    if MEASURES and TARGETS.names == ["grid"]:
        # Now, when nothing is planned, written or locked yet; and here, as few runs ask for it.
        from tpcsweep.configuration.overview import show, table

        show(table(SETTINGS))
        sys.exit()
except (ConfigurationError, NoCellsError) as error:
    sys.exit(str(error))

RESULTS = str(SETTINGS.folder)
DATASET = f"{RESULTS}/dataset.nc"
MODELS = f"{RESULTS}/models.json"
INTERNALS = Internals(workflow)
JOBS = Jobs(SETTINGS, INTERNALS.force)

# The first page of the report; of what is measured, with the cells first that could not be.
PAGE = "simulated" if SETTINGS.measures and SETTINGS.testbed.simulated else "workflow"
FRONT = f"{workflow.basedir}/workflow/report/{PAGE}.rst"
FRONT_PAGE = f"{RESULTS}/front.rst" if SETTINGS.measures else FRONT


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
            deploying = [DEPLOYMENT, *(["again"] if SETTINGS.run.again else [])]
            deploys = not INTERNALS.in_conda and any(
                map(INTERNALS.will_run, deploying)
            )
            begin(SETTINGS, try_testbed=deploys)
        except expected(SETTINGS) as error:
            sys.exit(str(error))


onsuccess:
    if MEASURES and (left := conclude(SETTINGS)):
        sys.exit(left)


onerror:
    if MEASURES and (left := conclude(SETTINGS)):
        print(left, file=sys.stderr)


include: "workflow/rules/extras.smk"


if MEASURES:

    include: "workflow/rules/measure.smk"
    include: "workflow/rules/dataset.smk"


include: "workflow/rules/import.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/without_files.smk"
include: "workflow/rules/open_questions.smk"
include: "workflow/rules/terena2005.smk"
include: "workflow/rules/published.smk"


INTERNALS.run_in(f"{workflow.basedir}/envs/tpcsweep.yaml")
spare_pandas()
