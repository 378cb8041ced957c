import json
import sys

# Each question has a folder of its own, so that none is answered with another's files.
PLAN = str(SETTINGS.folder / "plan" / SETTINGS.run.name)


rule recommendations:
    input:
        dataset=f"{RESULTS}/dataset.nc",
        models=f"{RESULTS}/models.json",
    output:
        json=f"{PLAN}/recommendations.json",
        csv=f"{PLAN}/recommendations.csv",
    log:
        f"{PLAN}/logs/recommendations.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/recommendations.py"


if SETTINGS.run.target is None:

    # The same script: it says which key is missing.
    rule plan:
        log:
            f"{RESULTS}/logs/plan.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        script:
            "../scripts/show_plan.py"

else:

    rule answer:
        input:
            dataset=f"{RESULTS}/dataset.nc",
            models=f"{RESULTS}/models.json",
        output:
            answer=f"{PLAN}/plan.json",
            png=f"{PLAN}/plan.png",
            svg=f"{PLAN}/plan.svg",
        log:
            f"{PLAN}/logs/plan.log",
        conda:
            "../../envs/tpcsweep.yaml"
        script:
            "../scripts/plan.py"

    rule plan_notebook:
        input:
            notebook="notebooks/plan.ipynb",
            dataset=f"{RESULTS}/dataset.nc",
            models=f"{RESULTS}/models.json",
        output:
            f"{RESULTS}/notebooks/plan/{SETTINGS.run.name}.ipynb",
        log:
            f"{PLAN}/logs/notebook.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            python=sys.executable,
            question=f"question: {json.dumps(SETTINGS.run.content)}",
        shell:
            "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output:q}.part.ipynb"
            " -r dataset {input.dataset:q} -r models {input.models:q} -y {params.question:q}"
            " && mv {output:q}.part.ipynb {output:q}; }} > {log:q} 2>&1"

    rule plan:
        input:
            answer=f"{PLAN}/plan.json",
            figure=f"{PLAN}/plan.png",
            recommendations=f"{PLAN}/recommendations.csv",
            notebook=f"{RESULTS}/notebooks/plan/{SETTINGS.run.name}.html",
        log:
            f"{RESULTS}/logs/plan.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        script:
            "../scripts/show_plan.py"
