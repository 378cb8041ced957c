# SPDX-License-Identifier: Apache-2.0


rule verdicts:
    """Judge each published claim on the dataset of a study."""
    input:
        dataset="<results>/{study}/dataset.nc",
    output:
        table=report(
            "<results>/{study}/claims.csv",
            category="{study}",
            subcategory="Tables",
            caption="../report/claims.rst",
            labels={"content": "published claims"},
        ),
        verdicts="<results>/{study}/claims.json",
    log:
        "<results>/{study}/logs/verdicts.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/claims.py"


use rule surface as claims with:
    """Show the verdicts on the published claims for a study."""
    input:
        notebook=workflow.source_path("../../notebooks/claims.ipynb"),
        dataset="<results>/{study}/dataset.nc",
    output:
        notebook="<results>/{study}/notebooks/claims.ipynb",
        html=report(
            "<results>/{study}/notebooks/claims.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "claims"},
        ),
    log:
        "<results>/{study}/logs/claims.log",
