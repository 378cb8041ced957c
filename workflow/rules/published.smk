# SPDX-License-Identifier: Apache-2.0
from os.path import exists


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
        study=either(STUDIES.figures),
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/published_figure.py"


rule published_verdicts:
    """Collect the verdicts on all published claims in one table, and show all figures on one page."""
    input:
        figures=expand("<results>/{study}/published.png", study=STUDIES.figures),
        # That of studies/terena2005 if it was made here, otherwise the one that ships.
        terena2005=next(
            filter(exists, [f"{STUDIES.results}/terena2005/verdicts.json"]),
            workflow.source_path("../../examples/terena2005-verdicts.json"),
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
