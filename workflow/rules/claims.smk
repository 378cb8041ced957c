rule claims:
    input:
        f"{RESULTS}/claims.csv",
        f"{RESULTS}/claims.json",
        f"{RESULTS}/notebooks/claims.html",


rule verdicts:
    input:
        dataset=DATASET,
    output:
        table=report(
            f"{RESULTS}/claims.csv",
            category="Claims",
            caption="../report/claims.rst",
            labels={"what": "verdicts", "as": "CSV"},
        ),
        verdicts=f"{RESULTS}/claims.json",
    log:
        f"{RESULTS}/logs/claims.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/claims.py"


use rule surface as claims_notebook with:
    input:
        notebook="notebooks/claims.ipynb",
        dataset=DATASET,
    output:
        notebook=f"{RESULTS}/notebooks/claims.ipynb",
    log:
        f"{RESULTS}/logs/claims_notebook.log",
