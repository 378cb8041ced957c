# SPDX-License-Identifier: Apache-2.0
from tpcsweep.studies.open_questions.sources import experiments, there

SEEN_EXPERIMENTS, SEEN_DATASETS = there(SETTINGS.results)
QUESTIONS = f"{PUBLISHED}/open_questions"


# Of what has been measured what is there: nothing is measured for it.
use rule surface as open_questions_notebook with:
    input:
        seen=[str(SEEN_EXPERIMENTS), *map(str, SEEN_DATASETS)],
        notebook=shipped("notebooks/open_questions.ipynb"),
    output:
        table=f"{QUESTIONS}/explanations.csv",
        limits=f"{QUESTIONS}/limits.csv",
        joint=f"{QUESTIONS}/joint.csv",
        figures=pictures(QUESTIONS, "prediction", "against_arithmetic", "over_rtt"),
        notebook=f"{QUESTIONS}/open_questions.ipynb",
    log:
        f"{QUESTIONS}/logs/notebook.log",
    params:
        folder=subpath(output.notebook, parent=True),
        results=subpath(output.notebook, ancestor=3),


use rule notebook_html as open_questions with:
    """Say what the measurements that are there say of two open questions."""
    input:
        f"{QUESTIONS}/explanations.csv",
        notebook=f"{QUESTIONS}/open_questions.ipynb",
        template=shipped("workflow/report/offline/index.html.j2"),
    output:
        f"{QUESTIONS}/open_questions.html",
    log:
        f"{QUESTIONS}/logs/html.log",


# Without outputs: it measures when it is asked for, and `open_questions` alone measures nothing.
rule open_questions_measured:
    """Measure what would settle them, and what can be here."""
    log:
        f"{QUESTIONS}/logs/measured.log",
    localrule: True
    resources:
        testbed=1,
    # A second Snakemake measures the sweep of rivals, and a third draws.
    params:
        inner=INTERNALS.inner,
        experiments=str(experiments(SETTINGS.results)),
    script:
        "../scripts/open_questions.py"
