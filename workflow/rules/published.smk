# SPDX-License-Identifier: Apache-2.0


rule published_figure:
    """Draw the published figure of a study, with the verdicts on its claims."""
    input:
        dataset="<results>/{study}/dataset.nc",
    output:
        figure=report(
            "<results>/{study}/published.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/published.rst",
            labels={"content": "published figure"},
        ),
        svg="<results>/{study}/published.svg",
        verdicts="<results>/{study}/published.json",
    log:
        "<results>/{study}/logs/published.log",
    wildcard_constraints:
        study=alternatives_pattern(DRAWN),
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/published_figure.py"


rule published_verdicts:
    """Collect the verdicts on all published claims in one table, and show all figures on one page."""
    input:
        figures=expand("<results>/{study}/published.png", study=DRAWN),
        # The file that studies/terena2005 wrote into this results folder, or the default one.
        terena2005=branch(
            exists(f"{STUDIES.results}/terena2005/verdicts.json"),
            then="<results>/terena2005/verdicts.json",
            otherwise=workflow.source_path("../../examples/terena2005-verdicts.json"),
        ),
    output:
        table="<results>/verdicts.csv",
        json="<results>/verdicts.json",
        figures=multiext("<results>/verdicts", ".png", ".svg"),
        page="<results>/published.html",
    log:
        "<results>/logs/published.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/published_verdicts.py"
