# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

from tpcsweep.configuration import loading as configurations
from tpcsweep.configuration import yaml_file
from tpcsweep.configuration.checks import require
from tpcsweep.configuration.problems import ConfigurationError, raise_any
from tpcsweep.linux.signals import tell_jobs
from tpcsweep.running.asked import unknown, unread
from tpcsweep.running.holes import NoCellsError, foldable, renew
from tpcsweep.running.internals import Internals, command_line, spare_pandas
from tpcsweep.published.figures import FIGURES
from tpcsweep.running.results import ResultsError, require_folder, require_writable
from tpcsweep.running.rules import DEPLOYMENT, Jobs, Targets, group_of
from tpcsweep.running.runner import begin, conclude, damage_found, expected

# What the command line or a profile says: config.yaml names the testbed of sweeps, not of published figures.
GIVEN = dict(config)
LINE = command_line(sys.argv)

# Looked through before Snakemake reads it, which follows any alias and any nesting.
CONFIGURED = Path("config/config.yaml")
if CONFIGURED.is_file():
    try:
        yaml_file.read(CONFIGURED, str(CONFIGURED))
    except ConfigurationError as error:
        sys.exit(str(error))


configfile: "config/config.yaml"


try:
    SETTINGS = configurations.load(config, Path(workflow.basedir))
    PUBLISHED = f"{SETTINGS.run.results}/published"
    TARGETS = Targets(LINE.targets, FIGURES, Path(PUBLISHED))
    WRITTEN = SETTINGS.folder if TARGETS.of_configured_sweep else Path(PUBLISHED)
    require_folder(WRITTEN)
    # Else nothing of the configured sweep is checked, written or locked: what is asked for has another one, or none.
    MEASURES = SETTINGS.measures and TARGETS.of_configured_sweep
    # Else none of it is measured either: what is asked for is made of the cells that are there.
    COMPLETES = MEASURES and (
        SETTINGS.run.measure or not TARGETS.of_what_is_there(SETTINGS.folder)
    )
    AGAIN = COMPLETES and TARGETS.beyond_cells
    IN_VAIN = list(unread(LINE.config, TARGETS, SETTINGS, again=AGAIN))
    CELLS, NO_CELLS = [], ""
    if COMPLETES:
        require(SETTINGS)
        CELLS = [str(SETTINGS.cell_file(cell)) for cell in SETTINGS.grid.cells]
    elif MEASURES:
        try:
            FILES, LEFT_OUT = foldable(SETTINGS)
            CELLS = [str(file) for file in FILES]
            if LEFT_OUT:
                print(LEFT_OUT, file=sys.stderr)
        except NoCellsError as error:
            # Said below: what was asked for may be none of the targets.
            NO_CELLS = str(error)
    if MEASURES and TARGETS.names == ("grid",):
        # Now, when nothing is planned, written or locked yet; and here, as few runs ask for it.
        from tpcsweep.configuration.overview import show, table

        raise_any(IN_VAIN)
        show(table(SETTINGS))
        sys.exit()
except (ConfigurationError, ResultsError) as error:
    sys.exit(str(error))

RESULTS = str(SETTINGS.folder)
DATASET = f"{RESULTS}/dataset.nc"
INDEX = f"{RESULTS}/index.html"
MODELS = f"{RESULTS}/models.json"
INTERNALS = Internals(workflow, LINE.profiles)
JOBS = Jobs(SETTINGS, INTERNALS.force, queued=LINE.queued or LINE.of_job)
tell_jobs()

# The first page of the report; of what is measured, with the cells first that could not be.
PAGE = "simulated" if SETTINGS.measures and SETTINGS.testbed.simulated else "workflow"
FRONT = f"{workflow.basedir}/workflow/report/{PAGE}.rst"
FRONT_PAGE = f"{RESULTS}/front.rst" if SETTINGS.measures else FRONT
if LINE.reports and SETTINGS.measures:
    # Anew, as Snakemake runs it as a template of Jinja's, and results may have come from somebody else.
    renew(SETTINGS, Path(FRONT_PAGE), Path(FRONT))


rule all:
    default_target: True
    input:
        str(SETTINGS.product),
        INDEX if SETTINGS.comparison is None else [],
    # Without a message Snakemake names every cell's file, of 10⁵ too.
    message:
        f"{SETTINGS.product} is there"


rule cells:
    input:
        CELLS,
    message:
        f"{len(CELLS)} cells are in {RESULTS}/cells"


onstart:
    try:
        require_writable(WRITTEN)
        if MEASURES:
            # With conda, jobs have an environment of their own, which is not looked into.
            deploying = [DEPLOYMENT, *(["again"] if SETTINGS.run.again else [])]
            deploys = not INTERNALS.in_conda and any(
                map(INTERNALS.will_run, deploying)
            )
            begin(SETTINGS, try_testbed=deploys, run=INTERNALS.run)
    except (ResultsError, OSError, *expected(SETTINGS)) as error:
        sys.exit(str(error))


onsuccess:
    if MEASURES and (told := damage_found(SETTINGS)):
        print(told, file=sys.stderr)
    if MEASURES and (left := conclude(SETTINGS, INTERNALS.run)):
        sys.exit(left)


onerror:
    if MEASURES:
        ended = (damage_found(SETTINGS), conclude(SETTINGS, INTERNALS.run))
        for told in filter(None, ended):
            print(told, file=sys.stderr)


include: "workflow/rules/extras.smk"


if MEASURES:

    include: "workflow/rules/measure.smk"
    include: "workflow/rules/dataset.smk"


include: "workflow/rules/import.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/without_files.smk"
include: "workflow/rules/open_questions.smk"
include: "workflow/rules/terena2005.smk"
include: "workflow/rules/published.smk"


if LINE.targets and not LINE.of_job:
    MADE = [*INTERNALS.files, *CELLS]
    IN_VAIN += unknown(LINE.targets, INTERNALS.rules, MADE, INTERNALS.makes)
if LACKS := "\n".join(map(str, IN_VAIN)) or NO_CELLS:
    sys.exit(LACKS)

if LINE.queued:
    INTERNALS.group(group_of)
INTERNALS.run_in(f"{workflow.basedir}/envs/tpcsweep.yaml")
spare_pandas()
