# SPDX-License-Identifier: Apache-2.0


rule dataset:
    """Combine the cells of a study into one labelled dataset, or copy an existing dataset."""
    input:
        STUDIES.sources,
    output:
        dataset="<results>/{study}/dataset.nc",
        table=report(
            "<results>/{study}/cells.csv",
            category="{study}",
            subcategory="Tables",
            caption="../report/cells.rst",
            labels={"content": "cells"},
        ),
    log:
        "<results>/{study}/logs/dataset.log",
    wildcard_constraints:
        study=alternatives_pattern(STUDIES.workflow_datasets),
    conda:
        "../../envs/tpcsweep.yaml"
    # Reading processes; the main process could not use more.
    threads: 4
    params:
        attributes=STUDIES.attributes,
    script:
        "../scripts/dataset.py"
