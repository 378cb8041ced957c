import sys
from pathlib import Path

from tpcsweep.studies.open_questions.sources import experiments, there

SEEN_EXPERIMENTS, SEEN_DATASETS = there(SETTINGS.results)
QUESTIONS = f"{SETTINGS.results}/published/open_questions"


# Of what has been measured what is there: nothing is measured for it.
rule open_questions_notebook:
    input:
        seen=[str(SEEN_EXPERIMENTS), *map(str, SEEN_DATASETS)],
        notebook="notebooks/open_questions.ipynb",
    output:
        table=f"{QUESTIONS}/explanations.csv",
        limits=f"{QUESTIONS}/limits.csv",
        figures=expand(
            f"{QUESTIONS}/{{figure}}.{{kind}}",
            figure=["prediction", "against_arithmetic", "over_rtt"],
            kind=["png", "svg"],
        ),
        notebook=f"{QUESTIONS}/open_questions.ipynb",
    log:
        f"{QUESTIONS}/logs/notebook.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
        ' -r results "$(dirname {output.notebook:q})/../.." -r folder "$(dirname {output.notebook:q})"'
        " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"


rule open_questions:
    input:
        f"{QUESTIONS}/explanations.csv",
        notebook=f"{QUESTIONS}/open_questions.ipynb",
        template="workflow/report/offline/index.html.j2",
    output:
        f"{QUESTIONS}/open_questions.html",
    log:
        f"{QUESTIONS}/logs/html.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{params.python:q} -m nbconvert --to html --embed-images"
        " --template offline --TemplateExporter.extra_template_basedirs=workflow/report"
        ' --output-dir "$(dirname {output:q})" {input.notebook:q} > {log:q} 2>&1'


# Without outputs: it measures when it is asked for, and `open_questions` alone measures nothing.
rule open_questions_measured:
    log:
        f"{QUESTIONS}/logs/measured.log",
    localrule: True
    conda:
        "../../envs/tpcsweep.yaml"
    resources:
        testbed=1,
    params:
        python=sys.executable,
        snakefile=workflow.main_snakefile,
        testbeds=workflow.global_resources["testbed"].value,
        cores=workflow.resource_settings.cores,
        experiments=str(experiments(SETTINGS.results)),
    # A second Snakemake measures the sweep of rivals, and a third draws.
    script:
        "../scripts/open_questions.py"
