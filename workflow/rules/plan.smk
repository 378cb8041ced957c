# SPDX-License-Identifier: Apache-2.0

# Each question has a folder of its own, so that none is answered with another's files.
PLAN = str(SETTINGS.folder / "plan" / SETTINGS.run.name)


rule recommendations:
    """Tabulate the streams that the fitted models recommend for each of the other axes' values."""
    input:
        dataset=DATASET,
        models=MODELS,
    output:
        json=f"{PLAN}/recommendations.json",
        csv=f"{PLAN}/recommendations.csv",
    log:
        f"{PLAN}/logs/recommendations.log",
    script:
        "../scripts/plan.py"


if SETTINGS.run.target is not None:

    use rule recommendations as answer with:
        output:
            answer=f"{PLAN}/plan.json",
            png=f"{PLAN}/plan.png",
            svg=f"{PLAN}/plan.svg",
        log:
            f"{PLAN}/logs/plan.log",

    use rule surface as plan_notebook with:
        input:
            notebook=shipped("notebooks/plan.ipynb"),
            dataset=DATASET,
            models=MODELS,
        output:
            notebook=f"{RESULTS}/notebooks/plan/{SETTINGS.run.name}.ipynb",
        log:
            f"{PLAN}/logs/notebook.log",
        params:
            question=SETTINGS.run.content,


ANSWER = {
    "answer": f"{PLAN}/plan.json",
    "figure": f"{PLAN}/plan.png",
    "recommendations": f"{PLAN}/recommendations.csv",
    "notebook": f"{RESULTS}/notebooks/plan/{SETTINGS.run.name}.html",
}


# Without a question it says so.
rule plan:
    """Say what a throughput takes, by the fitted models: --config target="100 Gbit/s" rtt="60 ms"."""
    input:
        **({} if SETTINGS.run.target is None else ANSWER),
    log:
        f"{RESULTS}/logs/plan.log",
    localrule: True
    script:
        "../scripts/show_plan.py"
