# SPDX-License-Identifier: Apache-2.0


rule first_page:
    """Make the page of a study without models at the place of the page, because its first fits take minutes."""
    input:
        dataset="<results>/{study}/dataset.nc",
    output:
        made=touch("<results>/{study}/logs/first_page"),
    log:
        "<results>/{study}/logs/first_page.log",
    priority: 1
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/first_page.py"


rule page:
    """Make the page of a study."""
    input:
        dataset="<results>/{study}/dataset.nc",
        claims="<results>/{study}/claims.json",
        models="<results>/{study}/models.json",
        goals=STUDIES.goals,
        # The page links existing files only.
        notebooks=expand(
            "<results>/{study}/notebooks/{notebook}.html",
            notebook=ALWAYS,
            allow_missing=True,
        ),
    output:
        page="<results>/{study}/index.html",
    log:
        "<results>/{study}/logs/page.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/page.py"


rule overview:
    """List all studies in the results folder."""
    input:
        expand("<results>/{study}/index.html", study=STUDIES),
    output:
        page="<results>/index.html",
    log:
        "<results>/logs/overview.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/overview.py"
