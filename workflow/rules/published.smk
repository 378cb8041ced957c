import sys
from pathlib import Path

from tpcsweep.published import NAMES

# What was asked for on the command line or by a profile: config.yaml names the testbed of sweeps, not of figures.
ASKED = workflow.config_settings.overwrite_config

FIGURES_ASKED_FOR = [name for name in NAMES if name in REQUESTED]
if FIGURES_ASKED_FOR:
    # Here, as few runs draw.
    from tpcsweep.published.figures import FIGURES
    from tpcsweep.published.planned import problems

    REFUSED = [
        line
        for name in FIGURES_ASKED_FOR
        for line in problems(
            FIGURES[name],
            Path(SETTINGS.run.results) / "published",
            ASKED.get("testbed"),
            SETTINGS.run.scale,
        )
    ]
    if REFUSED:
        sys.exit("\n".join(REFUSED))

# The results of other targets that reproduce publications; `snakemake published` makes them too.
OTHER_PUBLICATIONS = [*rules.terena2005.input, *rules.open_questions.output]


# Without outputs, so that they always run: what is left to measure is read from the cells' files.
for figure in NAMES:

    rule:
        name:
            figure
        log:
            f"{SETTINGS.run.results}/published/logs/{figure}.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            python=sys.executable,
            snakefile=workflow.main_snakefile,
            testbeds=workflow.global_resources["testbed"].value,
            cores=workflow.resource_settings.cores,
            figures=[figure],
            everything=False,
            testbed=ASKED.get("testbed"),
            scale=SETTINGS.run.scale,
            file=SETTINGS.run.file,
        script:
            "../scripts/published.py"


rule published:
    input:
        OTHER_PUBLICATIONS,
    log:
        f"{SETTINGS.run.results}/published/logs/published.log",
    localrule: True
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
        snakefile=workflow.main_snakefile,
        testbeds=workflow.global_resources["testbed"].value,
        cores=workflow.resource_settings.cores,
        figures=list(NAMES),
        everything=True,
        testbed=ASKED.get("testbed"),
        scale=SETTINGS.run.scale,
        file=SETTINGS.run.file,
    script:
        "../scripts/published.py"
