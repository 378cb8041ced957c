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
