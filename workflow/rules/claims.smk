# SPDX-License-Identifier: Apache-2.0
rule claims:
    """Give a verdict on each published claim that the sweep's dataset can test."""
    input:
        f"{RESULTS}/claims.csv",
        f"{RESULTS}/claims.json",
        f"{RESULTS}/notebooks/claims.html",


rule verdicts:
    input:
        dataset=DATASET,
    output:
        table=in_report(f"{RESULTS}/claims.csv", "Claims", "claims", "verdicts"),
        verdicts=f"{RESULTS}/claims.json",
    log:
        f"{RESULTS}/logs/claims.log",
    script:
        "../scripts/claims.py"


use rule surface as claims_notebook with:
    input:
        notebook=shipped("notebooks/claims.ipynb"),
        dataset=DATASET,
    output:
        notebook=f"{RESULTS}/notebooks/claims.ipynb",
    log:
        f"{RESULTS}/logs/claims_notebook.log",
